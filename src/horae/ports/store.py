"""The database: its hot verbs, and one open transaction, room by room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from horae.core.jobs.job import Job, Lease, NewJob, Settlement
    from horae.core.partitions import Partition
    from horae.core.schedules.schedule import Firing
    from horae.core.time.boots import Boot, LeaseLine
    from horae.ports.access import OwnerRows, SecretRows, SessionRows, TokenRows, ViewRows
    from horae.ports.adapters import CheckpointRows, DocumentRows, SessionItemRows
    from horae.ports.attention import AttentionRows
    from horae.ports.audit import AuditRows
    from horae.ports.bus import OutboxRows
    from horae.ports.chores import ChoreTurn, HealthRows, PartitionChange, PartitionRows, RetentionRows, Spared
    from horae.ports.claims import Claim, Renewed
    from horae.ports.cluster import ClusterRows, MessageRows, ParcelRows, RestoreRows, SentJobRows, SettingRows
    from horae.ports.definitions import DefinitionRows
    from horae.ports.governance import (
        BudgetRows,
        CascadeRows,
        ConversationRows,
        DecisionRows,
        ErasureRows,
        EvidenceRows,
        ObjectRows,
        PersonaRows,
        PolicyRows,
        ReportRows,
        ReviewRows,
        RollbackRows,
    )
    from horae.ports.jobs import ActRows, BatchRows, JobRows, LabelRows, LedgerRows, LineRows, Placed
    from horae.ports.logs import LogRows
    from horae.ports.queues import LimitRows, OwnerHoursRows, QueueRows
    from horae.ports.scheduled_tasks import ScheduledTaskRows
    from horae.ports.schedules import CalendarRows, Decide, EndSilent, ExpectationRows, ScheduleRows
    from horae.ports.statistics import ErrorGroupRows, MetricRows, PulseRows, StatisticRows
    from horae.ports.workers import Node, NodeRows, Upcoming

T = TypeVar("T")


class LoanExpired(Exception):
    """A handler kept a lent connection for longer than its limit; its transaction has been rolled back."""


class Tx(Protocol):
    """One open transaction, room by room."""

    @property
    def connection(self) -> Any: ...
    def lend_connection(self, limit: timedelta | None = None, *, whole: bool = False) -> AbstractContextManager[Any]:
        """Lend the connection to a handler, which cannot commit. *limit* bounds each of its statements.

        With *whole* it bounds the loan as well: after it the transaction is rolled back, and LoanExpired is raised.
        """

    def wake(self, queues: Iterable[str]) -> None:
        """Tell sleeping processes after the commit that there may be work in these queues."""

    def bind(self, vshard: int, version: int | None, *, lock: bool = True) -> None:
        """Act on one virtual shard of a cluster; ``StaleMap`` where this database does not keep it, or knows a newer
        map than *version*. *lock* keeps the shard from being moved until the end.
        """

    def enter(self, vshards: Collection[int], version: int) -> None:
        """Act on several virtual shards, without new jobs in them; ``StaleMap`` as with :meth:`bind`."""

    @property
    def jobs(self) -> JobRows: ...
    @property
    def labels(self) -> LabelRows: ...
    @property
    def acts(self) -> ActRows: ...
    @property
    def batches(self) -> BatchRows: ...
    @property
    def queues(self) -> QueueRows: ...
    @property
    def owner_hours(self) -> OwnerHoursRows: ...
    @property
    def limits(self) -> LimitRows: ...
    @property
    def nodes(self) -> NodeRows: ...
    @property
    def calendars(self) -> CalendarRows: ...
    @property
    def expectations(self) -> ExpectationRows: ...
    @property
    def views(self) -> ViewRows: ...
    @property
    def pulse(self) -> PulseRows: ...
    @property
    def ledger(self) -> LedgerRows: ...
    @property
    def lines(self) -> LineRows: ...
    @property
    def outbox(self) -> OutboxRows: ...
    @property
    def cluster(self) -> ClusterRows: ...
    @property
    def parcels(self) -> ParcelRows: ...
    @property
    def messages(self) -> MessageRows: ...
    @property
    def sent_jobs(self) -> SentJobRows: ...
    @property
    def settings(self) -> SettingRows: ...
    @property
    def restoring(self) -> RestoreRows: ...
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
    @property
    def conversations(self) -> ConversationRows: ...
    @property
    def checkpoints(self) -> CheckpointRows: ...
    @property
    def agent_sessions(self) -> SessionItemRows: ...
    @property
    def documents(self) -> DocumentRows: ...


class Store(Protocol):
    """The database. The hot verbs are one transaction each; everything else goes through ``transact``."""

    def insert(self, jobs: Sequence[NewJob], *, now: datetime) -> Sequence[Placed]: ...
    def insert_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[Placed | Exception]:
        """Store jobs of several callers, with as few commits as possible; what is refused is refused alone."""

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

    @property
    def fires_beside(self) -> int:
        """How many batches of fires one process may write at the same time with a gain."""

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

    def empty_catch_all(self, partition: Partition) -> bool:
        """Let the many rows of a catch-all have this partition, with no ending waiting; False where that cannot be.

        It may end anywhere and be repeated. Rows may lie aside afterwards: ``return_aside`` brings them back.
        """

    def return_aside(self, table: str, limit: int) -> int:
        """Bring back some rows of a table that lie aside, those of the last ends first; return how many."""

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

    def mend_batches(self, *, now: datetime, limit: int) -> int:
        """End batches whose jobs have all ended and that were not ended with them: a safety net; how many."""

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
