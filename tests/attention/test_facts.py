"""What people and actions say reaches cognition as it was said; and what a driver does not know it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.attention import lanes, turns, waits
from horae.actions.attention.queries import find_tasks, get_task
from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Facts, Policy, Proceed, Rule, Turn, Wait, Yield
from horae.core.attention.directives import intent_hash
from horae.core.attention.lanes import StoredFact
from horae.errors import InvalidInput
from horae.runtime.lanes.spec import Step
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing.clock import NOON, VirtualClock
from tests.attention.stories import an_agent
from tests.support.governed import keep
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=30)
LIKE_OURS = {"key": "k", "event": "e", "action": "a", "step": 9, "late_by": "l", "kind": "x", "at": "y", "grant": "g"}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def app(database_url: str, clock: VirtualClock) -> Iterator[Horae]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=clock) as app:
        yield app


# -- a person's answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approve", ["no", "yes", "", 0, 1, None], ids=repr)
def test_only_true_and_false_answer_a_confirmation(clock: VirtualClock, approve: Any) -> None:
    """The text "no" is true to Python, and approved the refund."""
    with Horae("sqlite://", clock=clock) as app:
        agent, pager = an_agent(app, must_confirm=frozenset({"refund"}))
        agent.add("refund")
        agent.run()
        ((_, (wait,)),) = agent.snapshot().waiting

        with refused(InvalidInput, "not_boolean", name="approve"):
            agent.confirm(wait.number, approve, actor="user/carol")

        assert [each.number for _, (each,) in agent.snapshot().waiting] == [wait.number]
        assert pager.paged == []


@pytest.mark.parametrize("actor", ["", " ", "a" * 256, None], ids=["empty", "space", "too long", "none"])
def test_a_confirmation_names_who_gave_it(clock: VirtualClock, actor: Any) -> None:
    with Horae("sqlite://", clock=clock) as app:
        agent, _ = an_agent(app, must_confirm=frozenset({"refund"}))
        agent.add("refund")
        agent.run()
        ((_, (wait,)),) = agent.snapshot().waiting

        with refused(InvalidInput, "label_unreadable", what="actor"):
            waits.confirm(app.world, agent.name, wait.number, True, actor=actor)


def test_switches_of_directives_are_true_or_false() -> None:
    with refused(InvalidInput, "not_boolean", name="interruptible"):
        Act("refund", interruptible="no")  # type: ignore[arg-type]
    with refused(InvalidInput, "not_boolean", name="release"):
        Yield(release="no")  # type: ignore[arg-type]


# -- data ----------------------------------------------------------------------------------------------------------


def heard_by(agent: Attention, kind: str = "listen") -> list[Any]:
    """Facts as a cognition hears them; it waits for ``bell`` until it has heard one."""
    heard: list[Any] = []

    @agent.cognition(kind)
    def listen(turn: Turn) -> Any:
        heard.extend(fact for fact in turn.facts if fact.kind != "started")
        return Done() if heard else Wait("bell", timeout=MINUTE)

    return heard


def test_the_data_of_an_event_loses_nothing(app: Horae) -> None:
    agent = Attention("ops", app)
    heard = heard_by(agent)
    agent.add("listen")
    agent.run()
    posted = agent.post("bell", LIKE_OURS).event
    agent.run()

    (fact,) = heard
    assert fact.data == LIKE_OURS
    assert fact.about == {"key": "bell", "event": posted.number, "late_by": 0.0, "came": "awaited"}
    assert (fact["key"], fact.key, fact["kind"]) == ("k", "bell", "x")
    assert agent.verify().complaints == ()


@pytest.mark.parametrize("partial", [False, True], ids=["ok", "partial"])
def test_the_facts_of_an_action_lose_nothing(app: Horae, partial: bool) -> None:
    agent = Attention("ops", app)
    heard: list[Any] = []

    @agent.action(effect="idempotent")
    def look_up(step: Step) -> Facts:
        return Facts.partial(**LIKE_OURS, self=1, cls=2) if partial else Facts(**LIKE_OURS, self=1, cls=2)

    @agent.cognition("task")
    def think(turn: Turn) -> Any:
        heard.extend(turn.facts.of("action_partial" if partial else "action_ok", "look_up"))
        return Done() if heard else Act("look_up")

    agent.add("task")
    agent.run()

    (fact,) = heard
    assert (fact.data, fact.about) == ({**LIKE_OURS, "self": 1, "cls": 2}, {"action": "look_up", "step": 1})
    assert (fact["step"], fact.action) == (9, "look_up")


def test_what_an_event_says_of_actions_makes_it_no_fact_of_an_action(app: Horae) -> None:
    agent = Attention("ops", app)
    heard = heard_by(agent)
    agent.add("listen")
    agent.run()
    agent.post("bell", {"action": "refund", "key": "ack"})
    agent.run()

    (fact,) = heard
    assert fact.action is None
    assert fact.key == "bell"


@pytest.mark.parametrize(
    ("kind", "data", "expected", "about"),
    [
        ("event", '{"by":"bob","key":"bell","event":3,"late_by":0.0}', {"by": "bob"}, ["key", "event", "late_by"]),
        ("late_event", '{"key":"confirm:1:1","by":"ann","approve":true}', {"by": "ann", "approve": True}, ["key"]),
        ("action_ok", '{"lines":41,"action":"read","step":1}', {"lines": 41}, ["action", "step"]),
        ("timed_out", '{"keys":["a"],"kind":"event"}', {"keys": ["a"], "kind": "event"}, []),
    ],
    ids=["event", "late confirmation", "action", "of our own"],
)
def test_a_fact_that_was_stored_by_an_older_version_still_reads(
    kind: Any, data: str, expected: dict[str, Any], about: list[str]
) -> None:
    fact = StoredFact(1, 1, 1, kind, NOON, data).fact

    assert fact.data == expected
    assert list(fact.about) == about


def test_a_lane_with_facts_of_an_older_version_is_sound_and_goes_on(app: Horae) -> None:
    """The column is empty after the migration, and the journal never knew it."""
    agent = Attention("ops", app)
    heard = heard_by(agent)
    agent.add("listen")
    agent.run()
    agent.post("bell", {"by": "bob"})

    def as_before(tx: Any) -> None:
        (stored,) = [each for each in tx.attention.everything(1)["fact"] if each.kind == "event"]
        flat = '{"by":"bob","key":"bell","event":1,"late_by":0.0}'
        tx.attention.save(replace(stored, data=flat, about=None))
        tx.connection.execute(text("DELETE FROM horae_journal"))

    app.world.store.transact(as_before)
    agent.run()

    assert [(fact.data, fact.key) for fact in heard] == [({"by": "bob"}, "bell")]


def test_the_same_outage_reported_twice_is_heard_and_the_alert_goes_on(app: Horae, clock: VirtualClock) -> None:
    """The agent of the how-to took the second report for the answer that it waits for."""
    agent, pager = an_agent(app)
    agent.post("db.down", {"id": "db-1"}, event_id="pd-1")
    agent.run()
    agent.post("db.down", {"id": "db-1"}, event_id="pd-2")
    clock.advance(10 * MINUTE)
    agent.run()
    agent.post("ack:db-1", {"by": "bob"})
    agent.run()

    (alert,) = find_tasks(app.world, "ops")
    assert (alert.state, alert.result, pager.paged) == ("completed", '{"by":"bob"}', ["alice", "bob"])


# -- kinds that a driver does not know -----------------------------------------------------------------------------


def test_a_driver_leaves_tasks_of_unknown_kinds_alone_and_attends_to_the_others(app: Horae) -> None:
    agent = Attention("ops", app)
    agent.cognition("old")(lambda turn: Done())
    strange = agent.add("new", priority=90).task
    known = agent.add("old", priority=10).task
    agent.run()

    assert get_task(app.world, "ops", known.id).state == "completed"
    left = get_task(app.world, "ops", strange.id)
    assert (left.state, left.turn, left.errors) == ("ready", 0, 0)
    assert left.reason is not None
    assert "no cognition for tasks of kind 'new'" in left.reason
    assert [task.reason for task in agent.snapshot().backlog] == [left.reason]

    newer = Attention("ops", app)
    newer.cognition("new")(lambda turn: Done("at last"))
    newer.run()
    assert get_task(app.world, "ops", strange.id).result == '"at last"'
    assert agent.verify().complaints == ()


def test_a_focus_of_an_unknown_kind_is_put_aside_until_somebody_knows_it(app: Horae, clock: VirtualClock) -> None:
    """The newer driver died in the middle of its turn; an older one takes over."""
    task = Attention("ops", app).add("new", priority=90).task
    drive = lanes.acquire(app.world, "ops", "newer", lease=LEASE, kinds=["new", "old"])
    assert drive is not None
    assert isinstance(turns.next_work(app.world, drive, Control(), Policy()), turns.Think)
    clock.advance(LEASE * 2)

    older = Attention("ops", app)
    older.cognition("old")(lambda turn: Done())
    other = older.add("old", priority=10).task
    older.run()

    assert get_task(app.world, "ops", other.id).state == "completed"
    aside = get_task(app.world, "ops", task.id)
    assert (aside.state, "left alone" in (aside.reason or "")) == ("suspended", True)

    newer = Attention("ops", app)
    newer.cognition("new")(lambda turn: Done([fact.kind for fact in turn.facts]))
    newer.run()
    ended = get_task(app.world, "ops", task.id)
    assert ended.state == "completed"
    assert ended.result == '["started","recovered","interrupted","resumed"]'
    assert older.verify().complaints == ()


def test_a_strong_task_of_an_unknown_kind_does_not_interrupt(app: Horae) -> None:
    agent = Attention("ops", app)
    turns_seen: list[int] = []

    @agent.action(effect="idempotent")
    def work(step: Step) -> Facts:
        agent.add("new", priority=99, key="strong")
        return Facts(yields=step.should_yield())

    @agent.cognition("old")
    def old(turn: Turn) -> Any:
        turns_seen.append(turn.number)
        done = turn.facts.last("action_ok")
        return Act("work") if done is None else Done(done["yields"])

    task = agent.add("old", priority=10).task
    agent.run()

    assert (get_task(app.world, "ops", task.id).result, turns_seen) == ("false", [1, 2])


def test_a_task_of_an_unknown_kind_can_be_cancelled(app: Horae) -> None:
    agent = Attention("ops", app)
    task = agent.add("new").task
    agent.run()

    assert agent.cancel(task.id, actor="ann").state == "cancelled"


def test_an_event_makes_a_task_of_a_kind_that_only_newer_code_knows(app: Horae) -> None:
    agent = Attention("ops", app)
    agent.rule(Rule("db.down", do="task", kind="alert"))
    made = agent.post("db.down").event.task
    agent.run()

    assert made is not None
    assert get_task(app.world, "ops", f"t{made}").state == "ready"


# -- what an act asks for ----------------------------------------------------------------------------------------------


def test_an_action_gets_arguments_of_any_name_and_the_journal_keeps_what_is_cited(app: Horae) -> None:
    """Arguments named like options of ``Act`` used to vanish."""
    given = {"note": "n", "context": [1], "interruptible": "no", "cites": 2, "action": "a", "arguments": {}, "key": "k"}
    cites = ["memory:mem_ab12", "experience:exp:7"]
    keep(app.world, "mem_ab12", "exp:7", owner="system")
    agent, got = Attention("names", app), list[dict[str, Any]]()

    @agent.action(effect="idempotent")
    def send(step: Step, /, **arguments: Any) -> None:
        got.append(arguments)

    @agent.cognition("k")
    def decide(turn: Turn) -> Act | Done:
        return Done() if turn.facts.last("action_ok") else Act("send", arguments=given, cites=cites)

    agent.add("k")
    agent.run()

    assert got == [given]
    assert [line.details["cites"] for line in agent.journal() if line.cause == "step_intended"] == [cites]
    assert agent.verify().is_sound


def test_an_approval_is_for_what_was_cited_too(app: Horae) -> None:
    agent, done = Attention("approved", app), list[Any]()
    keep(app.world, "mem_ab12", owner="system")
    agent.control(lambda: Control(must_confirm=frozenset({"send"})))

    @agent.action(effect="once")
    def send(step: Step, note: str) -> None:
        done.append(note)

    @agent.cognition("k")
    def decide(turn: Turn) -> Act | Done | Proceed:
        if turn.facts.last("action_ok"):
            return Done()
        granted = turn.facts.last("confirmed")
        return Proceed(granted.grant) if granted else Act("send", {"note": "hi"}, cites=["memory:mem_ab12"])

    agent.add("k")
    agent.run()
    ((_, (wait,)),) = agent.snapshot().waiting
    agent.confirm(wait.number, True, actor="user/carol")
    agent.run()

    assert done == ["hi"]
    (intended,) = [line for line in agent.journal() if line.cause == "step_intended"]
    assert intended.details["cites"] == ["memory:mem_ab12"]
    intent = {"action": "send", "arguments": {"note": "hi"}, "cites": ["memory:mem_ab12"]}
    assert wait.intent_hash == intent_hash(intent) != intent_hash({**intent, "cites": ["memory:other"]})
