"""Firing: due schedules become jobs, in batches, any number of processes side by side.

The schedule row is locked, skipping what others have; job, fire record and next instant commit together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from horae.core.jobs.job import NewJob
from horae.core.schedules.schedule import Firing, Schedule, Unfinished
from horae.core.time.instants import micros
from horae.ports.schedules import Decide, EndSilent, Occurrence
from horae.stores.codecs import to_micros
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.hot import Hot
from horae.stores.schedules.schedules import unfinished_from
from horae.stores.tables.schedules import FIRE_COLUMNS, SCHEDULES, fire_row

CHUNK = 500
AddJobs = Callable[[Driver, Sequence[NewJob], datetime], list[int]]
MOVED = ("next_fire_at", "next_due_at", "fire_count", "last_fire_at", "tzdata")
LIVE_JOBS = (
    "SELECT schedule_id, id, state, attempt, run_at, started_at, progressed_at, held_for FROM horae_jobs "
    "WHERE state IN ('queued', 'running')"
)
YIELDED = "its retry would have met the next occurrence"


class Firings:
    """The flows; ``driver`` is always inside an open transaction. A store overrides what its database can say of many
    rows in one statement that is the same for any number of them.
    """

    def __init__(self, hot: Hot, add_jobs: AddJobs) -> None:
        self._hot = hot
        self._dialect = hot.dialect
        self._add_jobs = add_jobs
        self._due_sql = (
            f"SELECT {SCHEDULES.sql(hot.dialect)} FROM horae_schedules WHERE next_due_at <= %s "
            "ORDER BY next_due_at LIMIT %s" + hot.dialect.locking
        )

    def fire(
        self, driver: Driver, decide: Decide, end_silent: EndSilent, now: datetime, limit: int
    ) -> list[tuple[Firing, list[int]]]:
        """Turn due schedules into jobs; answers with what was decided and the numbers of the new jobs."""
        rows = driver.rows(self._due_sql, [micros(now), limit])
        due = [SCHEDULES.read(row) for row in rows]
        if not due:
            return []
        unfinished = self._unfinished(driver, [s.number for s in due if s.overlap != "allow"])
        decided = self._mark_linked(driver, decide(due, unfinished, partial(self._recorded_among, driver)))
        silent = [number for firing, _ in decided for number in firing.silent]
        if silent:
            running = self._hot.read_running(driver, silent)
            self._hot.settle(driver, [end_silent(job) for job in running], now)
        numbers = iter(self._add_jobs(driver, [job for _, jobs in decided for job in jobs], now))
        made = [(firing, [next(numbers) for _ in jobs]) for firing, jobs in decided]
        self._write(driver, made, now)
        return made

    def _unfinished(self, driver: Driver, numbers: Sequence[int]) -> dict[int, Unfinished]:
        found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for schedule_id, *job in self.live(driver, numbers) if numbers else ():
            found[schedule_id].append(tuple(job))
        unfinished = {number: unfinished_from(jobs) for number, jobs in found.items()}
        yielding = [job for each in unfinished.values() for job in (*each.retrying, *each.locked_out)]
        return self._hold_yielding(driver, unfinished, yielding) if yielding else unfinished

    def live(self, driver: Driver, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the waiting and running jobs of these schedules."""
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            rows += driver.rows(f"{LIVE_JOBS} AND schedule_id IN ({marks(len(chunk))})", chunk)
        return rows

    def _hold_yielding(
        self, driver: Driver, unfinished: dict[int, Unfinished], yielding: Sequence[int]
    ) -> dict[int, Unfinished]:
        """Hold the jobs that may have to yield; one that is being claimed just now does not wait any more."""
        held: set[int] = set()
        for start in range(0, len(yielding), CHUNK):
            chunk = yielding[start : start + CHUNK]
            sql = f"SELECT id FROM horae_jobs WHERE id IN ({marks(len(chunk))}) AND state = 'queued' ORDER BY id"
            held |= {row[0] for row in driver.rows(sql + self._dialect.locking, chunk)}
        return {
            number: replace(
                each,
                running=(*each.running, *(job for job in (*each.retrying, *each.locked_out) if job not in held)),
                retrying={job: run_at for job, run_at in each.retrying.items() if job in held},
                locked_out=tuple(job for job in each.locked_out if job in held),
            )
            for number, each in unfinished.items()
        }

    def _recorded_among(self, driver: Driver, occurrences: Sequence[Occurrence]) -> set[Occurrence]:
        """Return the occurrences that have a record: a schedule moved back in time must not fire twice."""
        pairs = [(number, micros(fire_at)) for number, fire_at in occurrences]
        known = self.find_recorded(driver, pairs) if pairs else set()
        return {each for each, pair in zip(occurrences, pairs, strict=True) if pair in known} if known else set()

    def find_recorded(self, driver: Driver, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return which of these occurrences, each a schedule and an instant, have a record."""
        known: set[tuple[int, int]] = set()
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            sql = "SELECT schedule_id, fire_at FROM horae_fires WHERE kind = 'schedule' AND (schedule_id, fire_at) IN "
            values = ", ".join(["(%s, %s)"] * len(chunk))
            listed = f"(VALUES {values})" if self._dialect.rows_need_values else f"({values})"
            known |= {(row[0], row[1]) for row in driver.rows(sql + listed, [part for pair in chunk for part in pair])}
        return known

    def _mark_linked(
        self, driver: Driver, decided: list[tuple[Firing, list[NewJob]]]
    ) -> list[tuple[Firing, list[NewJob]]]:
        """Mark the jobs whose end concerns a schedule: their own, or one that follows it."""
        numbers = [firing.schedule.number for firing, _ in decided]
        followed = self.find_followed(driver, numbers)
        followed |= {firing.schedule.number for firing, _ in decided if _needs_endings(firing.schedule)}
        return [
            (
                firing,
                [replace(job, has_dependents=True) for job in jobs] if firing.schedule.number in followed else jobs,
            )
            for firing, jobs in decided
        ]

    def find_followed(self, driver: Driver, numbers: Sequence[int]) -> set[int]:
        """Return which of these schedules others follow."""
        sql = f"SELECT DISTINCT followed_id FROM horae_follows WHERE followed_id IN ({marks(len(numbers))})"
        return {row[0] for row in driver.rows(sql, numbers)}

    def _write(self, driver: Driver, made: Sequence[tuple[Firing, list[int]]], now: datetime) -> None:
        records, moves = [], []
        dropped: list[int] = []
        at = micros(now)
        for firing, numbers in made:
            jobs = iter(numbers)
            for fire in firing.fires:
                job_id = next(jobs) if fire.verdict == "ran" else None
                records.append(fire_row(firing.schedule.number, fire, job_id, at))
            last = to_micros(firing.fires[-1].fire_at) if firing.fires else to_micros(firing.schedule.last_fire_at)
            moves.append((to_micros(firing.next_fire_at), to_micros(firing.next_due_at), firing.fire_count, last,
                          firing.schedule.tzdata, firing.schedule.number))  # fmt: skip
            dropped += firing.dropped
        if records:
            self.record(driver, records)
        self.move(driver, moves)
        if dropped:
            self._hot.drop(driver, dropped, YIELDED, now)

    def record(self, driver: Driver, rows: Sequence[Sequence[Any]]) -> None:
        """Write fire records: rows of FIRE_COLUMNS."""
        driver.many(f"INSERT INTO horae_fires ({', '.join(FIRE_COLUMNS)}) VALUES ({marks(len(FIRE_COLUMNS))})", rows)

    def move(self, driver: Driver, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write the next instants: rows of MOVED and the schedule's number."""
        sets = ", ".join(f"{name} = %s" for name in MOVED)
        driver.many(f"UPDATE horae_schedules SET {sets} WHERE id = %s", rows)


def _needs_endings(schedule: Schedule) -> bool:
    """Return whether the end of a job concerns the schedule that made it."""
    return schedule.anchor == "finish" or schedule.expect is not None
