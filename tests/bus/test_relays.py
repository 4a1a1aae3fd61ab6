"""Whom a worker on the bus asks and calls in a cluster, by what relays have announced."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from jsonschema import validate

from horae.core.dispatch import ANY, Announcement, Subjects, read_announcement
from horae.errors import BusUnavailable, InvalidInput
from horae.runtime.sources.bus_routes import Routes
from horae.runtime.sources.relays import Relays
from horae.testing.clock import VirtualClock
from tests.bus.test_messages import schemas


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def relays(clock: VirtualClock) -> Relays:
    return Relays(clock)


def announce(relays: Relays, *names: str, due: tuple[str, ...] = ()) -> None:
    for name in names:
        relays.hear(Announcement(name, due))


def test_without_announcements_no_relay_is_named(relays: Relays) -> None:
    assert (relays.are_known, relays.choose("mail"), relays.next_live()) == (False, None, None)


def test_relays_are_asked_in_turn_and_first_those_where_jobs_are_due(relays: Relays, clock: VirtualClock) -> None:
    announce(relays, "1", "2", "3", ANY)
    assert [relays.choose("mail") for _ in range(4)] == ["1", "2", "3", "1"]
    announce(relays, "1", "3", due=("mail",))
    assert [relays.choose("mail") for _ in range(3)] == ["3", "1", "2"]  # the word is used up
    relays.note_answer("3", "mail", is_full=True)  # more is probably due there
    assert relays.is_due("3", "mail")
    clock.advance(timedelta(seconds=1.1))
    assert not relays.is_due("3", "mail")


def test_who_is_silent_says_goodbye_or_does_not_answer_is_passed_over(relays: Relays, clock: VirtualClock) -> None:
    announce(relays, "1", "2", "3")
    relays.skip("1")
    relays.hear(Announcement("2", ends=True))
    assert {relays.choose("mail") for _ in range(4)} == {"3"}
    clock.advance(timedelta(seconds=2))
    announce(relays, "1")
    clock.advance(timedelta(seconds=2))
    assert relays.live() == ["1"]
    assert relays.choose("mail") == "1"  # better one that did not answer than none
    clock.advance(timedelta(seconds=4))
    assert (relays.live(), relays.choose("mail"), relays.are_known) == ([], None, True)


def test_an_announcement_that_cannot_be_read_is_refused() -> None:
    said = Announcement("2", ("mail",), ends=True)
    validate(said.as_json(), schemas()["announcement"])
    assert read_announcement(said.as_json()) == said
    unreadable: list[Any] = [[], {}, {"relay": 2}, {"relay": "a.b"}, {"relay": "2", "due": "mail"}]
    for wrong in [*unreadable, {"relay": "2", "due": [1]}]:
        with pytest.raises(InvalidInput):
            read_announcement(wrong)


def test_the_name_of_a_call_is_read_from_its_subject_with_and_without_a_relay() -> None:
    subjects = Subjects("shop")
    assert subjects.called(subjects.call("settle")) == subjects.called(subjects.call("settle", "2")) == "settle"


class Sent:
    """Answers calls as relays would; those in *silent* do not."""

    def __init__(self, *silent: str | None) -> None:
        self.silent, self.calls = silent, list[tuple[str, str | None, bool]]()

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], relay: str | None, limit: float, *, waits: bool = True
    ) -> dict[str, Any]:
        self.calls.append((name, relay, waits))
        if relay in self.silent or not waits:
            raise BusUnavailable("bus_relay_silent", seconds=limit)
        if name == "peek":
            return {"value": {"due_in": float(relay or 0), "cancelled": [f"job_{relay}"], "drain": None}}
        items = arguments.get("endings", [{"job_id": arguments.get("job_id")}])
        return {"value": [{"job_id": each["job_id"], "accepted": True, "state": "succeeded"} for each in items]}


def endings(*jobs: str) -> dict[str, Any]:
    return {"endings": [{"job_id": job, "token": 1, "outcome": "succeeded"} for job in jobs]}


def settle(routes: Routes, *jobs: str) -> list[tuple[str, bool]]:
    answer = asyncio.run(routes.call("settle", endings(*jobs), 5.0))
    return [(each["job_id"], each["accepted"]) for each in answer["value"]]


def test_endings_go_to_the_relay_of_each_job_and_are_answered_in_order(relays: Relays) -> None:
    announce(relays, "1", "2")
    routes = Routes(relays, sent := Sent())
    routes.hold("job_a", "1")
    routes.hold("job_b", "2")
    routes.hold("job_c", "1")
    assert settle(routes, "job_a", "job_b", "job_c", "job_d") == [(f"job_{each}", True) for each in "abcd"]
    assert sent.calls == [("settle", "1", True), ("settle", "2", True), ("settle", None, True)]


def test_a_silent_relay_holds_up_no_ending_of_another(relays: Relays, clock: VirtualClock) -> None:
    announce(relays, "1", "2")
    routes = Routes(relays, sent := Sent())
    routes.hold("job_a", "1")
    routes.hold("job_b", "2")
    clock.advance(timedelta(seconds=4))
    announce(relays, "2")
    assert settle(routes, "job_a", "job_b") == [("job_a", False), ("job_b", True)]
    assert sent.calls == [("settle", "1", False), ("settle", "2", True)]  # the stream keeps the first
    with pytest.raises(BusUnavailable):
        settle(routes, "job_a")
    announce(relays, ANY)  # who serves all databases is there
    assert settle(routes, "job_a", "job_b") == [("job_a", True), ("job_b", True)]


def test_a_worker_looks_at_every_database_that_answers(relays: Relays) -> None:
    announce(relays, "1", "2", "3")
    routes = Routes(relays, Sent("2"))
    found = asyncio.run(routes.call("peek", {"queues": []}, 5.0))
    assert found == {"value": {"due_in": 1.0, "cancelled": ["job_1", "job_3"], "drain": None}}
    with pytest.raises(BusUnavailable):
        asyncio.run(Routes(relays, Sent("1", "2", "3")).call("peek", {"queues": []}, 5.0))


def test_calls_that_any_relay_performs_go_round(relays: Relays) -> None:
    announce(relays, "1", "2", ANY)
    routes = Routes(relays, sent := Sent())
    for _ in range(3):
        asyncio.run(routes.call("store_definitions", {"definitions": []}, 5.0))
    asyncio.run(routes.call("progress", {"job_id": "job_x", "token": 1}, 5.0))
    assert [relay for _, relay, _ in sent.calls] == ["1", "2", "1", None]
