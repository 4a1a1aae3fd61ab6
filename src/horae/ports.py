"""Ports: the interfaces that Horae needs, such as a clock, dice, a store and wake-ups.

Stores and actions do not know each other; they meet here. ``World`` bundles the ports for the verbs.
"""

# size: every port in one place, because this is where floors that do not know each other meet

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from horae.core.jobs.job import Change, Filter, Job, Lease, NewJob, Order, Outcome, Run, Settlement
from horae.core.retention import Retention
from horae.core.time.boots import Boot, LeaseLine
from horae.core.values import swift

if TYPE_CHECKING:  # values of rooms that a process may never enter
    from horae.core.access.callers import Token
    from horae.core.access.sessions import LoginCode, Session
    from horae.core.attention.lanes import Event, Kept, Lane, Line, StoredFact, Task, TaskWait
    from horae.core.audit.chain import Head, Seal
    from horae.core.audit.entries import Entry
    from horae.core.error_groups import ErrorGroup, Failure
    from horae.core.governance.budgets import Budget, BudgetPeriod, JobBudget, PeriodKey, Reservation, Spending
    from horae.core.governance.decisions import Cite, Decision
    from horae.core.governance.evidence import Evidence
    from horae.core.governance.objects import GovernedObject, Link, ObjectFilter, ObjectVersion, Removals, StateCount
    from horae.core.governance.personas import Persona
    from horae.core.governance.policies import StoredPolicy
    from horae.core.governance.report import Counted
    from horae.core.governance.reviews import Review
    from horae.core.governance.rollbacks import Rollback
    from horae.core.jobs.acts import Act
    from horae.core.jobs.labels import Label, Labelled, Labelling
    from horae.core.jobs.locks import LockHolder
    from horae.core.jobs.parameters import Parameter
    from horae.core.jobs.reasons import Parent
    from horae.core.jobs.running_limits import LimitSource
    from horae.core.limits import Limit
    from horae.core.metrics import Backlog
    from horae.core.partitions import Partition
    from horae.core.pulse import Part
    from horae.core.retention import RetentionRule, RunRetention
    from horae.core.schedules.schedule import Fire, Firing, Schedule, ScheduleResult, Unfinished
    from horae.core.statistics import Deaths, Endings, Grain, Marginals, RollUp, Statistic
    from horae.core.views import View

Drain = Literal["stay", "leave"]  # finish and claim nothing more; then wait to be resumed, or end
Open = Literal["slots", "acts", "reservations", "needs", "objects"]  # what a repair looks after
NOTICED = timedelta(seconds=1)  # smaller differences between the lease line and the wall clock are not converted
End = tuple[int, int]  # a place in the order of ends: when a job ended, in microseconds, and its number
T = TypeVar("T")
K = TypeVar("K", "Task", "TaskWait", "Event", "StoredFact")


class Clock(Protocol):
    """The one place that knows what time it is."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC, as all hosts on one store agree on it."""

    def monotonic(self) -> float:
        """Return seconds that never jump, for durations."""

    def steady(self) -> datetime:
        """Return the present instant on the lease line, which no step of the host's clock moves.

        All processes on one store agree on it. Where the database's clock is used it is the same as ``now``.
        """

    def pause(self, seconds: float) -> None:
        """Wait in this thread until so much of this clock's time has passed."""

    async def pause_async(self, seconds: float) -> None:
        """Wait until so much of this clock's time has passed, while the event loop goes on."""


@runtime_checkable
class FollowingClock(Protocol):
    """A clock that follows the store's: a reading that came with other answers spares it one of its own."""

    def follow(self, store_time: datetime, asked_at: float) -> None:
        """Take over the store's time, asked for at that moment of the monotonic clock and answered just now."""


class Dice(Protocol):
    """The one source of chance."""

    def roll(self) -> float:
        """Return a number in [0, 1)."""

    def name(self, length: int = 12) -> str:
        """Return fresh random hexadecimal characters, for ids that must not collide."""


class HasDice(Protocol):
    """Something with a source of chance: the world, or a rule that has no world of its own."""

    @property
    def dice(self) -> Dice: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of an enqueue: a new job, or, for a known key, the existing one."""

    number: int
    deduplicated: bool = False
    request_hash: str = ""
    key: str | None = None  # under which it was stored, where that is not the one asked for


make_placed = swift(Placed)


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's request for due jobs of one queue."""

    queue: str
    limit: int
    worker_id: str
    lease: timedelta
    order: Order | None = None  # None: the queue's own
    owner: str | None = None  # only this tenant's jobs; None: those of all tenants, for a house worker
    steady: datetime | None = None  # now on the lease line; None: the same as now

    def until(self, now: datetime) -> datetime:
        """Return the end of the lease, on the lease line."""
        return (self.steady or now) + self.lease


@dataclass(frozen=True, slots=True)
class Renewed:
    """The result of a renewal: the jobs that are still held, and those that should stop.

    ``busy``: held, but not extended, because a transaction has the row locked. The reaper skips such rows too.
    """

    held: frozenset[int]
    cancelled: frozenset[int]
    busy: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The result of one peek at the store: when the next work is due, and which held jobs are cancelled."""

    next_due_at: datetime | None
    next_expiry_at: datetime | None
    next_fire_at: datetime | None = None
    next_machinery_at: datetime | None = None  # of the jobs of Horae's own
    store_time: datetime | None = None
    cancelled: frozenset[int] = frozenset()
    unsealed: bool = False  # audit entries wait to be sealed
    unsealed_lines: bool = False  # lines of journals may wait to be sealed
    unrolled: bool = False  # endings wait to be counted in the statistics
    unlabelled: bool = False  # jobs wait to be added to the map of labels
    unsettled: bool = False  # jobs wait to hear that a job they need has ended
    next_object_at: datetime | None = None  # when the first governed object is, or was, due for something
    open: frozenset[Open] = frozenset()  # where something is under way that might have been left behind
    drain: Drain | None = None  # what the node that asks was asked to do


@dataclass(frozen=True, slots=True)
class ChoreTurn:
    """The answer to a process that wants to do a chore: whether it has it, and until or from when."""

    is_taken: bool
    at: datetime  # taken: the end of its lease; else when it is worth asking again; on the lease line


@dataclass(frozen=True, slots=True)
class ChoreState:
    """How a chore stands; instants are on the lease line."""

    name: str
    due_at: datetime
    leased_until: datetime  # long ago where no process is at it
    holder: str  # the process that did it last, or is at it


@dataclass(frozen=True, slots=True)
class PutBack:
    """A claimed job that may not start yet: it goes back to its queue, without a run and without an attempt."""

    number: int
    token: int
    run_at: datetime
    reason: str | None = None  # kept as the job's last error; None: what was there stays


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The end of an attempt as a rule sees it, before it is written."""

    job: Job  # as its claim returned it
    outcome: Outcome  # as its holder reported it, or as an earlier rule replaced it
    change: Change  # what follows: whether it is retried, dead, ended
    put_back: bool = False  # a later rule did not admit the job: nothing began, and there is no run


@dataclass(frozen=True, slots=True)
class Node:
    """A process that serves queues, as listed for people."""

    node_id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    queues: Mapping[str, int] = field(default_factory=dict)
    state: str = "running"
    release: str | None = None  # of the application, as it says itself
    busy: Mapping[str, int] | None = None  # slots in use, by queue; None where it does not say
    loop_lag: timedelta | None = None  # the longest that its event loop kept anything waiting since the last heartbeat
    memory: int | None = None  # bytes of its process that are in memory
    drain: Drain | None = None  # asked to claim nothing more, and then to stay or to leave
    drain_at: datetime | None = None
    drain_by: str | None = None
    drain_reason: str | None = None

    def serves(self, queue: str) -> bool:
        """Return whether it claims jobs of a queue."""
        return self.drain is None and queue in self.queues


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """A handler as the house's workers declare it; *tenants* says whether tenants' jobs may run it."""

    name: str
    queue: str
    tenants: bool = False
    app: str = ""
    stored_at: datetime | None = None
    stored_by: str = ""
    sensitive: tuple[str, ...] = ()  # names of arguments that readers do not see
    parameters: tuple[Parameter, ...] | None = None  # None where whoever stored it does not say
    description: str | None = None
    budget: JobBudget | None = None  # what tenants' jobs draw on, whatever they say themselves


@dataclass(frozen=True, slots=True)
class Queue:
    """A named stream of jobs and how it is served."""

    name: str
    order: Order = "priority"
    max_running: int | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """A filter for schedules; None means any."""

    owner: str | None = None
    group: str | None = None
    handler: str | None = None
    mode: str | None = None
    enabled: bool | None = None
    declared: bool | None = None
    kind: str | None = None
    not_tzdata: str | None = None  # computed with another zone database than this one
    toggled: bool | None = None  # whether a toggle that a restart forgets is in force
    queues: tuple[str, ...] = ()  # only those that fire into one of these; none named means any
    text: str | None = None  # somewhere in its key, title or handler


@dataclass(frozen=True, slots=True)
class Tally:
    """A summary of a schedule's runs, over the whole cluster."""

    run_count: int = 0
    fail_count: int = 0
    last_outcome: str | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter for runs; None means any.

    Without a schedule and a handler: those of all schedules, and of code that is only tracked.
    """

    schedule_id: int | None = None
    handler: str | None = None
    owner: str | None = None
    outcomes: tuple[str, ...] = ()
    started_after: datetime | None = None
    started_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Logged:
    """A run with the key of its schedule, and what set it off: ``schedule``, ``manual``, ``backfill`` or ``job``."""

    run: Run
    key: str | None
    trigger: str


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs of a queue are in a state, and how many of them are due and may start."""

    jobs: int
    due: int = 0


@dataclass(frozen=True, slots=True)
class DueBacklog:
    """Jobs of one queue that have been due since before an instant."""

    queue: str
    count: int
    oldest: datetime


class LogRows(Protocol):
    """Runs inside one transaction, as an administrator looks through them."""

    def find(self, wanted: LogFilter, *, limit: int, before: tuple[int, int] | None) -> list[Logged]: ...
    def get(self, number: int, token: int) -> Logged | None: ...
    def count(self, wanted: LogFilter) -> int: ...
    def count_old(self, wanted: LogFilter, before: datetime) -> int: ...
    def remove_old(self, wanted: LogFilter, before: datetime, *, limit: int) -> int: ...


class LabelRows(Protocol):
    """The map of labels inside one transaction."""

    def state(self, *, lock: bool = False) -> Labelling: ...
    def save(self, state: Labelling) -> None: ...
    def next_number(self) -> int: ...
    def horizon(self) -> int: ...
    def has_passed(self, horizon: int) -> bool: ...
    def read_live(self, low: int, high: int) -> list[Labelled]: ...
    def read_ended(self, low: int, high: int) -> list[Labelled]: ...
    def add(self, found: Iterable[Labelled]) -> None: ...
    def members(self, label: Label, *, before: int | None, limit: int) -> list[int]:
        """Return numbers of jobs that have a label, the highest first: those of so many blocks."""

    def forget(self, *, limit: int) -> int: ...


class JobRows(Protocol):
    """Jobs inside one transaction."""

    def get(self, number: int) -> Job | None: ...
    def some(self, numbers: Iterable[int]) -> list[Job]:
        """Return those of these jobs that have not ended."""

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
        """Claim one waiting job by its number; None where somebody else has it by now."""

    def holders(self, concurrency_key: str) -> list[Job]: ...
    def unfinished(self, owner: str, at_most: int) -> int: ...
    def died(self, since: datetime, *, limit: int) -> list[Job]: ...
    def parents(self, number: int) -> list[Parent]:
        """Return the jobs that one waits for, in order."""

    def count_groups(self, wanted: Filter, *, least: int | None, most: int) -> dict[tuple[str, str, str], int]: ...
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
    def highest(self) -> int: ...
    def window(self, wanted: Filter, *, after: int, highest: int, rows: int, limit: int) -> tuple[list[int], int]:
        """Return the next jobs that fit, and the number up to which was looked, over at most *rows* live jobs."""

    def keep(self, number: int, times: Mapping[int, datetime]) -> None: ...
    def kept(self, number: int, *, after: int, limit: int) -> dict[int, datetime]: ...
    def forget(self, before: datetime, *, limit: int) -> int: ...


class QueueRows(Protocol):
    def get(self, name: str, *, lock: bool = False) -> Queue | None: ...
    def all(self) -> list[Queue]: ...
    def put(self, queue: Queue) -> None: ...
    def limits(self) -> dict[str, int]: ...


class LimitRows(Protocol):
    """Limits of jobs that run at once, and their sources."""

    def lock(self, name: str) -> None: ...
    def sources(self, name: str | None = None, *, app: str | None = None) -> list[LimitSource]: ...
    def put_source(self, source: LimitSource) -> None: ...
    def remove_source(self, name: str, app: str) -> None: ...
    def apply(self, name: str, max_running: int | None) -> None: ...
    def running(self) -> dict[str, int]: ...


class PulseRows(Protocol):
    def look(self) -> Mapping[Part, tuple[object, ...]]:
        """Return, by part, values that differ when something in it may have changed."""


class ViewRows(Protocol):
    """Saved views inside one transaction."""

    def get(self, number: int, *, lock: bool = False) -> View | None: ...
    def named(self, owner: str, author: str, room: str, name: str) -> View | None: ...
    def find(self, owner: str, author: str, room: str | None, *, limit: int) -> list[View]:
        """Return the views of a person and those shared in its tenant, by name."""

    def count(self, owner: str, author: str) -> int: ...
    def add(self, view: View) -> int: ...
    def put(self, view: View) -> None: ...
    def remove(self, number: int) -> None: ...


class NodeRows(Protocol):
    def all(self) -> list[Node]: ...
    def get(self, node_id: str, *, lock: bool = False) -> Node | None: ...
    def put(self, node: Node) -> None: ...
    def set_drain(self, node: Node) -> None:
        """Write what a node was asked to do; its heartbeats do not touch that."""

    def remove(self, node_id: str) -> None:
        """Take a node off the list; its release stays known for a day, because its last runs are looked at later."""

    def releases(self, node_ids: Collection[str]) -> dict[str, str]:
        """Return the releases of these nodes, also of those that have left lately."""

    def forget_silent(self, before: datetime) -> int: ...


class LedgerRows(Protocol):
    """Effects that must happen once per job and step."""

    def begin(self, number: int, token: int) -> None:
        """Lock the job and check its token, so that only the current holder may write."""

    def get(self, number: int, name: str) -> str | None: ...
    def put(self, number: int, name: str, result: str, now: datetime) -> None: ...
    def renew(self, number: int, until: datetime) -> None:
        """Extend the lease of the job that ``begin`` locked."""


@dataclass(frozen=True, slots=True)
class FiredQuarter:
    """How many fires of a quarter of an hour had a verdict."""

    at: datetime
    verdict: str
    count: int


class ScheduleRows(Protocol):
    """Schedules inside one transaction."""

    def get(self, key: str, owner: str, *, lock: bool = False) -> Schedule | None: ...
    def by_number(self, numbers: Iterable[int]) -> dict[int, Schedule]: ...
    def find(self, wanted: ScheduleFilter, *, limit: int, after: Schedule | str | None) -> list[Schedule]: ...
    def find_by_next(
        self, wanted: ScheduleFilter, *, limit: int, after: tuple[datetime | None, int] | None
    ) -> list[Schedule]: ...
    def count_enabled(self, owner: str) -> int: ...
    def add(self, schedule: Schedule) -> int: ...
    def put(self, schedule: Schedule, *, expected_version: int) -> None: ...
    def remove(self, number: int) -> None: ...
    def follow(self, number: int, followed: Iterable[int]) -> None: ...
    def followers(self, number: int) -> list[str]: ...
    def unfinished(self, number: int) -> Unfinished: ...
    def without_fire(self, now: datetime, *, limit: int) -> list[Schedule]:
        """Return schedules that are on, have no next fire, and no unfinished job whose end would give them one."""

    def awaited(self, number: int) -> bool:
        """Return whether a job of it is unfinished whose end the schedule will learn of."""

    def record(self, number: int, fire: Fire, job_id: int | None, now: datetime) -> None: ...
    def recorded(self, number: int, start: datetime, end: datetime) -> set[datetime]: ...
    def history(self, number: int, *, limit: int, before: datetime | None) -> list[tuple[Fire, int | None]]: ...
    def was_fired(self, number: int, fire_at: datetime, job_id: int) -> bool:
        """Return whether this job came from the schedule's own rhythm, not from a hand or a backfill."""

    def has_fired_since(self, number: int, fire_at: datetime, since: datetime) -> bool:
        """Return whether a later occurrence has become a job since that instant."""

    def next_due(self, owner: str | None, queues: Collection[str], *, limit: int) -> list[Schedule]:
        """Return the schedules that fire next, in that order; with *queues* only those that fire into them."""

    def results(self, numbers: Collection[int], *, limit: int) -> dict[int, list[ScheduleResult]]:
        """Return the last results of each of these schedules, the newest first."""

    def fired_by_quarter(
        self, since: datetime, *, owner: str | None, queues: Collection[str], most: int
    ) -> tuple[list[FiredQuarter], datetime | None]:
        """Count fires since an instant by quarter of an hour and verdict, from the *most* newest records.

        Also how far back these reach; None where that is all.
        """

    def fired_between(
        self, begin: datetime, end: datetime, recorded_before: datetime, *, owner: str | None, queues: Collection[str],
        most: int, limit: int,
    ) -> list[tuple[Schedule, int, int]]:  # fmt: skip
        """Return schedules that fired in a span, how often they ran and how often not, the busiest first."""

    def tallies(self, numbers: Iterable[int]) -> dict[int, Tally]: ...
    def handler_tallies(self, handlers: Iterable[str]) -> dict[str, Tally]: ...
    def skipped(self, numbers: Iterable[int]) -> set[int]: ...


@dataclass(frozen=True, slots=True)
class ScheduledTaskRun:
    """An attempt at a user's task, and what set it off: ``schedule``, ``manual`` or ``backfill``."""

    run: Run
    trigger: str


class ScheduledTaskRows(Protocol):
    """Users' tasks inside one transaction; with *owner* None, those of all tenants."""

    def get(self, task_id: str, owner: str | None, *, lock: bool = False) -> Schedule | None: ...
    def find(
        self, owner: str | None, *, limit: int, after: tuple[str, int, int] | None, queues: Collection[str] = ()
    ) -> list[Schedule]: ...
    def count_enabled(self, owner: str) -> int: ...
    def live(self, numbers: Iterable[int]) -> dict[int, list[Job]]: ...
    def last_run(self, number: int) -> Run | None: ...
    def runs(self, number: int, *, limit: int, before: tuple[int, int] | None) -> list[ScheduledTaskRun]: ...


class DefinitionRows(Protocol):
    """The handlers of the house's workers, and which of them are open to tenants."""

    def get(self, name: str) -> StoredDefinition | None: ...
    def all(self) -> list[StoredDefinition]: ...
    def sensitive(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the declared names of sensitive arguments of these handlers; those without are left out."""

    def lock(self) -> None:
        """Lock the definitions: no claim may hold jobs, and no other transaction change one, until this one ends."""

    def put(self, definition: StoredDefinition) -> None: ...
    def release(self, limit: int) -> tuple[int, set[str]]:
        """Let up to *limit* held jobs of open handlers back into the claim; how many, in which queues."""


class TokenRows(Protocol):
    """Access tokens of the service."""

    def get(self, token_id: str) -> Token | None: ...
    def find(self, owner: str | None, *, limit: int, after: tuple[datetime, str] | None = None) -> list[Token]: ...
    def add(self, token: Token) -> None: ...
    def revoke(self, token_id: str, *, actor: str, now: datetime) -> bool: ...
    def mark_used(self, token_id: str, *, address: str | None, now: datetime) -> None: ...
    def valid(self, token_ids: Collection[str], now: datetime) -> set[str]:
        """Return which of these are neither revoked nor expired."""


class SessionRows(Protocol):
    """Browsers that are logged in, and codes that log one in."""

    def get(self, session_id: str) -> Session | None: ...
    def find(
        self, owner: str | None, now: datetime, *, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[Session]: ...
    def add(self, session: Session) -> None: ...
    def mark_seen(self, session_id: str, now: datetime) -> None: ...
    def remove(self, session_id: str) -> bool: ...
    def add_code(self, code: LoginCode) -> None: ...
    def take_code(self, digest: str) -> LoginCode | None:
        """Delete a code and return it; None when there is none, or another transaction takes it."""

    def forget(self, now: datetime, *, limit: int) -> int: ...


class OwnerRows(Protocol):
    """Tenants: the lock behind which quotas are counted, and what is special about one."""

    def lock(self, owner: str, now: datetime) -> Mapping[str, Any]:
        """Lock a tenant, so that no other transaction checks its quotas until this one ends; return its settings."""

    def settings(self, owner: str) -> Mapping[str, Any]: ...
    def put(self, owner: str, settings: Mapping[str, Any], now: datetime) -> None: ...
    def all(self, *, limit: int, after: str | None) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret as stored: unreadable without the key."""

    name: str
    text: str
    previous: str | None
    previous_until: datetime | None
    created_at: datetime
    updated_at: datetime


class SecretRows(Protocol):
    """Secrets that jobs refer to by name."""

    def get(self, owner: str, name: str) -> Sealed | None: ...
    def put(self, owner: str, secret: Sealed) -> None: ...
    def names(self, owner: str) -> list[Sealed]: ...
    def remove(self, owner: str, name: str) -> bool: ...


class Sealer(Protocol):
    """Encrypts secrets, so that the database alone does not reveal them."""

    def seal(self, owner: str, name: str, text: str) -> str: ...
    def open(self, owner: str, name: str, sealed: str) -> str:
        """Return the text; ``SecretsLocked`` when its key is missing, or the row was changed or belongs elsewhere."""

    def is_current(self, sealed: str) -> bool:
        """Return whether it is sealed with the key that seals now."""


@dataclass(frozen=True, slots=True)
class LaneTally:
    """How a lane stands in numbers: live tasks by state, open waits by kind, its focus, and the last journal line."""

    tasks: Mapping[str, int] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)
    focus: Task | None = None
    last: Line | None = None


class AttentionRows(Protocol):
    """Lanes and what they keep, inside one transaction."""

    def lane(self, name: str, owner: str, *, lock: bool = False) -> Lane | None: ...
    def lane_by_number(self, number: int, *, lock: bool = False) -> Lane | None: ...
    def lanes(self, owner: str | None, *, limit: int, after: int) -> list[Lane]: ...
    def tallies(self, lanes: Collection[int]) -> dict[int, LaneTally]:
        """Return how each of these lanes stands, in four statements for all of them."""

    def make_lane(self, name: str, owner: str, now: datetime) -> None: ...
    def save_lane(self, lane: Lane) -> None: ...
    def add(self, kept: K) -> K: ...
    def save(self, kept: Kept) -> None: ...
    def task(self, number: int) -> Task | None: ...
    def task_by_key(self, lane: int, key: str) -> Task | None: ...
    def focus(self, lane: int) -> Task | None: ...
    def live_tasks(self, lane: int) -> list[Task]: ...
    def tasks(self, lane: int, *, states: Iterable[str] = (), limit: int, before: int | None = None) -> list[Task]: ...
    def wait(self, number: int) -> TaskWait | None: ...
    def waits_of(self, task: int, *, only_open: bool = True) -> list[TaskWait]: ...
    def open_waits(self, lane: int) -> list[TaskWait]: ...
    def waits_for(self, lane: int, key: str) -> list[TaskWait]: ...
    def waits_without_job(self, lane: int | None, *, limit: int) -> list[TaskWait]:
        """Return open waits whose job is missing, dead, or in another queue."""

    def tasks_without_job(self, lane: int | None, *, limit: int) -> list[Task]:
        """Return tasks with a start or deadline ahead whose job is not there, as with waits."""

    def event(self, number: int) -> Event | None: ...
    def event_by_id(self, lane: int, event_id: str) -> Event | None: ...
    def pending_events(self, lane: int, key: str | None = None, *, limit: int = 1000) -> list[Event]: ...
    def new_facts(self, task: int) -> list[StoredFact]: ...
    def facts(self, task: int, *, limit: int) -> list[StoredFact]:
        """Return the last facts about a task, the newest first."""

    def everything(self, lane: int) -> dict[str, list[Kept]]: ...
    def write(self, line: Line) -> None: ...
    def lines(self, lane: int, *, since: int = 0, limit: int, task: int | None = None) -> list[Line]: ...
    def last_sealed(self, lane: int) -> Line | None: ...
    def unsealed(self, limit: int) -> list[int]: ...
    def seal(self, lane: int, hashes: Mapping[int, str]) -> None: ...


class AuditRows(Protocol):
    def append(self, entry: Entry) -> None: ...
    def append_many(self, entries: Iterable[Entry]) -> None: ...
    def find(
        self,
        *,
        object_id: str | None,
        limit: int,
        before: int | None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        object_type: str | None = None,
    ) -> list[tuple[int, Entry]]: ...
    def open_entries(self, limit: int) -> list[tuple[int, Entry]]: ...
    def lock_chains(self) -> None: ...
    def heads(self, owners: Iterable[str] | None = None) -> dict[str, Head]: ...
    def seal(self, seals: Sequence[Seal], heads: Iterable[Head]) -> None: ...
    def owners(self) -> list[str]: ...
    def chain(self, owner: str, *, after: tuple[int, int], limit: int) -> list[tuple[Seal, Entry]]: ...
    def missing_guards(self) -> list[str]: ...
    def erase_reasons(self, owner: str, objects: Collection[tuple[str, str]]) -> int:
        """Forget the reasons that stand beside the entries about these objects, each a type and an id; how many."""


class ObjectRows(Protocol):
    """Governed objects inside one transaction, with their versions, links and removals."""

    def named(self, owner: str, id: str, kind: str | None = None) -> list[GovernedObject]:  # noqa: A002
        """Return the objects of this id, of which there may be one for each kind."""

    def by_name(self, names: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], GovernedObject]:
        """Return objects by owner, kind and id."""

    def by_number(self, numbers: Iterable[int]) -> dict[int, GovernedObject]: ...
    def lock(self, numbers: Iterable[int]) -> dict[int, GovernedObject]:
        """Lock objects in the order of their numbers, before budgets and before jobs."""

    def find(self, wanted: ObjectFilter, *, limit: int, before: int | None) -> list[GovernedObject]: ...
    def find_due(
        self, wanted: ObjectFilter, *, limit: int, after: tuple[datetime, int] | None
    ) -> list[GovernedObject]: ...
    def count_states(self, owner: str | None, *, most: int) -> list[StateCount]: ...
    def count_due(self, owner: str | None, before: datetime, *, most: int) -> int: ...
    def with_fingerprint(self, owner: str, fingerprints: Collection[str]) -> list[GovernedObject]: ...
    def put_back(self, owner: str, agent: str | None, *, limit: int) -> list[int]: ...
    def without_job(self, *, after: int, limit: int) -> list[GovernedObject]: ...
    def walk(self, *, owner: str | None, after: int, limit: int) -> list[GovernedObject]: ...
    def live_jobs(self, found: Sequence[GovernedObject]) -> dict[int, Job]: ...
    def unclaimed(self, due_before: datetime, *, not_in: Collection[str], limit: int) -> list[GovernedObject]:
        """Return objects whose job has been due since before an instant and waits, in other queues than these."""

    def superfluous_jobs(self, *, limit: int) -> list[Job]:
        """Return jobs that wait or run for a stored object beside the one that it has planned."""

    def count_live(self, owner: str) -> int: ...
    def add(self, new: Sequence[GovernedObject]) -> list[int]: ...
    def save(self, changed: Sequence[tuple[GovernedObject, GovernedObject]]) -> None:
        """Write objects after a change; ``Conflict`` where one has no longer the version that it had before."""

    def add_versions(self, new: Sequence[ObjectVersion]) -> None: ...
    def versions(self, number: int, *, limit: int = 1000, before: int | None = None) -> list[ObjectVersion]: ...
    def versions_of(self, numbers: Iterable[int], *, after: tuple[int, int], limit: int) -> list[ObjectVersion]:
        """Return versions of objects, by the number of the object and oldest first, from after one of them."""

    def contents(self, numbers: Iterable[int]) -> dict[int, ObjectVersion]: ...
    def erase_content(self, number: int) -> None: ...
    def add_links(self, new: Sequence[Link]) -> None: ...
    def rests_on(self, numbers: Iterable[int]) -> list[Link]: ...
    def resting_on(self, numbers: Iterable[int]) -> list[Link]: ...
    def neighbours(self, number: int, *, limit: int) -> tuple[list[GovernedObject], list[GovernedObject]]:
        """Return what an object rests on and what rests on it, the newest of each."""

    def lock_removals(self, owner: str, day: datetime) -> Removals: ...
    def removals(self, owner: str | None) -> list[Removals]: ...
    def put_removals(self, counted: Removals) -> None: ...


class EvidenceRows(Protocol):
    """Evidence inside one transaction."""

    def add(self, new: Sequence[Evidence]) -> None: ...
    def of(self, number: int, *, limit: int = 1000) -> list[Evidence]: ...
    def of_many(self, numbers: Iterable[int]) -> dict[int, list[Evidence]]: ...
    def known(self, number: int, reference_keys: Collection[str]) -> dict[str, Evidence]: ...
    def erase_notes(self, number: int) -> None: ...


class PolicyRows(Protocol):
    """Policies inside one transaction; every version stays, the highest one holds."""

    def current(self, owners: Collection[str]) -> list[StoredPolicy]: ...
    def history(self, owner: str, agent: str, kind: str, *, limit: int = 100) -> list[StoredPolicy]: ...
    def add(self, policy: StoredPolicy) -> None: ...


class PersonaRows(Protocol):
    """Personas inside one transaction."""

    def get(self, owner: str, agent: str, *, lock: bool = False) -> Persona | None: ...
    def find(self, owners: Collection[str], *, lock: bool = False) -> list[Persona]: ...
    def put(self, persona: Persona) -> None: ...


class DecisionRows(Protocol):
    """Decisions and what they cite, inside one transaction."""

    def add(self, decision: Decision, cited: Iterable[Cite] = ()) -> Decision: ...
    def get(self, owner: str, id: str, *, lock: bool = False) -> Decision | None: ...  # noqa: A002
    def by_number(self, numbers: Iterable[int], *, lock: bool = False) -> list[Decision]: ...
    def find(
        self,
        *,
        owner: str | None,
        agent: str | None = None,
        outcome: str | None = None,
        risk: str | None = None,
        limit: int,
        before: int | None = None,
    ) -> list[Decision]: ...
    def save(self, decision: Decision) -> None: ...
    def cites(self, numbers: Iterable[int]) -> list[Cite]: ...
    def citing(self, objects: Iterable[int]) -> list[Cite]: ...
    def citing_one(self, number: int, *, limit: int) -> list[Decision]: ...


class ReviewRows(Protocol):
    """Reviews inside one transaction."""

    def add(self, review: Review) -> Review: ...
    def get(self, owner: str, id: str, *, lock: bool = False) -> Review | None: ...  # noqa: A002
    def find(
        self, *, owner: str | None, states: Collection[str] = (), limit: int, before: int | None = None
    ) -> list[Review]: ...
    def of(self, objects: Iterable[int], *, only_open: bool = True) -> list[Review]: ...
    def count_open(self, *, owner: str | None, most: int) -> int: ...
    def overdue(self, now: datetime, *, limit: int) -> list[Review]: ...
    def save(self, review: Review) -> None:
        """Write an open review; ``Conflict`` where it has been closed."""


class ErasureRows(Protocol):
    """What erasure changes inside one transaction."""

    def object(self, number: int) -> None: ...
    def jobs(self, owner: str, kind: str, name: str) -> list[int]: ...
    def decisions(self, numbers: Collection[int]) -> None: ...
    def reviews(self, owner: str, number: int, decided: Collection[str]) -> None: ...
    def attention(self, owner: str, needles: Sequence[str], *, limit: int) -> list[Kept]: ...


class ReportRows(Protocol):
    """What a report counts inside one transaction."""

    def count(
        self, owner: str | None, spans: list[tuple[datetime, datetime]], now: datetime, *, most: int, most_due: int
    ) -> Counted: ...


class CascadeRows(Protocol):
    """What rests on an object, page by page in the order of numbers."""

    def experiences(self, root: int, *, after: int, limit: int) -> list[int]: ...
    def cognitions(self, root: int, *, after: int, limit: int) -> list[int]: ...
    def decisions(self, root: int, *, after: int, limit: int) -> list[int]: ...
    def count(self, root: int) -> int: ...


class RollbackRows(Protocol):
    """Rollbacks inside one transaction."""

    def add(self, rollback: Rollback) -> Rollback: ...
    def get(self, owner: str, id: str, *, lock: bool = False) -> Rollback | None: ...  # noqa: A002
    def is_open(self, owner: str, agent: str) -> bool: ...
    def find(
        self, *, owner: str | None, states: Collection[str] = (), limit: int, before: int | None = None
    ) -> list[Rollback]: ...
    def save(self, rollback: Rollback) -> None: ...


class BudgetRows(Protocol):
    """Budgets inside one transaction. Periods are locked in the order of their keys, after objects and before jobs."""

    def named(self, names: Collection[tuple[str, str]]) -> list[Budget]:
        """Return the budgets of these owners and names."""

    def numbered(self, numbers: Collection[int]) -> dict[int, Budget]: ...
    def get(self, budget: Budget, *, lock: bool = False) -> Budget | None:
        """Return the stored budget of the same owner, name, agent, unit and period."""

    def find(
        self, *, owner: str | None, name: str | None, limit: int, after: tuple[str, ...] | None = None
    ) -> list[Budget]: ...
    def put(self, budget: Budget) -> int: ...
    def lock_periods(self, wanted: Iterable[tuple[Budget, datetime]]) -> dict[PeriodKey, BudgetPeriod]:
        """Lock periods of budgets, each with its beginning; one that is used for the first time is made."""

    def lock(self, keys: Collection[PeriodKey]) -> dict[PeriodKey, BudgetPeriod]:
        """Lock those of these periods that exist."""

    def periods(self, keys: Collection[PeriodKey]) -> dict[PeriodKey, BudgetPeriod]: ...
    def history(self, number: int, *, limit: int, before: datetime | None = None) -> list[BudgetPeriod]: ...
    def save(self, changed: Mapping[PeriodKey, tuple[BudgetPeriod, BudgetPeriod]]) -> None:
        """Write locked periods, each as it was and as it is now; only if nothing else has changed it."""

    def of_attempts(self, leases: Iterable[Lease]) -> list[Reservation]:
        """Return what these attempts have reserved and settled."""

    def waits(self, numbers: Collection[int]) -> list[Reservation]:
        """Return what these jobs wait for."""

    def waiting_for(self, number: int, *, limit: int) -> list[Reservation]: ...
    def add(self, new: Sequence[Reservation]) -> None: ...
    def change(self, changed: Iterable[Reservation]) -> None: ...
    def remove(self, gone: Iterable[Reservation]) -> None: ...
    def stop_waiting(self, numbers: Collection[int]) -> None: ...
    def leftovers(self, *, limit: int) -> list[Reservation]:
        """Return reservations whose attempt has ended, and waits of jobs that no longer wait: nothing ends them."""

    def overdrawn(self, since: datetime, *, limit: int) -> list[BudgetPeriod]:
        """Return periods that are overdrawn and began since then, or never end."""

    def sums(self) -> dict[PeriodKey, tuple[int, int]]:
        """Add up, for each period, what is reserved and what is settled; for a check of the totals."""

    def all_periods(self) -> list[BudgetPeriod]: ...


class MetricRows(Protocol):
    """Figures about all jobs, for those who watch over them."""

    def depths(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return how many live jobs there are by (queue, state)."""

    def sample(self, now: datetime) -> bool:
        """Count all live jobs and keep the result while there are many; return whether there are."""

    def waiting(self, now: datetime, depths: Mapping[tuple[str, str], Depth] | None = None) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first; *depths* spares counting them again."""

    def verdicts(self, since: datetime) -> dict[str, int]: ...
    def last_number(self) -> int: ...


class StatisticRows(Protocol):
    """Statistics of endings, and the history from which they are counted; instants are microseconds, as in core."""

    def state(self, *, lock: bool = False) -> RollUp | None: ...
    def put_state(self, state: RollUp) -> None: ...
    def first_ended(self, since: int) -> int | None: ...
    def ended_after(self, since: int, skip: int) -> int | None:
        """Return when the run ended that comes *skip* runs after the first since an instant."""

    def ended_before(self, until: int, skip: int) -> int | None:
        """Return when the run ended that lies *skip* runs before the last until an instant."""

    def endings(self, start: int, end: int, length: int) -> list[Endings]: ...
    def deaths(self, start: int, end: int, length: int) -> list[Deaths]: ...
    def count_ended(self, spans: Sequence[tuple[int, int]], length: int) -> dict[int, int]:
        """Count the runs in the history by the beginning of the span of this length in which they ended."""

    def counted(self, grain: Grain, spans: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Return the runs that were counted, by span."""

    def spans(self, grain: str, start: int, end: int, scope: str, name: str) -> dict[int, Statistic]:
        """Return the figures of one name by span."""

    def marginals(self, grain: str, start: int, end: int, scope: str | None = None) -> list[Marginals]:
        """Return all figures of each span, or those of one marginal."""

    def totals(
        self, windows: Sequence[tuple[str, int, int]], scope: str, name: str | None = None
    ) -> dict[str, tuple[int, Statistic]]:
        """Add up how attempts ended in windows of a grain, by name, each with the beginning of its first span."""

    def recent(self, start: int, end: int) -> Marginals:
        """Add up what the minutes of a window say of queues (outcomes, delays) and handlers (outcomes, durations)."""

    def starts(self, grain: Grain, start: int, end: int) -> list[int]:
        """Return the spans for which something is stored."""

    def replace(self, grain: str, at: int, marginals: Marginals) -> None: ...
    def remove(self, grain: Grain, start: int, end: int) -> None: ...
    def due_depths(self, now: int, most: int, most_queues: int) -> dict[str, int]:
        """Count due jobs by queue, none further than *most*."""

    def put_depths(self, grain: Grain, at: int, depths: Mapping[str, int]) -> None: ...
    def depths(self, grain: str, start: int, end: int, name: str | None = None) -> dict[str, dict[int, int]]:
        """Return sampled depths by queue and span."""


class ErrorGroupRows(Protocol):
    """Groups of errors inside one transaction."""

    def failures(self, start: int, end: int) -> Iterable[Failure]:
        """Return the failed attempts of a span, a few at a time."""

    def get(self, owner: str, fingerprint: str, *, lock: bool = False) -> ErrorGroup | None: ...
    def find(
        self,
        *,
        owner: str | None,
        handler: str | None,
        muted: bool | None,
        seen_since: datetime | None,
        now: datetime,
        limit: int,
        before: tuple[int, str, str] | None,
    ) -> list[ErrorGroup]: ...
    def put(self, group: ErrorGroup) -> None: ...
    def counted(self, grain: str, at: int) -> dict[tuple[str, str], int]: ...
    def put_counts(self, grain: str, at: int, counts: Mapping[tuple[str, str], int]) -> None: ...
    def days(self, owner: str, fingerprint: str, since: int) -> dict[int, int]: ...
    def forget(self, minutes_before: int, days_before: int) -> None: ...


class HealthRows(Protocol):
    """Queries for the checks of an installation; they change nothing."""

    def due(self, now: datetime) -> list[DueBacklog]: ...
    def expired_leases(self, before: datetime, *, limit: int) -> list[int]: ...
    def chores(self) -> list[ChoreState]: ...
    def count_dead(self) -> int: ...
    def count_jobs(self, state: str, *, owner: str | None, queues: Collection[str], most: int) -> int: ...
    def due_of_owner(self, owner: str, at: datetime, *, most: int) -> dict[str, int]: ...
    def count_confirmations(self, *, owner: str | None, most: int) -> int: ...
    def count_unsettled_needs(self) -> int: ...
    def closed_handlers(self, *, limit: int) -> list[tuple[str, str, int]]: ...
    def overdue_schedules(self, before: datetime, *, limit: int, owner: str | None = None) -> list[str]: ...
    def inactive_schedules(self, *, limit: int, owner: str | None = None) -> list[tuple[str, str]]: ...
    def count_enabled_schedules(self, handler: str) -> int: ...
    def expiring_tokens(self, now: datetime, before: datetime, *, limit: int) -> list[tuple[str, str, datetime]]: ...
    def count_valid_tokens(self, now: datetime) -> int: ...
    def sealed_secrets(self, *, limit: int) -> list[tuple[str, str, str]]: ...
    def table_sizes(self) -> dict[str, int]: ...
    def jobs_by_handler(self) -> list[tuple[str, str, str, int]]: ...
    def runs_by_handler(self) -> list[tuple[str, str, int]]: ...


class PartitionRows(Protocol):
    """Partitions of the history; none where the database does not partition."""

    @property
    def moved_at_most(self) -> int:
        """How many rows of a catch-all can be given a partition of their own without keeping writers waiting."""

    def all(self, table: str) -> list[Partition]: ...
    def count_catch_all(self, partitions: Sequence[Partition], *, most: int) -> int:
        """Count rows that no day takes, at most so many; *partitions* are all of a table."""

    def last_in_catch_all(self, table: str, since: datetime) -> datetime | None: ...
    def keeps_runs(self, partition: Partition, retention: RunRetention, now: datetime) -> bool:
        """Return whether a partition has a run whose time to be kept is not over."""

    def keeps_fires(self, partition: Partition, recorded_since: datetime) -> bool: ...
    def count_runs(self, partition: Partition) -> None:
        """Add the runs of a partition to the stored counts and mark it, so that readers leave it out."""

    def forget_dropped(self, table: str) -> None:
        """Remove the marks of partitions that are gone."""


class RetentionRows(Protocol):
    """Stored rules about how long runs are kept."""

    def all(self) -> list[RetentionRule]: ...
    def lock(self) -> None:
        """Let nobody else change a rule until the transaction ends."""

    def put(self, rule: RetentionRule) -> None: ...
    def remove(self, queue: str, outcome: str) -> None: ...
    def walk(
        self, keep: timedelta, until: datetime, retention: RunRetention, *, limit: int, several: bool
    ) -> tuple[int, bool]:
        """Delete runs that are kept for *keep* and ended before *until*; how many, and whether there may be more."""


class Tx(Protocol):
    """One open transaction, room by room."""

    @property
    def connection(self) -> Any: ...
    def lend_connection(self, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        """Lend the connection to a handler. *limit* bounds each of its statements; it cannot commit."""

    def wake(self, queues: Iterable[str]) -> None:
        """Tell sleeping processes after the commit that there may be work in these queues."""

    @property
    def jobs(self) -> JobRows: ...
    @property
    def labels(self) -> LabelRows: ...
    @property
    def acts(self) -> ActRows: ...
    @property
    def queues(self) -> QueueRows: ...
    @property
    def limits(self) -> LimitRows: ...
    @property
    def nodes(self) -> NodeRows: ...
    @property
    def views(self) -> ViewRows: ...
    @property
    def pulse(self) -> PulseRows: ...
    @property
    def ledger(self) -> LedgerRows: ...
    @property
    def audit(self) -> AuditRows: ...
    @property
    def logs(self) -> LogRows: ...
    @property
    def schedules(self) -> ScheduleRows: ...
    @property
    def scheduled_tasks(self) -> ScheduledTaskRows: ...
    @property
    def definitions(self) -> DefinitionRows: ...
    @property
    def tokens(self) -> TokenRows: ...
    @property
    def sessions(self) -> SessionRows: ...
    @property
    def owners(self) -> OwnerRows: ...
    @property
    def secrets(self) -> SecretRows: ...
    @property
    def metrics(self) -> MetricRows: ...
    @property
    def statistics(self) -> StatisticRows: ...
    @property
    def error_groups(self) -> ErrorGroupRows: ...
    @property
    def health(self) -> HealthRows: ...
    @property
    def partitions(self) -> PartitionRows: ...
    @property
    def retention(self) -> RetentionRows: ...
    @property
    def attention(self) -> AttentionRows: ...
    @property
    def objects(self) -> ObjectRows: ...
    @property
    def evidence(self) -> EvidenceRows: ...
    @property
    def policies(self) -> PolicyRows: ...
    @property
    def budgets(self) -> BudgetRows: ...
    @property
    def personas(self) -> PersonaRows: ...
    @property
    def decisions(self) -> DecisionRows: ...
    @property
    def reviews(self) -> ReviewRows: ...
    @property
    def rollbacks(self) -> RollbackRows: ...
    @property
    def reports(self) -> ReportRows: ...
    @property
    def cascades(self) -> CascadeRows: ...
    @property
    def erasures(self) -> ErasureRows: ...


PartitionChange = Literal["add", "split", "drop"]


@dataclass(frozen=True, slots=True)
class Spared:
    """Fires that are not deleted one by one: of days between two instants, recorded since a third."""

    since: datetime
    until: datetime
    recorded_since: datetime


Occurrence = tuple[int, datetime]  # the number of a schedule, and an instant
FindRecorded = Callable[[Sequence[Occurrence]], set[Occurrence]]  # those of the occurrences that have a record
Decide: TypeAlias = "Callable[[list[Schedule], dict[int, Unfinished], FindRecorded], list[tuple[Firing, list[NewJob]]]]"
EndSilent = Callable[[Job], Settlement]  # the end of a running job that showed no progress for too long


class Store(Protocol):
    """The database. The hot verbs are one transaction each; everything else goes through ``transact``."""

    def insert(self, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]: ...
    def insert_on(self, connection: Any, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]: ...
    def claim(self, claim: Claim, *, now: datetime) -> list[Job]: ...
    def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> set[int]:
        """Write endings; answers with the numbers of the jobs whose token was no longer current."""

    def renew(self, leases: Iterable[Lease], *, until: datetime) -> Renewed: ...
    def find_expired(self, *, now: datetime, limit: int) -> list[Job]: ...
    def fire(
        self, decide: Decide, end_silent: EndSilent, *, now: datetime, limit: int
    ) -> list[tuple[Firing, list[int]]]:
        """Turn due schedules into jobs: *decide* says what follows; all of it commits together."""

    def note(
        self, lease: Lease, *, progress: str | None = None, checkpoint: str | None = None, now: datetime | None = None
    ) -> bool: ...
    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        """Return what is due next, and what the node *node_id* was asked to do.

        With *node* its heartbeat is written too, with *worker_id* the jobs of that worker that should stop are named.
        """

    def forget(self, table: str, before: datetime, limit: int, *, spared: Spared | None = None) -> int:
        """Delete up to *limit* rows of a table that are older than an instant; how many there were."""

    def alter_partitions(self, change: PartitionChange, partition: Partition, *, patient: bool = False) -> bool:
        """Add, split off or drop a partition, waiting for locks a second at most; False where there was nothing to do.

        ``StoreBusy`` where the table is in use: try again later. *patient* waits for as long as it takes.
        """

    def take_chore(
        self, name: str, *, token: str, holder: str, every: timedelta, lease: timedelta, now: datetime
    ) -> ChoreTurn:
        """Take a chore for *lease* if it is due and no process holds it; *now* is on the lease line."""

    def extend_chore(self, name: str, token: str, *, until: datetime, now: datetime) -> bool:
        """Hold a chore longer; false when it is no longer held with this token."""

    def end_chore(self, name: str, token: str, *, due_at: datetime, done_at: datetime | None) -> bool:
        """Give a chore back until it is due again; without *done_at* it failed. False when it was not held."""

    def let_in_forgotten(self) -> set[str]:
        """Let in jobs that are held although there is room, or their handler is open: the net under every hold."""

    def settle_children(self, *, now: datetime, limit: int) -> int:
        """Deal with up to *limit* jobs whose parents have ended or were revived; how many there were."""

    def find_lost_parents(self) -> int:
        """Mark jobs that wait for a dead or missing job and were not marked when it ended: a safety net."""

    def hears(self) -> bool:
        """Return whether hints from other processes arrive; if not, sleepers look often."""

    def transact(self, work: Callable[[Tx], T], *, hot: bool = False) -> T:
        """Run *work* in one write transaction; *hot* uses the shorter timeout of the hot verbs."""

    def read(self, work: Callable[[Tx], T], *, unbounded: bool = False) -> T:
        """Run *work* in one read-only transaction that sees one moment; *unbounded* lifts the statement timeout."""

    def read_uncommitted(self, work: Callable[[Tx], T]) -> T | None:
        """Run *work* so that it also sees rows which others have not committed; None where it need not."""

    def moment(self) -> AbstractContextManager[None]:
        """Run all reads of this thread inside the block in one transaction, so that they see one moment."""

    def read_time(self) -> datetime | None:
        """Return the database's own clock, where several hosts share it; None where the system's clock rules."""

    def lease_line(self, boot: Boot, *, now: datetime, fix: bool = True) -> LeaseLine | None:
        """Return the instant from which all processes count this boot's uptime; None where the database keeps time.

        The first process of a boot stores it and ends the leases of the previous boot. Without *fix* nothing is
        stored; nor is it while another transaction is writing, which may be the caller's own: the call does not wait.
        """

    def check_schema(self) -> None:
        """Raise where the tables are not, or no longer, those that this code needs."""

    def wake(self, queues: Iterable[str]) -> None:
        """Tell sleeping processes, this one and others, that there may be work: a hint, never a promise."""

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call *listener* with a queue's name ("*" for any) from any thread; the answer ends the subscription."""

    def close(self) -> None: ...


class JobSource(Protocol):
    """The source from which a worker takes jobs and to which it reports outcomes: the store, or a service over HTTP.

    Calls block, so a worker makes them in threads, and each of them ends in bounded time. A source that does not answer
    raises ``StoreError`` or ``ServiceUnavailable``; the worker keeps what it has and tries again. To give a job back is
    an ending like any other: ``released``.
    """

    def claim(self, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
        """Take up to *limit* due jobs of one queue; the lease counts from now."""

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        """Return what is due next, and whether the node *node_id* was asked to drain.

        With *node* send its heartbeat too; with *worker_id* return which of its jobs should stop.
        """

    def settle(self, batch: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        """End attempts; answers, by the id of the job, what became of each, None where the lease had been lost."""

    def renew(self, leases: Sequence[Lease], *, lease: timedelta) -> Renewed:
        """Extend leases from now on; a job that is missing from the answer has been lost."""

    def progress(self, lease: Lease, value: Any) -> None:
        """Show how far an attempt has come; ``LeaseLost`` where it is no longer ours."""

    def checkpoint(self, lease: Lease, value: Any) -> None:
        """Keep what a later attempt needs to go on from here."""

    def once(
        self,
        lease: Lease,
        step: str,
        work: Callable[[Any], Any],
        *,
        limit: timedelta | None = None,
        held_for: timedelta | None = None,
    ) -> Any:
        """Run ``work(connection)`` and keep its result in one transaction; ``NeedsDatabase`` where there is none."""

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        """Reserve what an effect of an attempt may cost; the same key is reserved once."""

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        """Say what an effect really cost, or, without a key, the attempt as a whole."""

    def leave(self, node: Node) -> None:
        """Take a worker that ends off the list of nodes."""

    def hears(self) -> bool:
        """Return whether hints about new work arrive; if not, the worker looks often."""

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call *listener* with a queue's name ("*" for any) from any thread; the answer ends the subscription."""


class TracedRun(Protocol):
    """A run that is being traced."""

    def ended(self, outcome: Outcome, problem: BaseException | None) -> None: ...


class Tracing(Protocol):
    """Joins what happens here with what happened elsewhere. Its own trouble stays its own."""

    def current(self) -> str | None:
        """Return the ``traceparent`` of what is under way here; None where nothing is."""

    def running(self, job: Job) -> AbstractContextManager[TracedRun]:
        """Trace one attempt, as what is under way in its task or thread."""


class JobRule(Protocol):
    """A rule that takes part in the beginning and the end of the jobs it concerns: governed objects, budgets.

    The verbs that claim and end jobs ask it, for every kind of worker; a worker decides nothing. Rules stand in
    ``World.rules`` in the order of their locks: objects, then budgets. Jobs are locked last.

    Each call is part of a transaction that may be rolled back and run again, also with fewer jobs. So a rule keeps
    nothing in memory, does nothing outside the database, and wakes queues by ``tx.wake``.
    """

    def concerns(self, job: Job) -> bool:
        """Return whether the rule has a say, from the job alone; the other jobs cost nothing."""

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> Sequence[PutBack]:
        """Admit claimed jobs, and write what that takes; return those that may not start now.

        Only jobs that earlier rules have admitted are asked about. It commits only if all of them are still held.
        """

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> Mapping[int, Outcome]:
        """Write what these endings mean; return the outcomes that take the place of others, by number of the job.

        Every kind of ending comes here, also of jobs that were never admitted, because their holder died before. It
        commits together with the endings, and only if each of them is still its holder's to report. An ending with
        ``put_back`` takes back what ``admit`` wrote in the same transaction; nothing can take its place.
        """


@dataclass(frozen=True, slots=True)
class World:
    """Everything a verb needs from outside."""

    store: Store
    clock: Clock
    dice: Dice
    max_payload_bytes: int = 1024 * 1024
    shortest_interval: timedelta = timedelta(0)  # at least so far apart are the runs of a user's interval task
    tzdata: str = ""  # the version of the zone database that this process reads
    tracing: Tracing | None = None
    rules: tuple[JobRule, ...] = ()  # asked in this order, which is that of their locks
    retention: Retention = field(default_factory=Retention)  # how long this process's settings keep finished rows

    def route(self, *, owner: str | None = None, key: str | None = None, id: str | None = None) -> World:  # noqa: A002
        """Return the world that keeps what is about to be touched: today itself, with several shards one of them.

        A verb names what it knows: the owner of what it makes or looks for, the key of a house job or schedule, the id
        of what exists. With nothing known it means everything.
        """
        return self

    def wall_time(self, steady: datetime | None) -> datetime | None:
        """Convert an instant of the lease line to wall-clock time; unchanged unless the clock was set since boot."""
        if steady is None:
            return None
        shift = self.clock.now() - self.clock.steady()
        return steady if abs(shift) < NOTICED else steady + shift


class Lock(Protocol):
    """A lock that was acquired: held until released, or until its time has run out."""

    @property
    def key(self) -> str: ...
    @property
    def token(self) -> str:
        """The proof of ownership: random, and new for each acquisition."""

    def extend(self, ttl: timedelta | float) -> bool:
        """Hold it for *ttl* from now on; false when it is no longer ours."""

    def release(self) -> bool:
        """Let go; false when it was no longer ours. Another holder's lock is never touched."""

    def __enter__(self) -> Lock: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Release; a lock that was lost meanwhile is reported in the log."""


class LockManager(Protocol):
    """Locks by name, shared by all who use the same back end. Not re-entrant; every lock has an end."""

    def try_lock(
        self, key: str, ttl: timedelta | float, wait: timedelta | float = 0, retry_interval: timedelta | float = 0.05
    ) -> Lock | None:
        """Acquire the lock for *ttl*; None if another holder still has it after *wait*. Numbers are seconds."""

    def with_lock(
        self, key: str, ttl: timedelta | float, wait: timedelta | float = 0, retry_interval: timedelta | float = 0.05
    ) -> Lock:
        """Acquire for a ``with`` block; raise ``LockNotAcquired`` instead of returning None."""


@runtime_checkable
class AttemptLocks(Protocol):
    """A lock manager that knows which attempt at a job holds a lock, so that a dead attempt's lock is taken over.

    One without this method works too: then the lock of a dead worker stays until its time has run out.
    """

    def try_lock_for(
        self, key: str, ttl: timedelta | float, holder: LockHolder, is_over: Callable[[LockHolder], bool]
    ) -> Lock | None:
        """Acquire for an attempt, also from an earlier attempt at the same job or one that *is_over*."""


class Limiter(Protocol):
    """Something that counts calls and says how long the next one has to wait."""

    def try_acquire(self) -> float | None:
        """Return None when the call is permitted, or the seconds to wait before asking again."""


class CallLog(Protocol):
    """The log of a rate limiter: the calls in the last window, and the waiting tickets."""

    @property
    def shared(self) -> bool:
        """Whether other processes use it, so that asking may block and places may move without us."""

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        """Count a call under this ticket and answer 0, or answer how many seconds it must wait.

        With *stay* the ticket keeps its position in the queue (first come, first served) and must be presented again
        within a few seconds, or it loses the position. *ahead* is the number of waiters that the log does not know.
        """

    def drop(self, limit: Limit, ticket: str) -> None:
        """Forget a ticket, waiting or counted: its call was not made."""
