"""Every operation of decisions, personas and reviews, through all four senders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

import pytest

import horae
from horae.api.application import Acting
from horae.api.governance import decisions, personas, reviews
from horae.api.governance.personas import Boundary
from horae.api.here import Here
from horae.core.access.callers import Caller
from horae.core.governance.decisions import Decision
from horae.core.governance.personas import Persona
from horae.core.governance.reviews import Review
from horae.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from tests.api.conftest import SENDERS, WaitedRooms
from tests.support.governed import OWNER, keep, link
from tests.support.refusals import refused
from tests.support.serving import Served

numbers = count()


@dataclass
class People:
    """The rooms of an agent, of a person who answers for the same owner, and of an operator."""

    planner: Any
    carol: Any
    operator: Any


@pytest.fixture(params=SENDERS)
def rooms(request: pytest.FixtureRequest, served: Served) -> Iterator[People]:
    given: list[Any] = [
        ("alice", ["tasks", "review"], "planner"),
        ("alice", ["review"], None),
        ("system", ["admin"], None),
    ]
    if request.param.startswith("local"):
        names = ("token/1", "user/carol", "user/ann")
        callers = [Caller(o, frozenset(s), n, agent=a) for n, (o, s, a) in zip(names, given, strict=True)]
        near = [Acting(lambda caller=caller: Here(served.world, caller)) for caller in callers]  # type: ignore[misc]
        if request.param == "local":
            yield People(*near)
            return
        loop = asyncio.new_event_loop()
        yield People(*(WaitedRooms(loop, each.aio) for each in near))
        loop.close()
        return
    tokens = [served.token(owner, *scopes, agent=agent) for owner, scopes, agent in given]
    if request.param == "http":
        clients = [horae.Client(served.url, token) for token in tokens]
        yield People(*clients)
        for client in clients:
            client.close()
        return
    loop = asyncio.new_event_loop()
    awaited = [horae.AsyncClient(served.url, token) for token in tokens]
    yield People(*(WaitedRooms(loop, client) for client in awaited))
    for each in awaited:
        loop.run_until_complete(each.aclose())
    loop.close()


@pytest.fixture
def memory(served: Served) -> str:
    """A memory of high risk that is stale."""
    (it,) = keep(served.world, f"mem_{next(numbers)}", state="stale", risk="high")
    return f"memory:{it.id}"


def test_an_agent_decides_and_a_person_approves(rooms: People, memory: str) -> None:
    made = rooms.planner.decisions.decide("pay 40", cites=[memory], risk="low", correlation="t-1", reason="asked for")

    assert isinstance(made, decisions.Decision)
    assert (made.owner, made.agent, made.action, made.risk, made.outcome) == (
        OWNER, "planner", "pay 40", "high", "escalated",
    )  # fmt: skip
    assert (made.cites, made.gates["risk"], made.correlation) == ((memory,), "block", "t-1")
    asked = rooms.carol.reviews.get(made.opened_review)
    assert isinstance(asked, reviews.Review)
    assert (asked.about, asked.decision, asked.state, asked.kind) == (memory, made.id, "open", "decision")
    assert asked in list(rooms.carol.reviews.list(state="open", limit=5))
    with refused(Forbidden, "person_needed"):
        rooms.planner.reviews.answer(asked.id, "approve")

    answered = rooms.carol.reviews.answer(asked.id, "approve", note="I called them")

    assert (answered.answer, answered.note, answered.state) == ("approve", "I called them", "closed")
    second = rooms.planner.decisions.get(answered.successor)
    assert (second.outcome, second.predecessor, second.review) == ("limited", made.id, asked.id)
    assert rooms.planner.decisions.get(made.id).successor == second.id
    with refused(Conflict, "review_answered"):
        rooms.carol.reviews.answer(asked.id, "reject")


def test_decisions_come_page_by_page(rooms: People) -> None:
    made = [rooms.planner.decisions.decide("look", risk="low").id for _ in range(3)]

    first = rooms.planner.decisions.list(agent="planner").page(limit=2)
    rest = rooms.planner.decisions.list(agent="planner").page(first.next_cursor, limit=2)

    assert [each.id for each in (*first.items, *rest.items)][:3] == made[::-1]
    assert {each.outcome for each in rooms.operator.decisions.list(owner=OWNER, outcome="executed", limit=3)} == {
        "executed"
    }
    assert list(rooms.operator.decisions.list(owner="nobody")) == []


def test_a_token_of_an_agent_decides_for_no_other(rooms: People) -> None:
    with refused(Forbidden, "agent_of_token"):
        rooms.planner.decisions.decide("pay", agent="other")
    with refused(InvalidInput, "cite_unreadable"):
        rooms.planner.decisions.decide("pay", cites=["mem_1"])
    with refused(NotFound, "object_unknown"):
        rooms.planner.decisions.decide("pay", cites=["memory:none"])
    with refused(NotFound, "decision_unknown"):
        rooms.planner.decisions.get("dec_none")


def test_a_persona_is_set_by_a_person(rooms: People) -> None:
    agent = f"agent{next(numbers)}"
    for caller in (rooms.planner, rooms.carol):
        with refused(Forbidden, "scope_missing"):
            caller.personas.set(agent, boundaries=["pay"])
    limit = Boundary(text="refund", effect="limit")
    first = rooms.operator.personas.set(agent, boundaries=["pay"], owner=OWNER, reason="new")
    second = rooms.operator.personas.set(
        agent, boundaries=["pay", limit], values=["care"], owner=OWNER, expected_version=first.version
    )

    assert isinstance(second, personas.Persona)
    assert second.boundaries == (Boundary(text="pay"), limit)
    assert rooms.planner.personas.get(agent) == second
    assert second in rooms.carol.personas.list()
    history = list(rooms.carol.personas.history(agent))
    assert [(each.reason, len(each.boundaries)) for each in history] == [(None, 2), ("new", 1)]
    with refused(VersionConflict, "persona_version_old"):
        rooms.operator.personas.set(agent, owner=OWNER, expected_version=1)
    with refused(NotFound, "persona_unknown"):
        rooms.planner.personas.get("none")


def test_anybody_who_works_for_the_owner_may_ask(rooms: People, memory: str) -> None:
    asked = rooms.planner.reviews.ask(memory, "Is it still so?")
    again = rooms.planner.reviews.ask(memory, "Is it?")

    assert (asked.question, asked.kind, again) == ("Is it still so?", "asked", asked)
    with refused(InvalidInput, "cite_unreadable"):
        rooms.planner.reviews.ask("mem_1", "Is it?")
    with refused(NotFound, "review_unknown"):
        rooms.carol.reviews.answer("rev_none", "approve")
    assert rooms.carol.reviews.answer(asked.id, "ask_more").successor is None


def test_every_field_is_public_or_hidden_on_purpose() -> None:
    public = {each.name for each in fields(decisions.Decision)}
    assert {each.name for each in fields(Decision)} - public == {"number", "job"}
    public = {each.name for each in fields(reviews.Review)}
    assert {each.name for each in fields(Review)} - public == {"number", "object", "job"}
    assert {each.name for each in fields(Persona)} == {each.name for each in fields(personas.Persona)}


def test_an_application_decides_in_one_call(served: Served) -> None:
    near = Acting(lambda: Here(served.world, Caller(OWNER, frozenset({"tasks"}), "app/shop")))
    assert near.decide("look", risk="low").outcome == "executed"


def test_a_person_rolls_back_a_forged_memory_and_an_operator_erases_it(rooms: People, served: Served) -> None:
    name, above = f"mem_{next(numbers)}", f"exp_{next(numbers)}"
    (forged,), (experience,) = keep(served.world, name, state="quarantine"), keep(served.world, above)
    link(served.world, (experience, forged))

    with refused(Forbidden, "person_needed"):
        rooms.planner.objects.rollback(name)
    seen = rooms.carol.objects.rollback(name, dry_run=True)
    done = rooms.carol.objects.rollback(name, reason="made up")

    assert (seen.state, seen.found, seen.first) == ("dry_run", 1, (f"experience:{above}",))
    assert (done.state, done.found, done.moved, done.about) == ("done", 1, 1, f"memory:{name}")
    assert rooms.carol.objects.get_rollback(done.id) == done
    with refused(NotFound, "rollback_unknown"):
        rooms.carol.objects.get_rollback("rol_none")
    with refused(Forbidden, "scope_missing"):
        rooms.carol.objects.erase(name)
    erased = rooms.operator.objects.erase(name, owner=OWNER, reason="asked for it")
    assert (erased.objects, erased.more) == (1, False)
    with refused(InvalidInput, "erase_one_of"):
        rooms.operator.objects.erase(owner=OWNER)
