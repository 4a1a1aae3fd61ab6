"""Quiet hours of queues: a job of Horae's own pauses the queue when they begin and resumes it when they end.

The job is put off from one boundary to the next. The queue's row has that boundary, ``quiet_at``: a claim that comes
after it finds the queue closed until some process has acted on it, so that hours hold also where no worker lived when
they began, and a claim compares two numbers instead of reading hours. A person's pause is left alone; where it ends by
itself in quiet hours, the queue stays paused by them. A queue that a person resumes in its quiet hours stays open until
they come again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.core.audit.entries import Entry
from horae.core.jobs.job import SYSTEM, NewJob
from horae.core.jobs.machinery import MACHINERY, PERSISTENT, QUIET, queue_name
from horae.core.jobs.payloads import encode
from horae.core.schedules.windows import next_window
from horae.core.time.instants import MICROSECOND, from_iso, iso
from horae.core.time.zones import zone_named
from horae.ports.queues import Queue
from horae.ports.store import Tx
from horae.ports.world import World

ACTOR = "system/quiet"


def quiet_queue(
    world: World, queue: str, quiet_hours: str | None, zone: str = "UTC", *, actor: str = SYSTEM, reason: str = ""
) -> Queue:
    """Start no job of a queue in these hours of a zone, such as 22:00-07:00; None lifts them."""
    queue_name(queue)
    now = world.clock.now()
    zone_named(zone)
    opens, closes = (None, now) if quiet_hours is None else next_window(quiet_hours, zone, now)

    def write(tx: Tx) -> Queue:
        before = tx.queues.get(queue, lock=True) or Queue(queue)
        since = now if before.quiet_since is None else max(now, before.quiet_since + MICROSECOND)
        after = _open(replace(before, quiet_hours=quiet_hours, quiet_zone=zone, quiet_since=since, quiet_at=None))
        if opens is not None:
            after = replace(_close(after, closes, now) if opens <= now else after, quiet_at=turn_of(opens, closes, now))
            plan_turn(tx, {"queue": queue, "since": iso(since)}, turn_of(opens, closes, now), now)
        tx.queues.put(after)
        terms = ({"quiet_hours": each.quiet_hours, "quiet_zone": each.quiet_zone} for each in (before, after))
        old, new = terms
        tx.audit.append(Entry(now, actor, "quiet", "queue", queue, reason=reason or None, before=old, after=new))
        return after

    changed = world.route().store.transact(write)
    world.route().store.wake([MACHINERY, queue])
    return changed


def keep_quiet(world: World, payload: Mapping[str, Any]) -> datetime | None:
    """Pause or resume a queue by its quiet hours; return when to come back, None where these hours hold no more."""
    if "owner" in payload:
        from horae.actions.jobs.quiet_owners import keep_owner_quiet

        return keep_owner_quiet(world, payload)
    queue, since = str(payload["queue"]), from_iso(str(payload["since"]))
    now = world.clock.now()

    def write(tx: Tx) -> datetime | None:
        before = tx.queues.get(queue, lock=True)
        if before is None or before.quiet_hours is None or before.quiet_since != since:
            return None
        if before.quiet_at is not None and before.quiet_at > now:  # a person who resumed the queue has done it
            return before.quiet_at
        opens, closes = next_window(before.quiet_hours, before.quiet_zone, now)
        turn = turn_of(opens, closes, now)
        after = _close(before, closes, now) if opens <= now else _open(before)
        _save(tx, before, replace(after, quiet_at=turn), now)
        return turn

    again = world.route().store.transact(write)
    world.route().store.wake([queue])
    return again


def stay_quiet(tx: Tx, queue: Queue, now: datetime) -> bool:
    """Let a queue whose pause ends in its quiet hours stay paused by them; return whether it does."""
    if queue.quiet_hours is None:
        return False
    opens, closes = next_window(queue.quiet_hours, queue.quiet_zone, now)
    if opens <= now:
        _save(tx, queue, _close(replace(queue, paused_at=None), closes, now), now)
    return opens <= now


def past_turn(queue: Queue, now: datetime) -> datetime | None:
    """Return when the quiet hours of a queue begin or end next: a person has just decided for this moment."""
    if queue.quiet_hours is None:
        return None
    return turn_of(*next_window(queue.quiet_hours, queue.quiet_zone, now), now)


def as_of(queue: Queue, now: datetime) -> Queue:
    """Return a queue as claims see it: paused by quiet hours also where no process has acted on them yet."""
    if not queue.is_overdue(now) or queue.paused_at is not None or queue.quiet_hours is None:
        return queue
    opens, closes = next_window(queue.quiet_hours, queue.quiet_zone, now)
    return _close(queue, closes if opens <= now else now, now)


def turn_of(opens: datetime, closes: datetime, now: datetime) -> datetime:
    return closes if opens <= now else opens


def _save(tx: Tx, before: Queue, after: Queue, now: datetime) -> None:
    if after != before:
        tx.queues.put(after)
    if (after.paused_at, after.paused_by) != (before.paused_at, before.paused_by):
        verb = "pause" if after.paused_at is not None else "resume"
        old, new = ({"paused_until": each.paused_until and iso(each.paused_until)} for each in (before, after))
        tx.audit.append(Entry(now, ACTOR, verb, "queue", after.name, reason=_reason(after), before=old, after=new))


def _close(queue: Queue, until: datetime, now: datetime) -> Queue:
    """Return the queue paused until its quiet hours end; one that is paused already as it is."""
    if queue.paused_at is not None:
        return queue
    return replace(queue, paused_at=now, paused_by=ACTOR, pause_reason=_reason(queue), paused_until=until)


def _open(queue: Queue) -> Queue:
    """Return the queue without the pause of its quiet hours; a person's pause stays."""
    if queue.paused_by != ACTOR:
        return queue
    return replace(queue, paused_at=None, paused_by=None, pause_reason=None, paused_until=None)


def _reason(queue: Queue) -> str:
    return f"quiet hours {queue.quiet_hours} ({queue.quiet_zone})"


def plan_turn(tx: Tx, payload: Mapping[str, str], run_at: datetime, now: datetime) -> None:
    """Plan the job that keeps quiet hours, for the next time at which they begin or end."""
    new = NewJob(
        handler=QUIET,
        payload=encode(dict(payload)),
        queue=MACHINERY,
        band=0,
        run_at=run_at,
        planned_at=run_at,
        owner=SYSTEM,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )
    tx.jobs.insert([new], now)
