"""Run the jobs that local timers fire (ALL_NODES); they come from no queue."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.actions.jobs import outside_runs
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Outcome
from horae.core.schedules.schedule import Schedule
from horae.errors import HoraeError, StoreError
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.worker.attempt_runner import Executes
from horae.runtime.worker.context import AttemptPort, Context
from horae.runtime.worker.executor import Resolve
from horae.runtime.worker.lines import with_lines
from horae.runtime.worker.renewer import Renewer

if TYPE_CHECKING:
    from horae.runtime.schedules.declared import Declared

log = logging.getLogger("horae.worker")


@dataclass(frozen=True, slots=True)
class LocalRuns:
    """The parts of a worker that a local run needs."""

    world: World
    database: DatabaseThreads
    resolve: Resolve
    executor: Executes
    renewer: Renewer
    port: AttemptPort
    declared: Declared
    node_id: str
    lease: timedelta

    async def fire(self, schedule: Schedule, fire_at: datetime) -> None:
        """Run a schedule on this node; record the run if the store answers."""
        handler = self.resolve(schedule.handler)
        if handler is None:
            log.error("%s cannot run here: this process does not declare it", schedule.handler)
            return
        job, is_recorded = await self._begin(schedule, fire_at)
        ctx = Context(job, self.port, self.declared.services)
        try:
            outcome = await self.declared.occurrences.run_local(ctx, lambda: self.executor.run(handler, ctx))
        except asyncio.CancelledError:  # from outside: the executor contains what the handler raises
            outcome = Outcome("cancelled", error="its worker shut down")
            await self._end(job, with_lines(ctx, outcome, handler), is_recorded)
            raise
        await self._end(job, with_lines(ctx, outcome, handler), is_recorded)

    async def _begin(self, schedule: Schedule, fire_at: datetime) -> tuple[Job, bool]:
        stored = schedule if schedule.number else None
        try:
            job = await self.database.call(
                lambda: outside_runs.begin(
                    self.world, schedule.handler, worker_id=self.node_id, schedule=stored, fire_at=fire_at,
                    payload=schedule.payload, lease=self.lease,
                )
            )  # fmt: skip
        except StoreError as problem:
            log.warning("this run of %s is not recorded: %s", schedule.key, problem)
            return _make_unrecorded_job(schedule, fire_at, self.world.clock.now(), self.node_id), False
        self.renewer.hold([job])
        return job, True

    async def _end(self, job: Job, outcome: Outcome, is_recorded: bool) -> None:
        if not is_recorded:
            return
        self.renewer.drop(job)
        try:
            await self.database.call(lambda: outside_runs.end(self.world, job, outcome))
        except HoraeError as problem:
            log.warning("the end of %s (%s) is not recorded: %s", job.id, job.handler, problem)


def _make_unrecorded_job(schedule: Schedule, fire_at: datetime, now: datetime, node: str) -> Job:
    return Job(
        number=0, handler=schedule.handler, payload=schedule.payload, state="running",
        queue=outside_runs.TRACKED_QUEUE, priority="medium", run_at=fire_at, planned_at=fire_at, created_at=now,
        max_attempts=1, worker_id=node, started_at=now, schedule_id=schedule.number, fire_at=fire_at,
    )  # fmt: skip
