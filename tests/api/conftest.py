"""One world behind four senders: in this process and over HTTP, waited for and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

import horae
from horae.api.application import Acting
from horae.api.examination import Examination, Finding
from horae.api.here import Here, house
from horae.api.operation import AsyncPages, Page
from horae.outgoing.encryption import KeySealer
from horae.ports.world import World
from horae.service.options import Options
from tests.support.serving import Served, serving

SENDERS = ("local", "local async", "http", "http async")
SEALER = KeySealer(b"k" * 32)
FOUND = Examination(
    healthy=True,
    complete=True,
    checked_at=datetime(2030, 1, 7, tzinfo=UTC),
    findings=(Finding(check="clock", level="ok", text="The clock is right.", facts={"off": 0.5}),),
)


def examine(_: World) -> Examination:
    return FOUND


class Waited:
    """A room whose operations are awaited, called as if they were not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, room: Any) -> None:
        self._loop, self._room = loop, room

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._room, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            found = operation(*args, **kwargs)
            if isinstance(found, AsyncIterator):
                return waited_stream(self._loop, found)
            return WaitedPages(self._loop, found) if isinstance(found, AsyncPages) else self._wait(found)

        return run

    def _wait(self, awaited: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(awaited)


def waited_stream(loop: asyncio.AbstractEventLoop, stream: Any) -> Iterator[Any]:
    try:
        while True:
            try:
                yield loop.run_until_complete(anext(stream))
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(stream.aclose())


class WaitedPages:
    def __init__(self, loop: asyncio.AbstractEventLoop, pages: AsyncPages[Any]) -> None:
        self._loop, self._pages = loop, pages

    def page(self, *args: Any, **kwargs: Any) -> Page[Any]:
        return self._loop.run_until_complete(self._pages.page(*args, **kwargs))

    def __iter__(self) -> Iterator[Any]:
        async def all_of_them() -> list[Any]:
            return [each async for each in self._pages]

        return iter(self._loop.run_until_complete(all_of_them()))


@dataclass
class Sent:
    """The rooms of the house and of one tenant, over one sender."""

    house: Any
    alice: Any


class WaitedRooms:
    def __init__(self, loop: asyncio.AbstractEventLoop, rooms: Any) -> None:
        self._loop, self._rooms = loop, rooms

    def __getattr__(self, name: str) -> Waited:
        return Waited(self._loop, getattr(self._rooms, name))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("rooms")
    options = Options(version="test", sealer=SEALER, doctor=examine)
    with serving(f"sqlite:///{folder / 'horae.db'}", options) as running:
        yield running


@pytest.fixture
def keyless(served: Served) -> Sent:
    """The rooms of a process that has no key for secrets."""
    near = Acting(lambda: Here(served.world, house("app/test")))
    return Sent(near, near.for_owner("alice"))


@pytest.fixture(params=SENDERS)
def rooms(request: pytest.FixtureRequest, served: Served) -> Iterator[Sent]:
    """The same rooms over each sender in turn."""
    near = Acting(lambda: Here(served.world, house("app/test"), sealer=lambda: SEALER, doctor=examine))
    tokens = served.token("system", "admin"), served.token("alice", "tasks", "worker", "read")
    if request.param == "local":
        yield Sent(near, near.for_owner("alice"))
    elif request.param == "http":
        with horae.Client(served.url, tokens[0]) as ours, horae.Client(served.url, tokens[1]) as hers:
            yield Sent(ours, hers)
    else:
        loop = asyncio.new_event_loop()
        if request.param == "local async":
            yield Sent(WaitedRooms(loop, near.aio), WaitedRooms(loop, near.for_owner("alice").aio))
        else:
            clients = [horae.AsyncClient(served.url, token) for token in tokens]
            yield Sent(*(WaitedRooms(loop, client) for client in clients))
            for client in clients:
                loop.run_until_complete(client.aclose())
        loop.close()
