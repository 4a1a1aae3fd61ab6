"""Queries for people: what a job belongs to, and how jobs are spread over states, queues and handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from horae.actions.consistency import one_moment
from horae.actions.jobs import jobs, lists
from horae.core.cluster.numbers import job_id as write_job_id
from horae.core.dataclass import dataclass
from horae.core.jobs.filters import computed
from horae.core.jobs.fingerprints import fingerprint
from horae.core.jobs.job import Filter
from horae.core.jobs.labels import leading_label
from horae.core.jobs.reasons import Parent
from horae.ports.store import Tx
from horae.ports.world import World

MOST_COUNTED = 10_001  # dead jobs; one more than is reported, to say that there are more
COUNTED_ALONG = 1000  # jobs of a label; a database looks each of them up in every day of its history
MOST_GROUPS = 1000
MOST_READ = 1000  # jobs that are counted one by one, where a filter asks what no table has
MOST_CHILDREN = 20  # named as related to a job
Groups = dict[tuple[str, str, str], int]  # jobs by state, queue and handler


@dataclass(frozen=True, slots=True)
class Related:
    """What a job belongs to: its schedule, jobs it waits for, some that wait for it, its error group, its batch, and
    the first jobs that it was enqueued after, also those that have ended.
    """

    schedule: str | None
    parents: tuple[Parent, ...]
    children: tuple[str, ...]
    error_group: str | None
    batch: str | None = None
    after: tuple[str, ...] = ()


@one_moment
def related(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Related:
    """Return what a job belongs to."""
    job = jobs.get(world, job_id, owner=owner, queues=queues)

    def read(tx: Tx) -> Related:
        made_by = {} if job.schedule_id is None else tx.schedules.by_number([job.schedule_id])
        schedule = next((each.key for each in made_by.values()), None)
        children = tuple(map(write_job_id, tx.jobs.children(job.number, limit=MOST_CHILDREN)))
        group = None if not job.last_error else fingerprint(job.handler, job.last_error).hash
        batch = tx.batches.of_job(job.number)
        after = tuple(map(write_job_id, tx.jobs.enqueued_after(job.number, limit=MOST_CHILDREN)))
        return Related(
            schedule, tuple(tx.jobs.parents(job.number)), children, group, None if batch is None else batch.id, after
        )

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

    Running jobs are counted whatever their age, and dead ones among the newest dead ones.
    """
    jobs.check_states(wanted)
    return world.route(owner=wanted.owner, key=wanted.key).store.read(lambda tx: read_groups(tx, wanted))


def read_groups(tx: Tx, wanted: Filter) -> GroupCounts:
    """Count as :func:`count_groups` does, in the caller's transaction."""
    least = tx.jobs.look_back(lists.LOOK_BACK, before=None)
    if computed(wanted.terms):  # the tables cannot count these
        page, least = lists.look(tx, wanted, MOST_READ, None, least)
        found = dict(Counter((str(job.state), job.queue, job.handler) for job in page))
    else:
        found, least = _count(tx, wanted, least)
    groups = [GroupCount(*group, count) for group, count in found.items()]
    groups.sort(key=lambda each: (-each.count, each.state, each.queue, each.handler))
    return GroupCounts(tuple(groups[:MOST_GROUPS]), least)


def _count(tx: Tx, wanted: Filter, least: int | None) -> tuple[Groups, int | None]:
    """Count down to *least*, or along a label where as many jobs as that costs reach further back."""
    label = leading_label(wanted)
    if label is None or least is None:
        return tx.jobs.count_groups(wanted, least=least, most=MOST_COUNTED), least
    labelled = tx.labels.state().labelled
    numbers = tx.labels.members(label, before=labelled, limit=COUNTED_ALONG)[:COUNTED_ALONG]
    reached = numbers[-1] if len(numbers) == COUNTED_ALONG else None  # None: these are all that have the label
    if labelled < least or (reached is not None and reached >= least):
        return tx.jobs.count_groups(wanted, least=least, most=MOST_COUNTED), least
    newer = tx.jobs.count_groups(wanted, least=labelled, most=MOST_COUNTED)
    return dict(Counter(newer) + Counter(tx.jobs.count_among(wanted, numbers))), reached
