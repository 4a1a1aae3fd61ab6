"""The job log: read the runs of jobs, ended or under way, and delete old ones.

A run is named by its job and its token, ``job_12.3``. The formats of documents 003 and 004 are made in the service.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from horae.actions.roll_up import keep_up
from horae.core.audit.entries import Entry
from horae.core.cluster.numbers import read_number
from horae.core.cursors import LARGEST, MAX_PAGE, page_size
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import aware, iso
from horae.errors import InvalidInput, NotFound
from horae.ports.logs import LogFilter, Logged
from horae.ports.store import Tx
from horae.ports.world import World

BATCH = 100  # rows in one transaction, so that no other one waits long for a clean-up
MOST = 10_000  # rows in one call, so that no caller waits for ever
KEEP = timedelta(days=14)
OUTCOMES = ("running", "succeeded", "failed", "timed_out", "lost", "skipped", "cancelled", "snoozed", "released")
_RUN = re.compile(r"job_((?:[0-9]{1,4}x)?[0-9]{1,19})\.([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The runs that a clean-up deleted, or in a dry run would; ``more`` when it stopped before the end."""

    removed: int
    before: datetime
    dry_run: bool = False
    more: bool = False


def run_name(run_id: str) -> tuple[int, int]:
    """Return the two numbers of ``job_12.3``; refuse anything else."""
    found = _RUN.fullmatch(run_id)
    number, token = (read_number(found[1]), int(found[2])) if found else (None, 0)
    if number is None or token > LARGEST:
        raise _unknown(run_id)
    return number, token


def page(
    world: World, wanted: LogFilter | None = None, *, limit: int = 50, before: tuple[int, int] | None = None
) -> list[Logged]:
    """Return runs, the newest first; *before* are the two numbers of the last one of the previous page."""
    page_size(limit, MAX_PAGE * 10)
    wanted = wanted or LogFilter()
    unknown = sorted(set(wanted.outcomes) - set(OUTCOMES))
    if unknown:
        raise InvalidInput("choice_unknown", name="outcome", value=unknown[0], choices=list(OUTCOMES))
    return world.route().store.read(lambda tx: tx.logs.find(wanted, limit=limit, before=before))


def count(world: World, wanted: LogFilter | None = None) -> int:
    return world.route().store.read(lambda tx: tx.logs.count(wanted or LogFilter()))


def get(world: World, run_id: str, *, owner: str | None = None) -> Logged:
    """Return one run; with *owner* only one of that tenant."""
    number, token = run_name(run_id)

    def read(tx: Tx) -> Logged | None:
        return tx.logs.get(number, token)

    found = world.route(owner=owner, id=run_id).store.read(read)
    if found is None and world.cluster is not None:  # it may have ended where its shard was before
        elsewhere = (shard.route().store.read(read) for shard in world.databases())
        found = next((run for run in elsewhere if run is not None), None)
    if found is None or (owner is not None and found.run.owner != owner):
        raise _unknown(run_id)
    return found


def wanted_for(world: World, job: str, *, owner: str | None = None) -> LogFilter:
    """Return the filter for one job: the schedule with this key, or, where there is none, the handler of this name."""
    schedule = world.route(owner=owner).store.read(lambda tx: tx.schedules.get(job, owner or SYSTEM))
    if schedule is None:
        return LogFilter(handler=job, owner=owner)
    return LogFilter(schedule_id=schedule.number, owner=owner)


def clean(
    world: World,
    before: datetime,
    wanted: LogFilter | None = None,
    *,
    dry_run: bool = True,
    most: int = MOST,
    actor: str = SYSTEM,
    reason: str = "",
) -> Cleaned:
    """Delete runs that ended before an instant, in small batches; a *dry_run* only counts them.

    Runs of a job that waits, runs or is dead stay.
    """
    before, chosen = aware(before, "before"), wanted or LogFilter()
    if before > world.clock.now():
        raise InvalidInput("before_in_future", before=iso(before))
    if dry_run:
        return Cleaned(world.route().store.read(lambda tx: tx.logs.count_old(chosen, before)), before, dry_run=True)

    def remove(limit: int) -> int:
        return world.route().store.transact(lambda tx: tx.logs.remove_old(chosen, before, limit=limit))

    keep_up(world)  # what is removed stays counted
    removed = 0
    while removed < most:
        batch = min(BATCH, most - removed)
        gone = remove(batch)
        removed += gone
        if gone < batch:
            break
    more = bool(removed >= most and world.route().store.read(lambda tx: tx.logs.count_old(chosen, before)))
    if removed:
        _write_audit(world, chosen, Cleaned(removed, before), actor, reason)
    return Cleaned(removed, before, more=more)


def _write_audit(world: World, wanted: LogFilter, done: Cleaned, actor: str, reason: str) -> None:
    which = f"schedule {wanted.schedule_id}" if wanted.schedule_id else f"handler {wanted.handler or '*'}"
    after = {"removed": done.removed, "before": iso(done.before), "of": which}

    def write(tx: Tx) -> None:
        owner = wanted.owner or SYSTEM
        now = world.clock.now()
        tx.audit.append(Entry(now, actor, "clean", "log", "job-log", owner, reason or None, after=after))

    world.route().store.transact(write)


def _unknown(run_id: str) -> NotFound:
    return NotFound("run_unknown", id=run_id)
