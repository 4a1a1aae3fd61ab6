"""Progress, checkpoints, ``once``, steps and spending of a context, in the worker's own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Lease
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import KeptResult
from horae.ports.workers import JobSource
from horae.ports.world import Clock
from horae.runtime.worker.context import Context
from horae.runtime.worker.lines import record
from horae.runtime.worker.threads import Threads

T = TypeVar("T")
TimeLeft = Callable[[Lease], timedelta | None]  # of an attempt's time limit; None without a limit


class AttemptPort:
    """The part of the job source that one attempt may use."""

    def __init__(
        self, source: JobSource, threads: Threads, time_left: TimeLeft, held_for: timedelta, clock: Clock
    ) -> None:
        self._source = source
        self._threads = threads
        self._time_left = time_left
        self._held_for = held_for  # the lease of its jobs
        self._clock = clock

    def progress(self, lease: Lease, value: Any) -> None:
        self._source.progress(lease, value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        self._source.checkpoint(lease, value)

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        left = self._time_left(lease)
        return self._source.once(lease, step, work, limit=left, held_for=self._held_for)

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        return self._source.recall(lease, step)

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        return self._source.keep(lease, step, value)

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        return self._source.parents(lease)

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        return self._source.spend(lease, cost, key)

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        self._source.spent(lease, cost, key)

    def keep_line(self, ctx: Context, level: str, text: str) -> None:
        record(ctx, self._clock.now(), level, text)

    async def call(self, work: Callable[[], T]) -> T:
        """Run a call in the handlers' threads: it may take long and must not delay the worker's own calls."""
        answer: T = await self._threads.submit(work)
        return answer
