"""The circuits of one process are bounded, and a call that says nothing leaves no trace."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from horae.core.outgoing.circuits import Patience
from horae.outgoing import Breakers, Calls
from tests.outgoing.conftest import Telling
from tests.outgoing.ground import Names, Received, serving

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
KEY = ("alice", "https://a:443")


def test_the_targets_used_least_are_forgotten_first() -> None:
    breakers = Breakers(Patience(failures=1), most=3)
    for number in range(5):
        breakers.failed(("alice", str(number)), NOON)

    states = [breakers.state(("alice", str(number))) for number in range(5)]
    assert states == ["closed", "closed", "open", "open", "open"]


def test_a_target_that_works_takes_no_memory() -> None:
    breakers = Breakers(most=1)
    breakers.failed(KEY, NOON)
    for number in range(5):
        assert breakers.ask(("bob", str(number)), NOON) is None
        breakers.succeeded(("bob", str(number)))
    for _ in range(4):
        breakers.failed(KEY, NOON)

    assert breakers.state(KEY) == "open"


def test_a_probe_that_was_broken_off_may_be_repeated_at_once() -> None:
    breakers = Breakers(Patience(failures=1, rest=timedelta(seconds=30)))
    breakers.failed(KEY, NOON)
    later = NOON + timedelta(seconds=30)
    assert breakers.ask(KEY, later) is None
    assert breakers.ask(KEY, later) is not None

    breakers.broken_off(KEY, later)
    assert breakers.ask(KEY, later) is None


async def test_a_delivery_that_its_worker_breaks_off_says_nothing_about_the_target(telling: Telling) -> None:
    arrived = asyncio.Event()

    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with serving(silent) as server, telling(server) as story:
        key = ("alice", f"http://127.0.0.1:{server.port}")
        for _ in range(5):
            story.jobs.breakers.failed(key, story.lab.now - timedelta(minutes=5))
        sending = asyncio.ensure_future(story.send(server))
        await asyncio.wait_for(arrived.wait(), 5)
        assert story.jobs.breakers.state(key) == "half-open"

        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert story.jobs.breakers.ask(key, story.lab.now) is None


async def test_an_address_that_is_refused_while_connecting_does_not_trip_the_circuit(telling: Telling) -> None:
    async with telling(calls=Calls(resolve=Names(inside_example=[["10.0.0.1"]]))) as story:
        for _ in range(6):
            assert story.ended(await story.send("https://inside.example/"))[0] == "dead"

        assert story.jobs.breakers.state(("alice", "https://inside.example:443")) == "closed"
