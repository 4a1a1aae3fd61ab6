"""Handlers inside spans, where somebody traces; where nobody does, nothing stands between worker and handler."""

from __future__ import annotations

from horae.core.jobs.job import Outcome
from horae.ports import Tracing
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Executor, Handler


class Traced:
    """Runs a handler as an executor does, and tells the tracer about it."""

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


def traced(executor: Executor, tracing: Tracing | None) -> Executor | Traced:
    return executor if tracing is None else Traced(executor, tracing)
