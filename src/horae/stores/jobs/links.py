"""What the end of one job means to others: a job that waits for it, a schedule that counts from its finish,
a schedule that follows its own. All of it happens in the transaction that ends the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from horae.core.schedules.schedule import Schedule, after_leaders, next_fire
from horae.core.time.instants import micros
from horae.stores.codecs import to_micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.needs import Needs
from horae.stores.tables import SCHEDULES


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has come to its end, for good."""

    number: int
    schedule_id: int | None
    succeeded: bool


class Links:
    """The flows; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.needs = Needs(dialect)

    def settle(self, driver: Driver, ended: Sequence[Ended], now: datetime) -> set[str]:
        """Settle what depends on ended jobs; return the queues that may have work now."""
        if not ended:
            return set()
        queues = self.needs.let_go(driver, [job.number for job in ended if job.succeeded])
        queues |= self.needs.fail(driver, [job.number for job in ended if not job.succeeded], now)
        ran = {job.schedule_id for job in ended if job.schedule_id is not None}
        good = {job.schedule_id for job in ended if job.schedule_id is not None and job.succeeded}
        if self._count_from_finish(driver, sorted(ran), now) | self._follow(driver, sorted(good), now):
            queues.add("*")
        return queues

    def _count_from_finish(self, driver: Driver, numbers: Sequence[int], now: datetime) -> bool:
        """Start the interval of schedules that count from the end of their job, in whatever way it ended."""
        moved = False
        for schedule in self._schedules(driver, numbers):
            waits = schedule.rests and schedule.next_fire_at is None and schedule.mode == "SINGLE_NODE"
            if waits and schedule.is_active and not schedule.is_spent:
                fire_at = to_micros(next_fire(schedule, now))
                sql = "UPDATE horae_schedules SET next_fire_at = %s, next_due_at = %s WHERE id = %s"
                driver.change(sql, [fire_at, fire_at, schedule.number])
                moved = True
        return moved

    def _follow(self, driver: Driver, numbers: Sequence[int], now: datetime) -> bool:
        """Let a schedule fire once all those that it follows have succeeded since it last fired."""
        if not numbers:
            return False
        condition = f"followed_id IN ({marks(len(numbers))})"
        rows = driver.rows(f"SELECT DISTINCT schedule_id FROM horae_follows WHERE {condition}", numbers)
        followers = {schedule.number: schedule for schedule in self._schedules(driver, sorted(row[0] for row in rows))}
        if not followers:
            return False
        driver.change(f"UPDATE horae_follows SET succeeded_at = %s WHERE {condition}", [micros(now), *numbers])
        ready = driver.rows(
            f"SELECT schedule_id FROM horae_follows WHERE schedule_id IN ({marks(len(followers))}) "
            "GROUP BY schedule_id HAVING COUNT(*) = COUNT(succeeded_at)",
            sorted(followers),
        )
        for (number,) in ready:
            driver.change("UPDATE horae_follows SET succeeded_at = NULL WHERE schedule_id = %s", [number])
            fire_at = to_micros(after_leaders(followers[number], now))
            if fire_at is not None:
                sql = "UPDATE horae_schedules SET next_fire_at = %s, next_due_at = %s WHERE id = %s"
                driver.change(sql, [fire_at, fire_at, number])
        return bool(ready)

    def _schedules(self, driver: Driver, numbers: Sequence[int]) -> Iterable[Schedule]:
        if not numbers:
            return []
        sql = f"SELECT {SCHEDULES.sql(self._dialect)} FROM horae_schedules WHERE id IN ({marks(len(numbers))}) "
        rows = driver.rows(sql + "ORDER BY id" + self._dialect.waiting_lock, numbers)
        return [SCHEDULES.read(row) for row in rows]
