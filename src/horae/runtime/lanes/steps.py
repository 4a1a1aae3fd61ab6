"""The steps of one turn or one action of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from horae.actions.attention import steps
from horae.actions.attention.lanes import Drive
from horae.core.dataclass import dataclass
from horae.core.jobs.steps import KeptResult
from horae.errors import ConfigurationError
from horae.ports.world import World
from horae.runtime.steps import KeepsSteps
from horae.runtime.worker.threads import Threads

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneSteps:
    """Keeps results for the tries of one turn (``turn:3``) or one action (``step:2``) of a task."""

    world: World
    drive: Drive
    task: int
    scope: str
    threads: Threads

    def recall(self, name: str) -> KeptResult | None:
        return steps.recall_step(self.world, self.drive, self.task, self.scope, name)

    def keep(self, name: str, value: Any) -> Any:
        return steps.keep_step(self.world, self.drive, self.task, self.scope, name, value)

    async def call(self, work: Callable[[], T]) -> T:
        try:
            answer: T = await self.threads.submit(work)
        except asyncio.CancelledError:  # its thread may never finish
            self.threads.give_up_one()
            raise
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WithSteps(KeepsSteps):
    """A turn or an action with steps of its own."""

    steps: LaneSteps | None = field(default=None, repr=False, compare=False)

    def step_log(self) -> LaneSteps:
        """For the runtime: where the results of steps are kept."""
        if self.steps is None:
            raise ConfigurationError("steps_need_driver")
        return self.steps
