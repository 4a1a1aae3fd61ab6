"""Calls that wait: held open for less than a minute, without a thread, and ended when their token is revoked.

A call looks, sleeps until a hint of the lane, the next due instant or its limit, and looks again. Each look is one
transaction, so a call that is cancelled between two looks leaves nothing behind, and one that is cut off during a look
leaves at most the focus where the next call finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import anyio
import anyio.to_thread

from horae.actions import hints
from horae.actions.jobs.claims import peek
from horae.errors import Unauthorized
from horae.mcp.here import Here
from horae.runtime.loop import Alarm

T = TypeVar("T")
HEARING = timedelta(seconds=10)  # between two looks where hints arrive
QUIET = timedelta(milliseconds=500)  # and where they do not
TOGETHER = 0.05  # seconds: what changes within a moment is one look


async def until(here: Here, look: Callable[[], T], is_enough: Callable[[T], bool], timeout_s: float) -> T:
    """Return what *look* returns as soon as it is enough, when the time is up, or when the server stops."""
    ends_at, world = anyio.current_time() + timeout_s, here.world
    alarm, lapsed, stopping = Alarm(world.clock), anyio.Event(), anyio.Event()

    def end() -> None:
        lapsed.set()
        alarm.ring()

    def answer() -> None:
        stopping.set()
        alarm.ring()

    session = here.sessions.at(here.lane, here.who().owner)

    def ring(hint: str) -> None:
        if session.hears(hint):
            alarm.ring_from_elsewhere()

    with here.waiting(end, answer):
        unsubscribe = hints.subscribe(world, ring)
        try:
            while True:
                seen, due_at = await anyio.to_thread.run_sync(lambda: (look(), peek(world, []).next_machinery_at))
                left = ends_at - anyio.current_time()
                if is_enough(seen) or left <= 0:
                    return seen
                at_most = HEARING if hints.hears(world) else QUIET
                if await alarm.sleep(due_at, min(at_most, timedelta(seconds=left))):
                    with anyio.move_on_after(min(TOGETHER, left)):
                        await lapsed.wait()
                if lapsed.is_set():
                    raise Unauthorized("token_invalid")
                if stopping.is_set():  # another look could take the focus, and there is no time to work on it
                    return seen
        finally:
            unsubscribe()
