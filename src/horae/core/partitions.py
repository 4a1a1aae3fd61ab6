"""Daily partitions of the history: which are missing, which are over, and until where rows are deleted one by one.

A partitioned table has three kinds: ``old`` takes everything before the first day, days follow each other without a
gap above it, and the catch-all takes what no day takes, so that an ending is never refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from horae.core.dataclass import dataclass

DAY = timedelta(days=1)
AHEAD = 14  # days made beforehand
ALARM_BELOW = 7
LAG = 2 * DAY  # how long a day that is over waits to be dropped before its rows are deleted one by one


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a table: rows from *low* on, before *high*; None: without a bound."""

    table: str
    name: str
    low: datetime | None
    high: datetime | None

    @property
    def is_catch_all(self) -> bool:
        return self.high is None

    @property
    def is_old(self) -> bool:
        return self.low is None and self.high is not None

    @property
    def is_day(self) -> bool:
        return self.low is not None and self.high is not None


def start_of_day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def end_of_days(partitions: Sequence[Partition]) -> datetime | None:
    """Return where the catch-all begins; None where nothing is partitioned."""
    return max((each.high for each in partitions if each.high is not None), default=None)


def days_ahead(partitions: Sequence[Partition], now: datetime) -> int:
    """Return for how many whole days after today there are partitions."""
    end = end_of_days(partitions)
    return 0 if end is None else max(0, (end - start_of_day(now)) // DAY - 1)


def missing_days(partitions: Sequence[Partition], now: datetime) -> list[datetime]:
    """Return the upper bounds of the partitions to add, so that there are enough ahead.

    After a long pause the first of them takes everything since the last one, up to the end of today.
    """
    end, today = end_of_days(partitions), start_of_day(now)
    if end is None:
        return []
    bound, last = max(end, today) + DAY, today + (AHEAD + 1) * DAY
    return [bound + index * DAY for index in range((last - bound) // DAY + 1)]


def partition_name(high: datetime) -> str:
    """Return the name of a partition, after its last day."""
    return f"p{high - DAY:%Y%m%d}"


def next_bound(partitions: Sequence[Partition], dropped: Partition) -> datetime:
    """Return where the partition after this one begins: up to there ``old`` reaches once it is gone."""
    assert dropped.high is not None
    later = [each.low for each in partitions if each.is_day and each.low is not None and each.low >= dropped.high]
    return min(later, default=dropped.high)


def delete_until(partitions: Sequence[Partition], now: datetime, keep: timedelta) -> datetime:
    """Return before which instant rows that are kept for so long are deleted one by one.

    Rows in days are left alone for a while, because a day that is over is dropped as a whole. Where that fails, they
    go like all others: history must not grow because a role may not drop tables.
    """
    exact = now - keep
    days = [each for each in partitions if each.is_day]
    if not days:
        return exact
    first = min(each.low for each in days if each.low is not None)
    last = max(each.high for each in days if each.high is not None)
    spared = max(first, exact - LAG)
    return spared if spared < min(last, exact) else exact
