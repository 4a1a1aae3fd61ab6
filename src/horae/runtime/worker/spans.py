"""Run handlers inside spans where tracing is on; without it the executor is used as it is."""

from __future__ import annotations

from horae.core.jobs.job import Outcome
from horae.ports.world import Tracing
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Executor, Handler


class Traced:
    """Run a handler with an executor, inside a span."""

    def __init__(self, executor: Executor, tracing: Tracing) -> None:
        self._executor, self._tracing = executor, tracing

    @property
    def stuck(self) -> int:
        return self._executor.stuck

    async def run(self, handler: Handler, ctx: Context) -> Outcome:
        with self._tracing.running(ctx.claimed) as span:
            outcome = await self._executor.run(handler, ctx)
            span.ended(outcome, ctx.problem)
            return outcome


def with_tracing(executor: Executor, tracing: Tracing | None) -> Executor | Traced:
    return executor if tracing is None else Traced(executor, tracing)
