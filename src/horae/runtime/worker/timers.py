"""Local timers for jobs that every node runs by itself (``mode="ALL_NODES"``).

Each job has a coroutine that sleeps until the next fire, runs it, and only then computes the following one, so a job
never overlaps itself on a node. A timer takes no lock and needs no store; fires missed while a node was down are lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from horae.core.schedules.rules import Every
from horae.core.schedules.schedule import Schedule, first_fire, next_fire
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.runtime.loop import Alarm

log = logging.getLogger("horae.scheduler")
LONG = timedelta(hours=1)  # longest sleep: the clock may be set meanwhile
LAST_WORDS = 5.0  # seconds for a cancelled run to end
Fire = Callable[[Schedule, datetime], Awaitable[None]]
TIMING = ("kind", "expression", "zone", "day_match", "gap", "fold", "lenient", "anchor", "initial_delay", "jitter",
          "starts_at", "ends_at", "quiet_hours", "calendar", "calendar_rule", "calendar_days")  # fmt: skip


class Timers:
    """All local timers of a process."""

    def __init__(self, world: World, fire: Fire) -> None:
        self._world = world
        self._fire = fire
        self._timers: dict[str, Timer] = {}

    def set(self, schedules: Iterable[Schedule]) -> None:
        """Set a timer for each schedule; change known ones, and end the others after their current run."""
        wanted = {schedule.key: schedule for schedule in schedules if schedule.mode == "ALL_NODES"}
        for key in [key for key in self._timers if key not in wanted]:
            self._timers.pop(key).stop()
        for key, schedule in wanted.items():
            try:
                self._arm(key, schedule)
            except InvalidInput as problem:  # its zone is unknown on this host; other timers are not affected
                log.error("%s cannot run on this node: %s", key, problem)

    def _arm(self, key: str, schedule: Schedule) -> None:
        if key in self._timers:
            self._timers[key].change(schedule)
        else:
            self._timers[key] = timer = Timer(self._world, schedule, self._fire)
            timer.task = asyncio.create_task(timer.run(), name=f"horae-timer-{key}")

    @property
    def next_fires(self) -> dict[str, datetime | None]:
        return {key: timer.due_at for key, timer in self._timers.items()}

    async def stop(self, grace: timedelta) -> None:
        """Stop all timers; wait for their runs up to the grace, then cancel them."""
        timers, self._timers = list(self._timers.values()), {}
        for timer in timers:
            timer.stop()
        tasks = [timer.task for timer in timers if timer.task is not None]
        if not tasks:
            return
        try:
            await asyncio.wait(tasks, timeout=grace.total_seconds())
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks, timeout=LAST_WORDS)  # recording their end may hang in the store


class Timer:
    """One job's timer on this node."""

    def __init__(self, world: World, schedule: Schedule, fire: Fire) -> None:
        self._world = world
        self._fire = fire
        self._alarm = Alarm(world.clock)
        self._stopping = False
        self._armed_at = world.clock.now()
        self._schedule = self._anchor(schedule)
        self.task: asyncio.Task[None] | None = None
        self.due_at: datetime | None = self._with_jitter(self._first())

    def change(self, schedule: Schedule) -> None:
        """Follow a changed schedule; keep the next fire if the timing is the same."""
        before, self._schedule = self._schedule, self._anchor(schedule)
        other = any(getattr(before, field) != getattr(self._schedule, field) for field in TIMING)
        if other or (self._schedule.is_active and not before.is_active):
            self.due_at = self._with_jitter(next_fire(self._schedule, self._world.clock.now()))
        self._alarm.ring()

    def stop(self) -> None:
        self._stopping = True
        self._alarm.ring()

    async def run(self) -> None:
        while not self._stopping:
            due, now = self.due_at, self._world.clock.now()
            if due is None or due > now or not self._schedule.is_active:
                await self._alarm.sleep(due if self._schedule.is_active else None, LONG)
                continue
            await self._step(due)

    async def _step(self, due: datetime) -> None:
        try:
            await self._fire(self._schedule, due)
        except Exception:
            log.exception("the local run of %s failed; its timer goes on", self._schedule.key)
        self.due_at = self._with_jitter(next_fire(self._schedule, self._world.clock.now()))

    def _anchor(self, schedule: Schedule) -> Schedule:
        """Let an interval count from the start of this node, as document 003 requires."""
        return replace(schedule, starts_at=schedule.starts_at or self._armed_at)

    def _first(self) -> datetime | None:
        finds = first_fire if isinstance(self._schedule.rule, Every) else next_fire
        return finds(self._schedule, self._armed_at)

    def _with_jitter(self, moment: datetime | None) -> datetime | None:
        jitter = self._schedule.jitter
        return moment + jitter * self._world.dice.roll() if moment is not None and jitter else moment
