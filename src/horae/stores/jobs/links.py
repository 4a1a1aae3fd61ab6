"""What the end of one job means to others: a job that waits for it, here or in another shard, its batch, a schedule
that counts from its finish, a schedule that follows its own. All of it happens in the transaction that ends the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from horae.core.cluster.messages import HINT
from horae.core.dataclass import dataclass
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import micros
from horae.stores.codecs import to_micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.asks import numbered_in_cluster, send
from horae.stores.jobs.batch import BatchEnds
from horae.stores.jobs.needs import Needs

if TYPE_CHECKING:
    from horae.core.schedules.schedule import Schedule

MEET = "UPDATE horae_schedules SET expected_since = %s, succeeded_at = %s WHERE id = %s"
CHECK = "UPDATE horae_jobs SET run_at = %s WHERE id = %s AND state = 'queued' AND run_at > %s"
MOVE = "UPDATE horae_schedules SET next_fire_at = %s, next_due_at = %s WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has come to its end, for good."""

    number: int
    schedule_id: int | None
    succeeded: bool
    asked: bool = False  # jobs in other shards may wait for it


class Links:
    """The flows; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.needs = Needs(dialect)
        self.batches = BatchEnds(dialect)

    def settle(self, driver: Driver, ended: Sequence[Ended], now: datetime) -> set[str]:
        """Settle what depends on ended jobs; return the queues that may have work now."""
        if not ended:
            return set()
        succeeded = [job.number for job in ended if job.succeeded]
        failed = [job.number for job in ended if not job.succeeded]
        never, queues = self.batches.settle(driver, succeeded, failed, now)
        queues |= self.needs.let_go(driver, succeeded)
        queues |= self.needs.fail(driver, [*failed, *never], now)
        asked = [job.number for job in ended if job.asked]
        queues |= self.needs.asks.tell(driver, asked + numbered_in_cluster(never), now)
        ran = {job.schedule_id for job in ended if job.schedule_id is not None}
        good = {job.schedule_id for job in ended if job.schedule_id is not None and job.succeeded}
        own = list(self._schedules(driver, sorted(ran)))
        if self._meet_expectations(driver, [each for each in own if each.number in good], now):
            queues.add(MACHINERY)
        if self._count_from_finish(driver, own, now):
            queues.add("*")
        return queues | self._follow(driver, sorted(good), now)

    def revive(self, driver: Driver, number: int, now: datetime, *, asked: bool) -> set[str]:
        """Let its batch wait for a revived job again, and bring back the jobs that were cancelled for it.

        *asked*: jobs in other shards may be among them. Return hints for those.
        """
        self.batches.reopen(driver, [number])
        queues = self.needs.revive(driver, [number], now)
        return queues | self.needs.asks.tell(driver, [number] if asked else [], now)

    def _meet_expectations(self, driver: Driver, schedules: Iterable[Schedule], now: datetime) -> bool:
        """Note successes that were expected; a late one brings the next check forward, which closes the record."""
        is_late = False
        for schedule in schedules:
            after = schedule.after_success(now)
            if after is None:
                continue
            driver.change(MEET, [to_micros(after.expected_since), to_micros(after.succeeded_at), schedule.number])
            if after.succeeded_at is not None and after.check_job is not None:
                driver.change(CHECK, [micros(now), after.check_job, micros(now)])
                is_late = True
        return is_late

    def _count_from_finish(self, driver: Driver, schedules: Iterable[Schedule], now: datetime) -> bool:
        """Start the interval of schedules that count from the end of their job, in whatever way it ended."""
        moved = False
        for schedule in schedules:
            fire_at = to_micros(schedule.after_finish(now))
            if fire_at is not None:
                driver.change(MOVE, [fire_at, fire_at, schedule.number])
                moved = True
        return moved

    def _follow(self, driver: Driver, numbers: Sequence[int], now: datetime) -> set[str]:
        """Let a schedule fire once all those that it follows have succeeded since it last fired."""
        if not numbers:
            return set()
        condition = f"followed_id IN ({marks(len(numbers))})"
        rows = driver.rows(f"SELECT DISTINCT schedule_id FROM horae_follows WHERE {condition}", numbers)
        near = sorted(row[0] for row in rows if row[0] > 0)
        hints = self._tell_followers(driver, condition, numbers, now) if len(near) < len(rows) else set()
        return hints | self.note_success(driver, near, condition, numbers, now)

    def _tell_followers(self, driver: Driver, condition: str, numbers: Sequence[int], now: datetime) -> set[str]:
        """Tell schedules in other shards that one which they follow has succeeded."""
        driver.change(f"UPDATE horae_followers SET version = version + 1 WHERE {condition} AND is_on = 1", numbers)
        sql = f"SELECT followed_id, schedule_id, alias, vshard, version FROM horae_followers WHERE {condition} "
        for followed, follower, alias, vshard, version in driver.rows(sql + "AND is_on = 1", numbers):
            send(driver, "success", followed, follower, version, str(alias), now, vshard=vshard)
        return {HINT}

    def note_success(
        self, driver: Driver, near: Sequence[int], condition: str, numbers: Sequence[int], now: datetime
    ) -> set[str]:
        """Note successes for the schedules *near*, which follow some of *numbers*; let fire those that wait for no
        other; return hints.
        """
        followers = {schedule.number: schedule for schedule in self._schedules(driver, near)}
        if not followers:
            return set()
        driver.change(f"UPDATE horae_follows SET succeeded_at = %s WHERE {condition}", [micros(now), *numbers])
        ready = driver.rows(
            f"SELECT schedule_id FROM horae_follows WHERE schedule_id IN ({marks(len(followers))}) "
            "GROUP BY schedule_id HAVING COUNT(*) = COUNT(succeeded_at)",
            sorted(followers),
        )
        for (number,) in ready:
            driver.change("UPDATE horae_follows SET succeeded_at = NULL WHERE schedule_id = %s", [number])
            fire_at = to_micros(followers[number].after_leaders(now))
            if fire_at is not None:
                driver.change(MOVE, [fire_at, fire_at, number])
        return {"*"} if ready else set()

    def _schedules(self, driver: Driver, numbers: Sequence[int]) -> Iterable[Schedule]:
        if not numbers:
            return []
        from horae.stores.tables.schedules import SCHEDULES

        sql = f"SELECT {SCHEDULES.sql(self._dialect)} FROM horae_schedules WHERE id IN ({marks(len(numbers))}) "
        rows = driver.rows(sql + "ORDER BY id" + self._dialect.waiting_lock, numbers)
        return [SCHEDULES.read(row) for row in rows]
