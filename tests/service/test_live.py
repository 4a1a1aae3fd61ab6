"""The pulse over HTTP: shared looks, what changed, and when a stream ends."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy import event

import horae
from horae.actions.access.tokens import revoke_token
from horae.actions.jobs import jobs
from horae.core.pulse import TENANT_PARTS, marks_text
from horae.errors import StoreUnavailable
from horae.ports.world import World
from horae.service.live import LOOK, SHORTEST, SharedLook
from horae.service.options import Options
from horae.testing.builders import a_request
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.serving import Served, serving
from tests.support.templates import open_in_memory
from tests.support.waiting import pass_time_in_thread


class Counted:
    """A store that counts how often it is read."""

    def __init__(self, store: Any) -> None:
        self._store, self.reads = store, 0
        self.trouble: Exception | None = None

    def read(self, *args: Any, **options: Any) -> Any:
        self.reads += 1
        if self.trouble is not None:
            raise self.trouble
        return self._store.read(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def counted() -> Iterator[tuple[World, Counted, VirtualClock]]:
    store, clock = open_in_memory(), VirtualClock()
    counting = Counted(store)
    yield World(counting, clock, LoadedDice()), counting, clock
    store.close()


async def test_all_watchers_share_one_look_a_second(counted: tuple[World, Counted, VirtualClock]) -> None:
    world, store, clock = counted
    look = SharedLook()

    first = await asyncio.gather(*(look.marks(world, LOOK) for _ in range(20)))
    again = await look.marks(world, LOOK)
    clock.advance(SHORTEST)
    await look.marks(world, LOOK)
    quiet = store.reads
    await look.marks(world, SHORTEST)
    clock.advance(LOOK)
    await look.marks(world, LOOK)

    assert (quiet, store.reads) == (1, 3)
    assert all(each is again for each in first)


async def test_a_store_that_does_not_answer_is_not_asked_more_often(
    counted: tuple[World, Counted, VirtualClock],
) -> None:
    world, store, clock = counted
    store.trouble = StoreUnavailable("away")
    look = SharedLook()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await look.marks(world, LOOK)
        assert await look.marks(world, LOOK) == {}
        clock.advance(LOOK)
    store.trouble = None

    assert store.reads == 3
    assert await look.marks(world, LOOK) != {}


# -- over the wire -------------------------------------------------------------------------------------------------


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url, Options(version="test")) as running:
        yield running


def following(served: Served, token: str, last: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", **({} if last is None else {"Last-Event-ID": last})}
    return httpx.stream("GET", f"{served.url}/live/stream", headers=headers, timeout=60)


def next_data(lines: Iterator[str]) -> dict[str, Any]:
    found = next(line for line in lines if line.startswith("data: "))
    message: dict[str, Any] = json.loads(found.removeprefix("data: "))
    return message


@pytest.mark.slow
def test_an_ending_reaches_those_who_watch(served: Served) -> None:
    job = jobs.enqueue(served.world, a_request())
    with horae.Client(served.url, served.token("system", "admin")) as client:
        (held,) = client.jobs.claim("w")
        marks = client.live.get().marks
        with following(served, served.token("system", "read"), marks_text(marks)) as stream:
            client.jobs.ack(job.id, held.token)
            assert "jobs" in next_data(stream.iter_lines())["parts"]


@pytest.mark.slow
def test_nobody_looks_while_nobody_watches_and_three_watchers_share_a_look(served: Served) -> None:
    token = served.token("system", "read")
    heard: list[str] = []
    engine = served.world.store.engine  # type: ignore[attr-defined]
    event.listen(engine, "connect", lambda connection, _: connection.set_trace_callback(heard.append))
    engine.dispose()  # connections that are made from now on are heard
    with ExitStack() as watchers:
        for _ in range(3):
            next(watchers.enter_context(following(served, token)).iter_lines())
        pass_time_in_thread(3.5)
    looks = sum("FROM horae_lanes" in each for each in heard)
    pass_time_in_thread(0.5)  # a look may be under way
    left = [each for each in heard if "horae_" in each]
    pass_time_in_thread(2.5)

    assert 1 <= looks <= 6, "once a second, whoever watches"
    assert [each for each in heard if "horae_" in each] == left


@pytest.mark.slow
def test_a_reader_that_comes_back_hears_of_what_it_missed(served: Served) -> None:
    token = served.token("system", "read")
    with horae.Client(served.url, token) as client:
        marks = client.live.get().marks
    jobs.enqueue(served.world, a_request())
    with following(served, token, marks_text(marks)) as stream:
        assert "jobs" in next_data(stream.iter_lines())["parts"]


@pytest.mark.slow
def test_a_stream_ends_soon_after_its_token_is_revoked(served: Served) -> None:
    token = served.token("system", "read")
    with following(served, token) as stream:
        lines = stream.iter_lines()
        next(lines)
        revoke_token(served.world, token.split("_")[1])
        assert list(lines) is not None, "it ends, and does not wait for fifteen minutes"


@pytest.mark.slow
def test_a_tenant_is_told_to_look_again_and_learns_nothing_of_others(served: Served) -> None:
    token = served.token("alice", "tasks")
    with horae.Client(served.url, token) as client:
        assert client.live.get().marks == {}
    with following(served, token) as stream:
        message = next_data(stream.iter_lines())
    assert message["parts"] == list(TENANT_PARTS)
