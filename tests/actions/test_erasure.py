"""Erasure leaves no residue: a planted word is found in no table and no export, and every chain still holds."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import inspect, text

from horae.actions.audit import seal_all, verify_audit
from horae.actions.governance.decisions import decide, get_decision
from horae.actions.governance.erasure import erase
from horae.actions.governance.proposals import propose
from horae.actions.governance.reviews import answer_review, find_reviews
from horae.actions.governance.verdicts import Given, contest
from horae.actions.jobs.claims import claim
from horae.actions.jobs.endings import settle
from horae.actions.jobs.steps import keep_step
from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Turn
from horae.core.access.callers import Caller
from horae.core.governance.proposals import Proposal
from horae.core.jobs.job import Lease, Outcome
from horae.core.jobs.lines import Lines, LogLine
from horae.errors import Forbidden, InvalidInput, NotFound
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.stores.transfer.export import export
from horae.testing.clock import VirtualClock
from tests.support.refusals import refused

CANARY = "Zaphod-Q7"
APP = Caller("system", frozenset({"tasks", "admin"}), "app/shop")
CAROL = Caller("system", frozenset({"review", "admin"}), "user/carol")


@pytest.fixture
def app(database_url: str) -> Iterator[Horae]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=VirtualClock()) as app:
        yield app


def residue(app: Horae) -> list[str]:
    """Return every table and column in which the word is found, and whether an export has it."""
    found = []
    with app.engine.connect() as connection:
        for table in inspect(connection).get_table_names():
            for row in connection.execute(text(f"SELECT * FROM {table}")).mappings():
                found += [f"{table}.{name}" for name, value in row.items() if CANARY in str(value)]
    out = io.BytesIO()
    export(app.engine, out, created_at="2026-01-01T00:00:00Z")
    return sorted(set(found)) + (["export"] if CANARY.encode() in out.getvalue() else [])


def plant(app: Horae, name: str, **fields: Any) -> None:
    """Store a memory with the word in it, and repeat the word wherever a system of memories repeats it."""
    evidence = [{"reference": f"chat:{CANARY}", "note": f"{CANARY} said so", "source": CANARY}]
    proposal = Proposal(
        "memory", f"{CANARY} likes tea", id=name, subject=f"person {CANARY}", source=f"chat with {CANARY}",
        evidence=evidence, agent="planner", **fields,
    )  # fmt: skip
    propose(app.world, proposal, owner="system", caller=APP, reason=f"{CANARY} told me")
    reference = f"memory:{name}"
    (job,) = claim(app.world, "governance", 1, worker_id="w", lease=timedelta(minutes=1))
    keep_step(app.world, Lease(job.number, job.token), "look up", {"who": CANARY})
    said = Lines((LogLine(app.world.clock.now(), "INFO", f"asks {CANARY}"),))
    settle(app.world, [(job, Outcome("failed", error=f"cannot reach {CANARY}", lines=said))])
    contest(app.world, Given(name, "system", APP, reason=f"{CANARY} denies it"))
    decide(app.world, owner="system", action=f"greet {CANARY}", cites=[reference], actor="app/shop", reason=CANARY)
    ((review, _), *_) = find_reviews(app.world, owner="system", states=["open"])
    answer_review(app.world, review.id, "ask_more", owner="system", person=CAROL, note=f"who is {CANARY}?")
    agent = Attention("host", app)
    agent.control(lambda: Control(must_confirm=frozenset({"greet"})))
    agent.action(effect="once")(greet)

    @agent.cognition("greet")
    def think(turn: Turn) -> Any:
        turn.step("look up", lambda: {"who": f"person {CANARY}"})
        if turn.facts.last("event"):
            return Done(CANARY, context={"who": CANARY}, note=CANARY)
        return Act("greet", {"who": f"person {CANARY}"}, cites=[reference], context={"about": f"{CANARY} likes tea"})

    agent.add("greet", {"memory": name, "who": f"person {CANARY}"})
    agent.run()
    agent.post("news", {"text": f"person {CANARY} came"})


def greet(step: Any, who: str) -> None:
    """Do nothing."""


def test_an_erased_person_is_found_nowhere(app: Horae) -> None:
    """Decision 8."""
    plant(app, "mem_1")
    assert {"horae_object_versions.content", "horae_tasks.payload", "horae_decisions.action_text"} <= set(residue(app))
    assert {"horae_ledger.result", "horae_task_ledger.result", "horae_lines.content"} <= set(residue(app))

    done = erase(app.world, owner="system", caller=CAROL, subject=f"person {CANARY}", reason=f"{CANARY} asked for it")

    assert (done.objects, done.more, done.attention >= 3) == (1, False, True)
    erase(app.world, owner="system", caller=CAROL, object_id="mem_1")
    assert residue(app) == []
    (it,) = app.world.store.read(lambda tx: tx.objects.named("system", "mem_1"))
    assert (it.state, it.next_action, it.erased_at is not None) == ("retracted", None, True)
    seal_all(app.world)
    assert [each.owner for each in verify_audit(app.world) if each.complaints] == []
    assert Attention("host", app).verify().is_sound


def test_erasing_by_id_leaves_others_alone(app: Horae) -> None:
    for name in ("mem_1", "mem_2"):
        propose(app.world, Proposal("memory", f"content of {name}", id=name), owner="system", caller=APP)
    kept = decide(app.world, owner="system", action="look", cites=["memory:mem_2"]).decision

    assert erase(app.world, owner="system", caller=APP, object_id="mem_1").objects == 1
    assert erase(app.world, owner="system", caller=APP, object_id="mem_1").objects == 1

    contents = app.world.store.read(
        lambda tx: [
            each.content
            for each in tx.objects.contents(it.number for it in tx.objects.named("system", "mem_2")).values()
        ]
    )
    assert contents == ["content of mem_2"]
    assert get_decision(app.world, kept.id, owner="system").decision.action == "look"


def test_high_risk_is_erased_by_a_person_and_nothing_without_a_name(app: Horae) -> None:
    propose(app.world, Proposal("memory", "secret", id="mem_1", risk="high"), owner="system", caller=APP)
    with refused(Forbidden, "person_needed"):
        erase(app.world, owner="system", caller=APP, object_id="mem_1")
    with refused(InvalidInput, "erase_one_of"):
        erase(app.world, owner="system", caller=CAROL)
    with refused(NotFound, "object_unknown"):
        erase(app.world, owner="bob", caller=CAROL, object_id="mem_1")
    assert erase(app.world, owner="system", caller=CAROL, subject="nobody").objects == 0
    assert erase(app.world, owner="system", caller=CAROL, object_id="mem_1").objects == 1


def test_what_a_late_worker_says_about_an_erased_object_is_not_stored(app: Horae) -> None:
    """Who comes late: claimed before, ended after the erasure."""
    propose(app.world, Proposal("memory", "content", id="mem_1"), owner="system", caller=APP)
    (job,) = claim(app.world, "governance", 1, worker_id="w", lease=timedelta(minutes=1))
    erase(app.world, owner="system", caller=APP, object_id="mem_1")

    keep_step(app.world, Lease(job.number, job.token), "look up", {"who": CANARY})
    said = Lines((LogLine(app.world.clock.now(), "INFO", f"asks {CANARY}"),))
    settle(app.world, [(job, Outcome("failed", error=f"cannot reach {CANARY}", lines=said))])

    assert residue(app) == []


def test_what_was_logged_is_kept_where_governance_puts_another_outcome(app: Horae) -> None:
    propose(app.world, Proposal("memory", "content", id="mem_1"), owner="system", caller=APP)
    (job,) = claim(app.world, "governance", 1, worker_id="w", lease=timedelta(minutes=1))
    said = Lines((LogLine(app.world.clock.now(), "INFO", "looks"),))

    settle(app.world, [(job, Outcome("succeeded", result='{"verdict":"perhaps"}', lines=said))])

    runs = app.world.store.read(lambda tx: tx.lines.of_job(job.number))
    assert [[line.text for line in each.lines] for each in runs] == [["looks"]]
    assert app.jobs.get(job.id).state == "queued"
