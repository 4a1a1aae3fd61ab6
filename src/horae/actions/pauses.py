"""Pauses that end by themselves: the end is a job of Horae's own, planned with the pause and served by any process.

It ends only the pause that it was planned for: one that was ended before, or made anew, is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from horae.core.jobs.job import NewJob
from horae.core.jobs.machinery import MACHINERY, PAUSE, PERSISTENT
from horae.core.jobs.payloads import encode
from horae.core.time.instants import aware, from_iso, iso
from horae.errors import InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

Pausable = Literal["schedule", "queue"]
ACTOR = "system/pause"


def check_until(until: datetime | None, now: datetime) -> datetime | None:
    """Return the end of a pause in UTC; refuse one that has passed."""
    if until is None:
        return None
    ends_at = aware(until, "until")
    if ends_at <= now:
        raise InvalidInput("pause_end_passed", until=iso(ends_at))
    return ends_at


def plan_end(tx: Tx, what: Pausable, name: str, owner: str, until: datetime, now: datetime) -> None:
    """Plan the job that ends a pause."""
    new = NewJob(
        handler=PAUSE,
        payload=encode({"what": what, "name": name, "owner": owner, "until": iso(until)}),
        queue=MACHINERY,
        band=0,
        run_at=until,
        planned_at=until,
        owner=owner,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )
    tx.jobs.insert([new], now)


def wake_for(world: World, ends_at: datetime | None) -> None:
    """Let sleeping processes hear of the end of a pause."""
    if ends_at is not None:
        world.route().store.wake([MACHINERY])


def end_pause(world: World, payload: Mapping[str, Any]) -> None:
    """End the pause that a job was planned for; nothing where it is no longer that one."""
    from horae.actions.jobs.queues import resume_queue
    from horae.actions.schedules.schedules import resume

    until, name, reason = from_iso(str(payload["until"])), str(payload["name"]), f"paused until {payload['until']}"
    try:
        if payload["what"] == "queue":
            resume_queue(world, name, paused_until=until, actor=ACTOR, reason=reason)
        else:
            owner = str(payload["owner"])
            resume(world, name, paused_until=until, owner=owner, actor=ACTOR, reason=reason)
    except NotFound:
        return
