"""The built-in handler ``dispatch``: ask the operator's orchestrator to do what a payload says (document 001).

Its address is a setting of the operator's and may be private: the operator's log names it, the error of a run, which a
tenant reads, does not. An answer that is empty, malformed, too large, late or
not a success is a failed run, never a success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM, Job
from horae.core.jobs.payloads import encode
from horae.core.jobs.retry import Retry
from horae.core.outgoing.dispatch import PATH, Routing, answer_of, drop_routing, question, truncate_answer
from horae.core.outgoing.targets import OPERATOR, Target, target_of
from horae.errors import AddressRefused, CallFailed, ConfigurationError, DispatchFailed, InvalidInput
from horae.outgoing.calls import Answer, Calls, Limits
from horae.outgoing.trace_context import trace_headers
from horae.runtime.worker.context import Context

RETRY = Retry.fixed(60, attempts=3)  # S1-28: not at once, so that a dead orchestrator is not hammered
DEFAULT = Routing()
LIMITS = Limits(total=60.0, body=1024 * 1024)

TaskOf = Callable[[Job], str | None]


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """The operator's settings of the orchestrator: its address and its routing."""

    target: Target | None = None
    routing: Routing = DEFAULT

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Orchestrator:
        """Read ``ORCHESTRATOR_URL`` and the routing names of document 001; the first of each that is set wins."""
        url = _first(environment, "ORCHESTRATOR_URL", "FUN_AGENT_SERVICE_URL")
        try:
            target = target_of(url) if url else None
        except InvalidInput as problem:
            raise ConfigurationError("orchestrator_url_refused", problem=str(problem)) from None
        routing = Routing(
            _first(environment, "SCHEDULER_DEFAULT_AGENT", "OPENCLAW_DEFAULT_AGENT") or DEFAULT.default_agent,
            _first(environment, "SCHEDULER_ROUTER_MODE", "ROUTER_MODE") or DEFAULT.mode,
        )
        return cls(target, routing)


def _first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((value for name in names if (value := environment.get(name, "").strip())), None)


class Dispatcher:
    """Asks the orchestrator for one application."""

    def __init__(self, calls: Calls, orchestrator: Orchestrator, task_of: TaskOf, limits: Limits = LIMITS) -> None:
        self._calls, self._orchestrator, self._task_of, self._limits = calls, orchestrator, task_of, limits

    async def execute(self, ctx: Context, **payload: Any) -> dict[str, Any]:
        """Post what the payload says and return the answer, as much of it as is kept."""
        if self._orchestrator.target is None:
            raise DispatchFailed("orchestrator_missing")
        plain, dropped = drop_routing(payload)
        warnings = [each.text for each in dropped]
        for warning in warnings:
            ctx.logger.warning(warning)
        user = None if ctx.owner == SYSTEM else ctx.owner
        task = await asyncio.to_thread(self._task_of, ctx.claimed)  # it may have to ask the store
        known = {"user_id": user, "scheduled_task_id": task}
        request = question(plain, self._orchestrator.routing, known)
        answer = await self._ask(ctx, self._orchestrator.target.with_path(PATH), encode(request, "question").encode())
        return truncate_answer(answer) | ({"warnings": warnings} if warnings else {})

    async def _ask(self, ctx: Context, target: Target, body: bytes) -> dict[str, Any]:
        headers = {"accept": "application/json", "idempotency-key": ctx.job_id, **trace_headers(ctx.claimed)}
        try:
            answer = await self._calls.post(target, body, headers, OPERATOR, self._limits)
        except (CallFailed, AddressRefused) as problem:
            ctx.logger.warning("The orchestrator did not answer: %s", problem)
            raise CallFailed("orchestrator_unreachable") from None
        try:
            return self._result_of(answer)
        except DispatchFailed as problem:
            ctx.logger.warning("The orchestrator is at %s. %s", target, problem)
            raise

    def _result_of(self, answer: Answer) -> dict[str, Any]:
        """Return the answer, or refuse it; tenants read the error, so it does not say where the orchestrator is."""
        if not 200 <= answer.status < 300:
            raise DispatchFailed("orchestrator_status", status=answer.status)
        if answer.cut:
            raise DispatchFailed("orchestrator_answer_too_large", most=self._limits.body)
        if answer.is_encoded:
            raise DispatchFailed("orchestrator_answer_compressed")
        return answer_of(answer.body)
