"""The overview: what goes on now, and what needs a person. Every count is bounded, so that it stays quick."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial

from horae.actions.jobs.reasons import SILENT
from horae.core.dataclass import dataclass
from horae.core.error_groups import ErrorGroup
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.reasons import Reason
from horae.core.needs import MOST, Need, health_of, needs_of
from horae.core.time.instants import micros
from horae.ports.store import Tx
from horae.ports.world import World

MOST_QUEUES = 200
MOST_NAMES = 20  # schedules and errors named
LATE = timedelta(minutes=1)  # how late a start may be before it is worth a word
NEW = timedelta(days=1)  # how long an error counts as new


@dataclass(frozen=True, slots=True)
class Overview:
    """What one reading found."""

    at: datetime
    running: int
    due: int
    late: int
    dead: int
    stuck: int
    workers: int
    unserved: tuple[str, ...]
    paused: tuple[str, ...]
    overdue_schedules: tuple[str, ...]
    missed_schedules: tuple[str, ...]
    missed_jobs: tuple[str, ...]
    inactive_schedules: tuple[str, ...]
    new_errors: tuple[ErrorGroup, ...]
    confirmations: int
    reviews: int
    has_jobs: bool

    @property
    def needs(self) -> tuple[Need, ...]:
        """What needs a person, the worst first."""
        return needs_of(self)

    @property
    def health(self) -> Reason:
        """How all is, in one sentence."""
        return health_of(self, self.needs)


def overview(world: World, *, owner: str | None = None, queues: Collection[str] = ()) -> Overview:
    """Return what goes on now, and what needs a person; with *owner* and *queues* of what those reach alone."""
    now, stale = world.clock.now(), world.clock.steady() - LATE
    most = MOST + 1

    def read(tx: Tx) -> Overview:
        paused = {each.name for each in tx.queues.all() if each.paused_at is not None}
        due = _depths(tx, now, owner, queues)
        late = _depths(tx, now - LATE, owner, queues, skip=paused)
        nodes = [] if owner is not None else [each for each in tx.nodes.all() if each.seen_at > now - SILENT]
        served = {queue for node in nodes for queue in node.queues if node.serves(queue)}
        waiting = {queue: count for queue, count in late.items() if queue not in paused}
        errors = tx.error_groups.find(
            owner=owner, handler=None, muted=False, seen_since=now - NEW, now=now, limit=5 * MOST_NAMES, before=None
        )
        count = partial(tx.health.count_jobs, owner=owner, queues=queues, most=most)
        overdue = tx.health.overdue_schedules(now - LATE, limit=MOST_NAMES, owner=owner)
        missed = tx.expectations.find(owner=owner, state="open", queues=queues, limit=MOST_NAMES)
        inactive = tx.health.inactive_schedules(limit=MOST_NAMES, owner=owner)
        return Overview(
            at=now,
            running=count("running"),
            due=min(sum(due.values()), most),
            late=min(sum(waiting.values()), most),
            dead=count("dead"),
            stuck=0 if owner is not None else len(tx.health.expired_leases(stale, limit=most)),
            workers=len(nodes),
            unserved=() if owner is not None else tuple(sorted(set(waiting) - served)),
            paused=tuple(sorted(each for each in paused if each in due or (owner is None and not queues))),
            overdue_schedules=tuple(sorted(overdue)),
            missed_schedules=tuple(sorted({each.schedule for each in missed if each.job_number is None})),
            missed_jobs=tuple(each.job for each in missed if each.job is not None),
            inactive_schedules=tuple(sorted(key for key, _ in inactive)),
            new_errors=tuple(each for each in errors if each.first_seen >= now - NEW)[:MOST_NAMES],
            confirmations=tx.health.count_confirmations(owner=owner, most=most),
            reviews=0 if queues else tx.reviews.count_open(owner=owner, most=most),
            has_jobs=tx.metrics.last_number() > 0,
        )

    return world.route(owner=owner).store.read(read)


def _depths(
    tx: Tx, at: datetime, owner: str | None, queues: Collection[str], skip: Collection[str] = ()
) -> dict[str, int]:
    """Count jobs that were due by an instant, by queue."""
    if owner is not None:
        return tx.health.due_of_owner(owner, at, most=MOST + 1)
    found = tx.statistics.due_depths(micros(at), MOST + 1, MOST_QUEUES, in_all=not queues, skip=skip)
    return {queue: count for queue, count in found.items() if queue != MACHINERY and (not queues or queue in queues)}
