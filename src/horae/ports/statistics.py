"""Figures: metrics, statistics of endings, groups of errors, and which parts have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from horae.core.error_groups import ErrorGroup, Failure
    from horae.core.metrics import Backlog
    from horae.core.pulse import Part
    from horae.core.statistics import Deaths, Endings, Grain, Marginals, RollUp, Statistic
    from horae.ports.queues import Depth


class PulseRows(Protocol):
    def look(self) -> Mapping[Part, tuple[object, ...]]:
        """Return, by part, values that differ when something in it may have changed."""


class MetricRows(Protocol):
    """Figures about all jobs, for those who watch over them."""

    def depths(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return how many live jobs there are by (queue, state)."""

    def count_many(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Count all live jobs by (queue, state) if there are more than each reader counts; else return nothing."""

    def keep_sample(self, counted: Mapping[tuple[str, str], Depth], now: datetime) -> None:
        """Keep these counts for those who read them, in the place of the last ones."""

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
        self, parts: Sequence[tuple[tuple[str, int, int], str, str | None]]
    ) -> list[dict[str, tuple[int, Statistic]]]:
        """Add up how attempts ended in windows of a grain, by name, each with the beginning of its first span.

        A part is a window, a scope, and the one name that is wanted or None for all.
        """

    def recent(self, start: int, end: int) -> Marginals:
        """Add up what the minutes of a window say of queues (outcomes, delays) and handlers (outcomes, durations)."""

    def starts(self, grain: Grain, start: int, end: int) -> list[int]:
        """Return the spans for which something is stored."""

    def replace(self, grain: str, at: int, marginals: Marginals) -> None: ...
    def remove(self, grain: Grain, start: int, end: int) -> None: ...
    def due_depths(
        self, now: int, most: int, most_queues: int, *, in_all: bool = False, skip: Collection[str] = ()
    ) -> dict[str, int]:
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
