"""Judges the fires of schedules: what their rules say was due, what the store recorded, what became of the jobs.

The rules: every due fire has exactly one record (run, skipped or merged), in order and without a gap; a fire
that ran has exactly one job, and the job at least one run; nothing is recorded or started early (I7, I8, I9).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import text

from horae.core.schedules.schedule import Schedule, first_fire, next_fire
from horae.core.time.instants import instant, micros
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World


@dataclass(frozen=True)
class FireRecord:
    """One record; times in microseconds."""

    fire_at: int
    last_at: int | None
    count: int
    verdict: str
    reason: str | None
    job_id: int | None
    recorded_at: int


@dataclass(frozen=True)
class Fires:
    """A schedule, its records in order, and for each of its jobs when its attempts started."""

    schedule: Schedule
    records: Sequence[FireRecord]
    starts: Mapping[int, Sequence[int]]

    def due(self, until: datetime) -> list[int]:
        """Return the fires of the rule, in order."""
        assert self.schedule.created_at is not None
        birth = replace(self.schedule, last_fire_at=None)
        fire = first_fire(birth, self.schedule.created_at)
        found = []
        while fire is not None and fire <= until:
            found.append(micros(fire))
            fire = next_fire(birth, fire)
        return found


def complaints(fires: Fires, until: datetime) -> list[str]:
    """Everything that is wrong with a schedule's life up to an instant that everybody has passed."""
    return _gaps(fires, until) + _jobs(fires) + _early(fires)


def _gaps(fires: Fires, until: datetime) -> list[str]:
    key, due, index = fires.schedule.key, fires.due(until), 0
    for record in fires.records:
        answer = due[index : index + record.count]
        ends = record.last_at if record.count > 1 else record.fire_at
        if not answer or answer[0] != record.fire_at or answer[-1] != ends or len(answer) != record.count:
            expected = instant(due[index]) if index < len(due) else None
            return [f"gap or double: {key} has a record for {instant(record.fire_at)}, where {expected} was due"]
        index += record.count
    left = len(due) - index
    return [f"untold: {key} has no record of {left} fires from {instant(due[index])} on"] if left else []


def _jobs(fires: Fires) -> list[str]:
    key, answer = fires.schedule.key, []
    shared = [job for job, count in Counter(r.job_id for r in fires.records if r.job_id).items() if count > 1]
    answer += [f"shared: {key} has several fires for job {job}" for job in shared]
    for record in fires.records:
        if (record.verdict == "ran") != (record.job_id is not None):
            answer.append(f"job: {key} at {instant(record.fire_at)} is {record.verdict} with job {record.job_id}")
        elif record.job_id is not None and not fires.starts.get(record.job_id):
            answer.append(f"never run: {key} at {instant(record.fire_at)} became job {record.job_id}")
    orphans = set(fires.starts) - {record.job_id for record in fires.records}
    return answer + [f"orphan: job {job} of {key} has no fire" for job in sorted(orphans)]


def _early(fires: Fires) -> list[str]:
    key = fires.schedule.key
    return [
        f"early: {key} at {instant(record.fire_at)}"
        for record in fires.records
        for moment in (record.recorded_at, *fires.starts.get(record.job_id or 0, ()))
        if moment < record.fire_at
    ]


# -- gathering ---------------------------------------------------------------------------------------------------


def read_fires(world: World) -> list[Fires]:
    """Return all schedules of a store with what became of their fires, in three statements."""
    records = text(
        "SELECT schedule_id, fire_at, last_at, fire_count, verdict, reason, job_id, recorded_at FROM horae_fires "
        "WHERE kind = 'schedule' ORDER BY fire_at"
    )
    starts = text(
        "SELECT schedule_id, job_id, started_at FROM horae_runs WHERE schedule_id IS NOT NULL AND job_id NOT IN "
        "(SELECT job_id FROM horae_fires WHERE kind <> 'schedule' AND job_id IS NOT NULL)"
    )

    def read(tx: Any) -> list[Fires]:
        answer: dict[int, list[FireRecord]] = {}
        began: dict[int, dict[int, list[int]]] = {}
        for schedule_id, *record in tx.connection.execute(records):
            answer.setdefault(schedule_id, []).append(FireRecord(*record))
        for schedule_id, job_id, started_at in tx.connection.execute(starts):
            runs = began.setdefault(schedule_id, {}).setdefault(job_id, [])
            runs += [] if started_at is None else [started_at]
        found = tx.schedules.find(ScheduleFilter(), limit=100_000, after=None)
        return [Fires(each, answer.get(each.number, []), began.get(each.number, {})) for each in found]

    return world.store.read(read)
