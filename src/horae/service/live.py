"""The pulse as server-sent events: which parts of an installation have changed, for pages that are watched.

All streams of a process share one look at the store, made when one of them wants to know and the last look is old: once
a second, or half a second after the last where a hint came. Without a stream there is none. A stream says something at
most twice a second, ends after a while so that the reader comes back, and within a second when its token is revoked.
What a reader has seen is the id of each event, so that one that comes back hears of what it missed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from horae.actions.pulse import read_marks
from horae.api.live import MOST_OFTEN, TENANT_EVERY, PartsChanged
from horae.api.values import to_json
from horae.core.access.callers import Caller
from horae.core.pulse import TENANT_PARTS, Marks, Part, changed_parts, marks_from, marks_text
from horae.errors import HoraeError
from horae.ports.world import World
from horae.service.event_stream import COME_BACK, HEADERS, HEARTBEAT, longest_stream, send_until_over
from horae.service.long_poll import Waiter, waiting_room_of

log = logging.getLogger("horae.service")
LOOK = timedelta(seconds=1)
SHORTEST = timedelta(seconds=MOST_OFTEN)
ANY_HINT = "*"


class SharedLook:
    """The last look of this process at what has changed; it looks only when a stream asks."""

    def __init__(self) -> None:
        self._marks: Marks = {}
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    async def marks(self, world: World, at_most: timedelta) -> Marks:
        """Return marks that are no older than *at_most*, or those of the look under way."""
        if self._looking is None and world.clock.monotonic() - self._looked_at >= at_most.total_seconds():
            self._looking = asyncio.create_task(self._look(world))
        if self._looking is not None:
            await asyncio.shield(self._looking)
        return self._marks

    async def _look(self, world: World) -> None:
        try:
            self._marks = await run_in_threadpool(read_marks, world)
        finally:  # a store that does not answer is not asked more often either
            self._looked_at, self._looking = world.clock.monotonic(), None


class PulseStream(StreamingResponse):
    """The parts that change, until the reader goes."""

    def __init__(self, world: World, caller: Caller, last_event_id: str | None) -> None:
        self._world, self._caller, self._seen = world, caller, marks_from(last_event_id)
        super().__init__(self._nothing(), media_type="text/event-stream", headers=HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app, request = scope["app"], Request(scope, receive)
        with (
            waiting_room_of(app).listening(self._world, ANY_HINT, self._caller) as waiter,
            waiter.until_late_or_gone(longest_stream(request), request),
        ):
            is_tenant = self._caller.sees is not None
            events = self._rhythm(waiter) if is_tenant else self._changes(waiter, shared_look_of(app))
            self.body_iterator = events
            await send_until_over(super().__call__(scope, receive, send), waiter)

    async def _changes(self, waiter: Waiter, shared: SharedLook) -> AsyncIterator[str]:
        clock, allowed = self._world.clock, LOOK
        yield _opening()
        sent_at = clock.monotonic()
        while waiter.waits():
            parts = await self._changed(shared, allowed)
            if parts:
                sent_at = clock.monotonic()
                yield self._event(parts)
                await waiter.rest(SHORTEST)
            elif clock.monotonic() - sent_at >= HEARTBEAT.total_seconds():
                sent_at = clock.monotonic()
                yield ": still here\n\n"
            began = clock.monotonic()
            await waiter.sleep(LOOK)
            was_rung = clock.monotonic() - began < LOOK.total_seconds() * 0.95
            allowed = SHORTEST if was_rung else LOOK * 0.95

    async def _changed(self, shared: SharedLook, at_most: timedelta) -> tuple[Part, ...]:
        """Return what has changed since the last event of this reader; nothing while the store does not answer."""
        try:
            marks = await shared.marks(self._world, at_most)
        except HoraeError as problem:
            log.debug("the pulse waits for the store: %s", problem)
            return ()
        before, self._seen = self._seen, marks
        return () if before is None else changed_parts(before, marks)

    async def _rhythm(self, waiter: Waiter) -> AsyncIterator[str]:
        """Tell a tenant to look again, now and then: marks would tell when others work."""
        yield _opening()
        while waiter.waits():
            await waiter.rest(timedelta(seconds=TENANT_EVERY))
            if waiter.waits():
                yield self._event(TENANT_PARTS)

    def _event(self, parts: tuple[Part, ...]) -> str:
        data = json.dumps(to_json(PartsChanged(at=self._world.clock.now(), parts=parts)))
        identity = f"id: {marks_text(self._seen)}\n" if self._seen else ""
        return f"{identity}data: {data}\n\n"

    async def _nothing(self) -> AsyncIterator[str]:
        return
        yield


def _opening() -> str:
    return f"retry: {COME_BACK // timedelta(milliseconds=1)}\n\n"


def shared_look_of(app: FastAPI) -> SharedLook:
    """Return the look that all streams of a service share; call it from the event loop."""
    if not hasattr(app.state, "shared_look"):
        app.state.shared_look = SharedLook()
    found: SharedLook = app.state.shared_look
    return found
