"""Wait for the end of a job: a long poll that holds no thread while it waits.

Endings are not announced, so each waiting caller reads its job again: soon at first, then once a second. A caller
stands in the room of the other long polls, so that one limit counts for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from fastapi import Request

from horae.api.jobs.room import Job, has_ended
from horae.core.access.callers import Caller
from horae.errors import Unauthorized
from horae.ports import World
from horae.service.long_poll import QUIET_FIRST, QUIET_LAST, Waiter, room_of


async def wait_for_end(
    read: Callable[[], Awaitable[Job]], world: World, job_id: str, caller: Caller, request: Request, at_most: timedelta
) -> Job:
    """Return the job once it has ended; as it stands, when the time is up, the caller hangs up or the service ends.

    ``Unauthorized`` when the caller's token is revoked or expires meanwhile.
    """
    job = await read()
    if has_ended(job) or not at_most:
        return job
    with room_of(request.app).listening(world, job_id, caller) as waiter:
        timer = asyncio.get_running_loop().call_later(at_most.total_seconds(), waiter.is_late)
        watching = asyncio.create_task(waiter.watch(request))
        try:
            job = await _read_until_ended(read, job, waiter)
        finally:
            timer.cancel()
            watching.cancel()
    if waiter.is_revoked():
        raise Unauthorized("token_invalid")
    return job


async def _read_until_ended(read: Callable[[], Awaitable[Job]], job: Job, waiter: Waiter) -> Job:
    pause = QUIET_FIRST
    while waiter.waits() and not has_ended(job):
        await waiter.sleep(pause)
        pause = min(pause * 1.5, QUIET_LAST)
        if not (waiter.is_revoked() or waiter.has_gone()):
            job = await read()
    return job
