"""Wait for the end of a job or of a bulk act: a long poll that holds no thread while it waits.

Endings are not announced, so each waiting caller reads again: soon at first, then once a second. A caller stands in the
room of the other long polls, so that one limit counts for all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, TypeVar

from fastapi import Query, Request
from pydantic import Field

from horae.errors import Unauthorized
from horae.service.fields import AS_TEXT_TOO
from horae.service.long_poll import QUIET_FIRST, QUIET_LAST, Waiter, waiting_room_of
from horae.service.state import service_of, world_of

T = TypeVar("T")
WaitSeconds = Annotated[
    float,
    Field(ge=0, le=30, allow_inf_nan=False),
    AS_TEXT_TOO,
    Query(alias="timeout", description="Seconds to wait at most, or text such as 20s; 0 answers at once."),
]


async def wait_for_end(
    read: Callable[[], Awaitable[T]], has_ended: Callable[[T], bool], name: str, request: Request, seconds: float
) -> T:
    """Return the thing once it has ended; as it stands, when the time is up, the caller hangs up or the service ends.

    ``Unauthorized`` when the caller's token is revoked or expires meanwhile.
    """
    found = await read()
    at_most = min(timedelta(seconds=seconds), service_of(request).options.longest_wait)
    if has_ended(found) or not at_most:
        return found
    with (
        waiting_room_of(request.app).listening(world_of(request), name, request.state.caller) as waiter,
        waiter.until_late_or_gone(at_most, request),
    ):
        found = await _read_until_ended(read, has_ended, found, waiter)
    if waiter.is_revoked():
        raise Unauthorized("token_invalid")
    return found


async def _read_until_ended(
    read: Callable[[], Awaitable[T]], has_ended: Callable[[T], bool], found: T, waiter: Waiter
) -> T:
    pause = QUIET_FIRST
    while waiter.waits() and not has_ended(found):
        await waiter.sleep(pause)
        pause = min(pause * 1.5, QUIET_LAST)
        if not (waiter.is_revoked() or waiter.has_gone()):
            found = await read()
    return found
