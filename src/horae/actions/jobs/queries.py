"""Queries for people: what a job belongs to, and how jobs are spread over states, queues and handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from horae.actions.consistency import one_moment
from horae.actions.jobs import jobs, lists
from horae.core.jobs.filters import computed
from horae.core.jobs.fingerprints import fingerprint
from horae.core.jobs.job import Filter
from horae.core.jobs.reasons import Parent
from horae.ports import Tx, World

MOST_COUNTED = 10_001  # dead jobs; one more than is told, to say that there are more
MOST_GROUPS = 1000
MOST_READ = 1000  # jobs that are counted one by one, where a filter asks what no table has
MOST_CHILDREN = 20  # named as related to a job


@dataclass(frozen=True, slots=True)
class Related:
    """What a job belongs to: its schedule, the jobs it waits for, some that wait for it, and the group of its error."""

    schedule: str | None
    parents: tuple[Parent, ...]
    children: tuple[str, ...]
    error_group: str | None


@one_moment
def related(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Related:
    """Return what a job belongs to."""
    job = jobs.get(world, job_id, owner=owner, queues=queues)

    def read(tx: Tx) -> Related:
        made_by = {} if job.schedule_id is None else tx.schedules.by_number([job.schedule_id])
        schedule = next((each.key for each in made_by.values()), None)
        children = tuple(f"job_{number}" for number in tx.jobs.children(job.number, limit=MOST_CHILDREN))
        group = None if not job.last_error else fingerprint(job.handler, job.last_error).hash
        return Related(schedule, tuple(tx.jobs.parents(job.number)), children, group)

    return world.route(owner=owner, id=job_id).store.read(read)


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many jobs share a state, a queue and a handler."""

    state: str
    queue: str
    handler: str
    count: int


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Counts of jobs by group, the largest first; *down_to* is the oldest number that was looked at, None: all were."""

    groups: tuple[GroupCount, ...]
    down_to: int | None


def count_groups(world: World, wanted: Filter) -> GroupCounts:
    """Count jobs that fit a filter by state, queue and handler, over a bounded number of the newest ones.

    Running and dead jobs are counted whatever their age, dead ones up to a bound.
    """
    jobs.check_states(wanted)

    def look(tx: Tx) -> GroupCounts:
        least = tx.jobs.look_back(lists.LOOK_BACK, before=None)
        if computed(wanted.terms):  # the tables cannot count these
            page, least = lists.look(tx, wanted, MOST_READ, None, least)
            found = dict(Counter((str(job.state), job.queue, job.handler) for job in page))
        else:
            found = tx.jobs.count_groups(wanted, least=least, most=MOST_COUNTED)
        groups = [GroupCount(*group, count) for group, count in found.items()]
        groups.sort(key=lambda each: (-each.count, each.state, each.queue, each.handler))
        return GroupCounts(tuple(groups[:MOST_GROUPS]), least)

    return world.route(owner=wanted.owner, key=wanted.key).store.read(look)
