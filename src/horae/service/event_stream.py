"""A lane's journal while it is written: server-sent events, which every browser can read.

Each line is one event whose id is its number, so that a reader that reconnects (``Last-Event-ID``) misses nothing and
gets nothing twice. What happens within a moment goes out together. A stream holds no thread while it waits; hints wake
it, and it polls once a second besides, because a driver does not announce its own commits. It ends after a while, and
the reader reconnects by itself; it ends within a second when its reader's token is revoked or expires.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from horae.actions.attention.journal import read_journal
from horae.actions.attention.lanes import hint
from horae.api.attention.values import JournalEntry
from horae.api.values import to_json, to_public
from horae.core.access.callers import Caller
from horae.core.attention.lanes import Lane, Line
from horae.errors import HoraeError, InvalidInput
from horae.ports.world import World
from horae.service.fields import MOST
from horae.service.long_poll import Waiter, waiting_room_of
from horae.service.state import service_of

log = logging.getLogger("horae.service")
HEARTBEAT = timedelta(seconds=15)
LOOK = timedelta(seconds=1)
TOGETHER = timedelta(milliseconds=100)
COME_BACK = timedelta(seconds=2)
A_MOMENT = timedelta(milliseconds=300)  # for a stream to end in order before it is cut off
BATCH = 200
HEADERS = {"X-Accel-Buffering": "no"}  # or a proxy would keep the lines until it has a bufferful


class JournalStream(StreamingResponse):
    """The lines of a lane from a number on, until the reader goes."""

    def __init__(self, world: World, lane: Lane, since: int, caller: Caller) -> None:
        self._world, self._lane, self._since, self._caller = world, lane, since, caller
        super().__init__(self._nothing(), media_type="text/event-stream", headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        room, request = waiting_room_of(scope["app"]), Request(scope, receive)
        with (
            room.listening(self._world, hint(self._lane.number), self._caller) as waiter,
            waiter.until_late_or_gone(longest_stream(request), request),
        ):
            self.body_iterator = self._events(waiter)
            await send_until_over(super().__call__(scope, receive, send), waiter)

    async def _events(self, waiter: Waiter) -> AsyncIterator[str]:
        clock = self._world.clock
        yield f"retry: {COME_BACK // timedelta(milliseconds=1)}\nid: {self._since}\n\n"
        sent_at = clock.monotonic()
        while waiter.waits():
            try:
                lines = await run_in_threadpool(self._read)
            except HoraeError as problem:
                log.warning("a stream of lane %s ends: %s", self._lane.name, problem)
                return
            if lines:
                self._since, sent_at = lines[-1].seq, clock.monotonic()
                yield "".join(map(event, lines))
                await waiter.rest(TOGETHER)
            elif clock.monotonic() - sent_at >= HEARTBEAT.total_seconds():
                sent_at = clock.monotonic()
                yield ": still here\n\n"
            else:
                await waiter.sleep(LOOK)

    async def _nothing(self) -> AsyncIterator[str]:
        return
        yield

    def _read(self) -> list[Line]:
        lane = self._lane
        return read_journal(self._world, lane.name, owner=lane.owner, since=self._since, limit=BATCH)


def longest_stream(request: Request) -> timedelta:
    return service_of(request).options.longest_stream


async def send_until_over(answer: Coroutine[Any, Any, None], waiter: Waiter) -> None:
    """Send an answer to its end; cut off one that is over and whose reader takes nothing any more."""
    sending, over = asyncio.create_task(answer), asyncio.create_task(waiter.over())
    try:
        await asyncio.wait({sending, over}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({sending}, timeout=A_MOMENT.total_seconds())
        if sending.done():
            await sending
    finally:
        over.cancel()
        sending.cancel()


def event(line: Line) -> str:
    data = json.dumps(to_json(to_public(JournalEntry, line)))  # ASCII: some readers break lines at other signs too
    return f"id: {line.seq}\ndata: {data}\n\n"


def begin_at(last_event_id: str | None, since: int | None, end: int) -> int:
    """Return the line after which to begin: that of a reader that reconnects, else *since*, else the end."""
    if last_event_id is None or not last_event_id.strip():
        return end if since is None else since
    text = last_event_id.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MOST):
        raise InvalidInput("last_event_id_unreadable")
    return int(text)
