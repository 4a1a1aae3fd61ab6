"""Jobs: what a store says of them, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, overload

from horae.core.dataclass import dataclass
from horae.core.values import swift

if TYPE_CHECKING:
    from horae.core.jobs.acts import Act
    from horae.core.jobs.batch import Batch
    from horae.core.jobs.job import Filter, Job, Lease, NewJob, Run, Settlement
    from horae.core.jobs.labels import Blocks, Label, Labelled, Labelling
    from horae.core.jobs.lines import AttemptLines
    from horae.core.jobs.parents import ParentResult
    from horae.core.jobs.reasons import Parent
    from horae.ports.claims import PutBack
    from horae.ports.queues import DueBacklog

End = tuple[int, int]  # a place in the order of ends: when a job ended, in microseconds, and its number


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of an enqueue: a new job, or, for a known key, the existing one."""

    number: int
    deduplicated: bool = False
    request_hash: str = ""
    key: str | None = None  # under which it was stored, where that is not the one asked for
    run_at: datetime | None = None  # of a job of many calls: when it is due now
    gathered: int = 0  # of such a job: how many calls or values it has


make_placed = swift(Placed)


class PlacedAlike(Sequence[Placed]):
    """The results of many new jobs, of which only the numbers differ; each is made when it is asked for."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Placed: ...
    @overload
    def __getitem__(self, index: slice) -> PlacedAlike: ...
    def __getitem__(self, index: int | slice) -> Placed | PlacedAlike:
        if isinstance(index, slice):
            return PlacedAlike(self.numbers[index])
        return make_placed(self.numbers[index])

    def __iter__(self) -> Iterator[Placed]:
        return map(make_placed, self.numbers)


class LabelRows(Protocol):
    """The map of labels inside one transaction."""

    def state(self, *, lock: bool = False) -> Labelling: ...
    def save(self, state: Labelling) -> None: ...
    def next_number(self) -> int: ...
    def horizon(self) -> int: ...
    def has_passed(self, horizon: int) -> bool: ...
    def reach(self, low: int, high: int, rows: int) -> int:
        """Return how far from *low* a step over so many live and so many ended rows reaches, up to *high*."""

    def read_live(self, low: int, high: int) -> list[Labelled]: ...
    def read_ended(self, low: int, high: int) -> list[Labelled]: ...
    def read_numbered(self, numbers: Sequence[int]) -> list[Labelled]:
        """Return those of these jobs that have not ended."""

    def add(self, blocks: Blocks) -> None: ...
    def members(self, label: Label, *, before: int | None, limit: int) -> list[int]:
        """Return numbers of jobs that have a label, the highest first: those of so many blocks."""

    def forget(self, *, limit: int) -> int: ...


class JobRows(Protocol):
    """Jobs inside one transaction."""

    def get(self, number: int) -> Job | None: ...
    def some(self, numbers: Iterable[int]) -> list[Job]:
        """Return those of these jobs that have not ended."""

    def tokens(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the tokens of those of these jobs that have not ended."""

    def lock(self, number: int) -> Job | None: ...
    def lock_many(self, numbers: Iterable[int]) -> list[Job]: ...
    def look_back(self, rows: int, *, before: int | None, least: int = 0) -> int | None:
        """Return the number down to which a look over so many live and so many ended rows reaches; None: to *least*."""

    def find(self, wanted: Filter, *, limit: int, before: int | None, least: int | None = None) -> list[Job]: ...
    def look_back_ends(self, rows: int, since: int, *, before: End | None) -> int | None:
        """Return the end down to which a look over so many endings since an instant reaches; None: over all of them."""

    def find_by_end(self, wanted: Filter, *, limit: int, before: End | None, least: int | None) -> list[Job]: ...
    def find_among(self, wanted: Filter, numbers: Sequence[int]) -> list[Job]:
        """Return those of these jobs that a filter wants, the newest first."""

    def runs(self, number: int) -> list[Run]: ...
    def counts(
        self,
        queue: str | None,
        owner: str | None,
        machinery: bool = False,
        ended_since: datetime | None = None,
        *,
        now: datetime,
    ) -> dict[tuple[str, str], int]: ...
    def requeue(self, job: Job, *, run_at: datetime, attempt: int, band: int | None, now: datetime) -> bool: ...
    def end_waiting(self, job: Job, *, reason: str | None, now: datetime) -> bool: ...
    def requeue_many(self, chosen: Sequence[Job], *, run_at: datetime, revive: bool, now: datetime) -> set[int]:
        """Put locked jobs (back) into the queue, with *revive* with all their attempts; return the refused ones."""

    def end_waiting_many(self, chosen: Sequence[Job], *, reason: str, now: datetime) -> set[int]:
        """Finish locked jobs that are not running; return the refused ones."""

    def ask_to_cancel(self, job: Job, *, reason: str) -> bool: ...
    def move(self, job: Job, queue: str) -> bool: ...
    def replan(self, job: Job, new: NewJob) -> bool:
        """Let the waiting job of an object stand for another action, at another time; it begins anew."""

    def keep_checkpoint(self, job: Job, checkpoint: str | None) -> bool:
        """Write the checkpoint of a job that its holder is about to end; False where it has another holder."""

    def metrics(
        self, *, now: datetime, since: datetime, owner: str | None, ended_since: datetime | None = None
    ) -> dict[str, Any]: ...
    def rates(self, *, since: datetime, owner: str | None, ended_since: datetime | None = None) -> dict[str, int]:
        """Return of the raw figures of ``metrics`` those of a window."""

    def insert(self, new: Sequence[NewJob], now: datetime) -> list[Placed]: ...
    def settle(self, settlements: Sequence[Settlement], now: datetime) -> set[int]:
        """Write endings in this transaction; return the numbers of the jobs whose token was no longer current.

        The fences and the outcomes are those of ``Store.settle``; queues that the endings let jobs into are woken
        after the commit. A verb that queues a job again wakes its queue itself, as ``endings.settle`` does.
        """

    def put_back(self, returned: Sequence[PutBack]) -> set[int]:
        """Queue claimed jobs again with a raised token; return the numbers of those that were not put back.

        Their token was no longer current, or someone has asked to cancel them: those must be settled.
        """

    def lock_held(self, leases: Iterable[Lease]) -> set[int]:
        """Keep these jobs from changing hands until the transaction ends; return the numbers of those still held."""

    def start(self, number: int, *, worker_id: str, until: datetime, now: datetime) -> None: ...
    def take(self, job: Job, *, worker_id: str, until: datetime, now: datetime) -> Job | None:
        """Claim one waiting job by its number; None where another process has it by now."""

    def holders(self, concurrency_key: str) -> list[Job]: ...
    def unfinished(self, owner: str, at_most: int) -> int: ...
    def died(self, since: datetime, *, limit: int) -> list[Job]: ...
    def parents(self, number: int) -> list[Parent]:
        """Return the jobs that one waits for, in order."""

    def parent_results(self, number: int, *, most_bytes: int) -> tuple[list[ParentResult], int]:
        """Return the jobs that one was enqueued after with what they returned, and the size of all results."""

    def enqueued_after(self, number: int, *, limit: int) -> list[int]:
        """Return the first jobs that one was enqueued after, in that order, also those that have ended."""

    def count_groups(self, wanted: Filter, *, least: int | None, most: int) -> dict[tuple[str, str, str], int]: ...
    def count_among(self, wanted: Filter, numbers: Sequence[int]) -> dict[tuple[str, str, str], int]: ...
    def children(self, number: int, *, limit: int) -> list[int]:
        """Return jobs that wait, or waited, for one, by number."""

    def waits_for_ever(self, queues: Iterable[str] | None, *, limit: int) -> list[tuple[int, int]]:
        """Return jobs that wait for one that will never succeed, through others or not, each with that one."""

    def may_move(self, queues: Iterable[str]) -> bool:
        """Return whether any of these queues holds a job that runs, or will run without manual help."""

    def waiting(self, due_before: datetime, *, not_in: Iterable[str]) -> list[DueBacklog]: ...


class ActRows(Protocol):
    """Bulk acts inside one transaction, and the jobs that they are about."""

    def add(self, act: Act) -> int: ...
    def get(self, number: int, *, lock: bool = False) -> Act | None: ...
    def put(self, act: Act) -> None: ...
    def find(self, *, owner: str | None, states: Collection[str], limit: int, before: int | None) -> list[Act]: ...
    def without_job(self, *, limit: int) -> list[Act]: ...
    def are_worked_on(self) -> bool: ...
    def add_part(self, act: Act) -> bool: ...
    def in_parts(self, since: datetime, *, limit: int) -> list[Act]: ...
    def was_begun(self, number: int) -> bool: ...
    def highest(self, *, before: datetime | None = None) -> int: ...
    def window(self, wanted: Filter, *, after: int, highest: int, rows: int, limit: int) -> tuple[list[int], int]:
        """Return the next jobs that fit, and the number up to which was looked, over at most *rows* live jobs."""

    def keep(self, number: int, times: Mapping[int, datetime]) -> None: ...
    def kept(self, number: int, *, after: int, limit: int) -> dict[int, datetime]: ...
    def forget(self, before: datetime, *, limit: int) -> int: ...


class BatchRows(Protocol):
    """Batches inside one transaction, and which jobs belong to them."""

    def add(self, batch: Batch) -> int | None:
        """Store a batch; None where another has its key, also one that was stored just now."""

    def by_key(self, owner: str, key: str, *, latest: bool = False) -> Batch | None: ...
    def fill(self, batch: Batch, numbers: Sequence[int], now: datetime, *, has_waiting: bool) -> set[str]:
        """Note the jobs and the callbacks of a new batch; return queues that may have work at once."""

    def get(self, number: int, *, lock: bool = False) -> Batch | None: ...
    def find(self, *, owner: str | None, states: Collection[str], limit: int, before: int | None) -> list[Batch]: ...
    def of_job(self, number: int) -> Batch | None: ...
    def jobs(self, number: int, *, state: str | None, limit: int, after: int = 0) -> list[int]: ...
    def cancel(self, number: int, reason: str) -> None: ...
    def being_cancelled(self, *, limit: int) -> list[Batch]: ...
    def forget(self, before: datetime, *, limit: int) -> int: ...


class LineRows(Protocol):
    """What handlers have logged; it is written with the endings of their attempts."""

    def of_job(self, number: int) -> list[AttemptLines]: ...


class LedgerRows(Protocol):
    """Effects that must happen once per job and step."""

    def begin(self, number: int, token: int) -> None:
        """Lock the job and check its token, so that only the current holder may write."""

    def get(self, number: int, name: str) -> str | None: ...
    def put(self, number: int, name: str, result: str, now: datetime) -> None: ...
    def renew(self, number: int, until: datetime) -> None:
        """Extend the lease of the job that ``begin`` locked."""

    def get_of_task(self, task: int, scope: str, name: str) -> str | None:
        """Return the result of a step inside a turn or an action, the *scope*, of a task."""

    def put_of_task(self, task: int, scope: str, name: str, result: str, now: datetime) -> None: ...
