"""Chores: whose turn it is, and the rows that they check, partition and forget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.partitions import Partition
    from horae.core.retention import RetentionRule, RunRetention
    from horae.ports.queues import DueBacklog


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


class HealthRows(Protocol):
    """Queries for the checks of an installation; they change nothing."""

    def due(self, now: datetime) -> list[DueBacklog]: ...
    def expired_leases(self, before: datetime, *, limit: int) -> list[int]: ...
    def chores(self) -> list[ChoreState]: ...
    def count_dead(self) -> int: ...
    def count_jobs(self, state: str, *, owner: str | None, queues: Collection[str], most: int) -> int: ...
    def due_of_owner(self, owner: str, at: datetime, *, most: int) -> dict[str, int]: ...
    def count_confirmations(self, *, owner: str | None, most: int) -> int: ...
    def undriven_lanes(self, before: datetime, steady: datetime, *, limit: int) -> list[tuple[str, str]]: ...
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
    def by_table(self) -> dict[str, list[Partition]]:
        """Return the partitions of each partitioned table."""

    def count_catch_all(self, *tables: Sequence[Partition], most: int) -> list[int]:
        """Count rows that no day takes, at most so many for each; a table is given by all of its partitions."""

    def count_aside(self, table: str, *, most: int) -> int:
        """Count rows of a table that lie aside until a chore brings them back, at most so many."""

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
        """Keep other transactions from changing a rule until this one ends."""

    def put(self, rule: RetentionRule) -> None: ...
    def remove(self, queue: str, outcome: str) -> None: ...
    def walk(
        self, keep: timedelta, until: datetime, retention: RunRetention, *, limit: int, several: bool
    ) -> tuple[int, bool]:
        """Delete runs that are kept for *keep* and ended before *until*; how many, and whether there may be more."""


PartitionChange = Literal["add", "split", "drop"]


@dataclass(frozen=True, slots=True)
class Spared:
    """Fires that are not deleted one by one: of days between two instants, recorded since a third."""

    since: datetime
    until: datetime
    recorded_since: datetime
