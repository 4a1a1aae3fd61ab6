"""One open transaction, room by room; the statements of a room are imported when it is first entered."""

# size: one property for each room, so that a transaction names all of them

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event

from horae.errors import InvalidInput, StaleMap

if TYPE_CHECKING:
    from horae.core.cluster.messages import Message
    from horae.stores.access.owners import Owners
    from horae.stores.access.secrets import Secrets
    from horae.stores.access.sessions import Sessions
    from horae.stores.access.tokens import Tokens
    from horae.stores.adapters.checkpoints import Checkpoints
    from horae.stores.adapters.documents import Documents, SessionItems
    from horae.stores.attention import Attention
    from horae.stores.audit import Audit
    from horae.stores.cluster.messages import Messages
    from horae.stores.cluster.parcels import Parcels
    from horae.stores.cluster.restore import Restoring
    from horae.stores.cluster.rows import ClusterRows
    from horae.stores.cluster.sent_jobs import SentJobs
    from horae.stores.cluster.settings import Settings
    from horae.stores.cluster.shard import Shard
    from horae.stores.databases.hot import Hot
    from horae.stores.error_groups import ErrorGroups
    from horae.stores.governance.budgets import Budgets
    from horae.stores.governance.cascades import Cascades
    from horae.stores.governance.conversations import Conversations
    from horae.stores.governance.decisions import Decisions, Reviews, Rollbacks
    from horae.stores.governance.erasures import Erasures
    from horae.stores.governance.evidence import EvidenceRows
    from horae.stores.governance.objects import Objects
    from horae.stores.governance.policies import Personas, Policies
    from horae.stores.governance.reports import Reports
    from horae.stores.health import Health
    from horae.stores.jobs.acts import Acts
    from horae.stores.jobs.batch import Batches
    from horae.stores.jobs.definitions import Definitions
    from horae.stores.jobs.jobs import Jobs
    from horae.stores.jobs.labels import Labels
    from horae.stores.jobs.ledger import Ledger
    from horae.stores.jobs.lines import LineRows
    from horae.stores.jobs.nodes import Nodes
    from horae.stores.jobs.queues import OwnerHoursTable, Queues
    from horae.stores.jobs.running_limits import RunningLimits
    from horae.stores.logs import Logs
    from horae.stores.metrics import Metrics
    from horae.stores.outbox import Outbox
    from horae.stores.partitions import Partitions
    from horae.stores.pulse import Pulse
    from horae.stores.retention import RetentionRules
    from horae.stores.schedules.calendars import Calendars
    from horae.stores.schedules.expectations import Expectations
    from horae.stores.schedules.scheduled_tasks import ScheduledTasks
    from horae.stores.schedules.schedules import Schedules
    from horae.stores.statistics import Statistics
    from horae.stores.views import Views

Lend = Callable[[Connection, timedelta | None], AbstractContextManager[None]]


class Transaction:
    """One open transaction, room by room."""

    def __init__(
        self, connection: Connection, lend: Lend | None = None, hot: Hot | None = None, shard: Shard | None = None
    ) -> None:
        self.connection = connection
        self.entrance = None if shard is None else shard.entrance()  # where new rows enter their shard of a cluster
        self._lend = lend
        self._hot = hot
        self.woken: set[str] = set()  # queues in which there may be work once this is committed

    def bind(self, vshard: int, version: int | None, *, lock: bool = True) -> None:
        """Let this transaction act on one virtual shard of a cluster; refuse it where this database does not keep it.

        *version* is that of the caller's map; without *lock*, for reading, the shard may be moved meanwhile.
        """
        if self.entrance is not None:
            from horae.stores.databases.driver import CallerDriver

            self.entrance.vshard, self.entrance.version = vshard, version
            self.entrance.enter(CallerDriver(self.connection), [vshard], lock=lock)

    def enter(self, vshards: Collection[int], version: int) -> None:
        """Let this transaction act on several virtual shards, which it makes no new jobs in; refuse it as above."""
        if self.entrance is not None and vshards:
            from horae.stores.databases.driver import CallerDriver

            self.entrance.version = version
            self.entrance.enter(CallerDriver(self.connection), vshards)

    def wake(self, queues: Iterable[str]) -> None:
        """Tell sleeping processes after the commit that there may be work in these queues."""
        self.woken.update(queues)

    @contextmanager
    def lend_connection(self, limit: timedelta | None = None, *, whole: bool = False) -> Iterator[Connection]:
        """Lend the connection to a handler; committing is refused, because the transaction ends with its record.

        *limit* bounds each of the handler's statements, with *whole* all of its time; without it nothing is bounded.
        """

        def refuse(connection: Connection) -> None:
            connection.connection.rollback()  # a failed commit leaves the transaction open
            raise InvalidInput("commit_refused")

        bounded: AbstractContextManager[Any] = nullcontext()
        if limit is not None and whole:
            from horae.stores.loans import Loan

            bounded = Loan(self.connection, limit)
        with nullcontext() if self._lend is None else self._lend(self.connection, limit), bounded:
            event.listen(self.connection, "commit", refuse)
            try:
                yield self.connection
            finally:
                event.remove(self.connection, "commit", refuse)

    @cached_property
    def jobs(self) -> Jobs:
        from horae.stores.jobs.jobs import Jobs

        return Jobs(self.connection, self._hot, self.woken, self.entrance)

    @cached_property
    def labels(self) -> Labels:
        from horae.stores.jobs.labels import Labels

        return Labels(self.connection)

    @cached_property
    def acts(self) -> Acts:
        from horae.stores.jobs.acts import Acts

        return Acts(self.connection, self.entrance)

    @cached_property
    def batches(self) -> Batches:
        from horae.stores.jobs.batch import Batches

        return Batches(self.connection, self.entrance)

    @cached_property
    def queues(self) -> Queues:
        from horae.stores.jobs.queues import Queues

        return Queues(self.connection)

    @cached_property
    def owner_hours(self) -> OwnerHoursTable:
        from horae.stores.jobs.queues import OwnerHoursTable

        return OwnerHoursTable(self.connection)

    @cached_property
    def limits(self) -> RunningLimits:
        from horae.stores.jobs.running_limits import RunningLimits

        return RunningLimits(self.connection)

    @cached_property
    def nodes(self) -> Nodes:
        from horae.stores.jobs.nodes import Nodes

        return Nodes(self.connection)

    @cached_property
    def calendars(self) -> Calendars:
        from horae.stores.schedules.calendars import Calendars

        return Calendars(self.connection)

    @cached_property
    def expectations(self) -> Expectations:
        from horae.stores.schedules.expectations import Expectations

        return Expectations(self.connection, self.entrance)

    @cached_property
    def views(self) -> Views:
        from horae.stores.views import Views

        return Views(self.connection, self.entrance)

    @cached_property
    def pulse(self) -> Pulse:
        from horae.stores.pulse import Pulse

        return Pulse(self.connection)

    @cached_property
    def ledger(self) -> Ledger:
        from horae.stores.jobs.ledger import Ledger

        return Ledger(self.connection)

    @cached_property
    def lines(self) -> LineRows:
        from horae.stores.jobs.lines import LineRows

        return LineRows(self.connection)

    @cached_property
    def outbox(self) -> Outbox:
        from horae.stores.outbox import Outbox

        return Outbox(self.connection)

    @cached_property
    def cluster(self) -> ClusterRows:
        from horae.stores.cluster.rows import ClusterRows

        return ClusterRows(self.connection)

    @cached_property
    def parcels(self) -> Parcels:
        from horae.stores.cluster.parcels import Parcels

        return Parcels(self.connection)

    @cached_property
    def messages(self) -> Messages:
        from horae.stores.cluster.messages import Messages

        return Messages(self.connection, self.woken, self._receive_job)

    @cached_property
    def sent_jobs(self) -> SentJobs:
        from horae.stores.cluster.sent_jobs import SentJobs

        return SentJobs(self.connection, self.woken)

    def _receive_job(self, message: Message, now: datetime) -> None:
        if self.entrance is None:
            raise StaleMap("stale_map", vshard=message.vshard, version=0)
        self.entrance.vshard = message.vshard  # so that what comes with the job stays with it
        self.sent_jobs.receive(message, self.jobs, now)
        self.entrance.vshard = None

    @cached_property
    def settings(self) -> Settings:
        from horae.stores.cluster.settings import Settings

        return Settings(self.connection)

    @cached_property
    def restoring(self) -> Restoring:
        from horae.stores.cluster.restore import Restoring

        return Restoring(self.connection)

    @cached_property
    def audit(self) -> Audit:
        from horae.stores.audit import Audit

        return Audit(self.connection)

    @cached_property
    def logs(self) -> Logs:
        from horae.stores.logs import Logs

        return Logs(self.connection)

    @cached_property
    def schedules(self) -> Schedules:
        from horae.stores.schedules.schedules import Schedules

        return Schedules(self.connection, self.entrance)

    @cached_property
    def scheduled_tasks(self) -> ScheduledTasks:
        from horae.stores.schedules.scheduled_tasks import ScheduledTasks

        return ScheduledTasks(self.connection)

    @cached_property
    def definitions(self) -> Definitions:
        from horae.stores.jobs.definitions import Definitions

        return Definitions(self.connection)

    @cached_property
    def tokens(self) -> Tokens:
        from horae.stores.access.tokens import Tokens

        return Tokens(self.connection)

    @cached_property
    def sessions(self) -> Sessions:
        from horae.stores.access.sessions import Sessions

        return Sessions(self.connection)

    @cached_property
    def owners(self) -> Owners:
        from horae.stores.access.owners import Owners

        return Owners(self.connection)

    @cached_property
    def secrets(self) -> Secrets:
        from horae.stores.access.secrets import Secrets

        return Secrets(self.connection)

    @cached_property
    def metrics(self) -> Metrics:
        from horae.stores.metrics import Metrics

        return Metrics(self.connection)

    @cached_property
    def statistics(self) -> Statistics:
        from horae.stores.statistics import Statistics

        return Statistics(self.connection)

    @cached_property
    def error_groups(self) -> ErrorGroups:
        from horae.stores.error_groups import ErrorGroups

        return ErrorGroups(self.connection)

    @cached_property
    def health(self) -> Health:
        from horae.stores.health import Health

        return Health(self.connection)

    @cached_property
    def partitions(self) -> Partitions:
        from horae.stores.partitions import Partitions

        return Partitions(self.connection)

    @cached_property
    def retention(self) -> RetentionRules:
        from horae.stores.retention import RetentionRules

        return RetentionRules(self.connection)

    @cached_property
    def attention(self) -> Attention:
        from horae.stores.attention import Attention

        return Attention(self.connection, self.entrance)

    @cached_property
    def objects(self) -> Objects:
        from horae.stores.governance.objects import Objects

        return Objects(self.connection, self.entrance)

    @cached_property
    def evidence(self) -> EvidenceRows:
        from horae.stores.governance.evidence import EvidenceRows

        return EvidenceRows(self.connection)

    @cached_property
    def budgets(self) -> Budgets:
        from horae.stores.governance.budgets import Budgets

        return Budgets(self.connection, self.entrance)

    @cached_property
    def policies(self) -> Policies:
        from horae.stores.governance.policies import Policies

        return Policies(self.connection)

    @cached_property
    def personas(self) -> Personas:
        from horae.stores.governance.policies import Personas

        return Personas(self.connection)

    @cached_property
    def decisions(self) -> Decisions:
        from horae.stores.governance.decisions import Decisions

        return Decisions(self.connection, self.entrance)

    @cached_property
    def reviews(self) -> Reviews:
        from horae.stores.governance.decisions import Reviews

        return Reviews(self.connection, self.entrance)

    @cached_property
    def rollbacks(self) -> Rollbacks:
        from horae.stores.governance.decisions import Rollbacks

        return Rollbacks(self.connection, self.entrance)

    @cached_property
    def reports(self) -> Reports:
        from horae.stores.governance.reports import Reports

        return Reports(self.connection)

    @cached_property
    def cascades(self) -> Cascades:
        from horae.stores.governance.cascades import Cascades

        return Cascades(self.connection)

    @cached_property
    def conversations(self) -> Conversations:
        from horae.stores.governance.conversations import Conversations

        return Conversations(self.connection)

    @cached_property
    def erasures(self) -> Erasures:
        from horae.stores.governance.erasures import Erasures

        return Erasures(self.connection)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        from horae.stores.adapters.checkpoints import Checkpoints

        return Checkpoints(self.connection)

    @cached_property
    def agent_sessions(self) -> SessionItems:
        from horae.stores.adapters.documents import SessionItems

        return SessionItems(self.connection)

    @cached_property
    def documents(self) -> Documents:
        from horae.stores.adapters.documents import Documents

        return Documents(self.connection)
