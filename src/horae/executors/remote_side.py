"""The other side of a remote call: import the handler, run it, and say how it ended. Runs on the cluster.

A document names a module, a function and JSON arguments, never code: both sides must have the application installed.
The context of a remote handler knows its job and reports lines and progress; what needs the database is refused.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from horae.core.governance.budgets import Spending
from horae.core.jobs.job import Lease
from horae.core.jobs.lines import LONGEST
from horae.core.jobs.outcomes import Cancel, Snooze
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.payloads import encode
from horae.core.jobs.steps import KeptResult
from horae.errors import ConfigurationError, InvalidPayload
from horae.runtime.worker.calls import await_fully, begin, refuse_generator
from horae.runtime.worker.child import find_handler
from horae.runtime.worker.context import Context
from horae.runtime.worker.messages import job_from_json
from horae.runtime.worker.retry_types import is_ruled_out
from horae.runtime.worker.tracebacks import error_line, error_text

T = TypeVar("T")
Report = Callable[[str, Any], None]  # ("line", [level, text]) or ("progress", value)


def run_call(document: str, report: Report) -> str:
    """Run the handler that a document names; return how it ended, as the text that the worker reads.

    *report* is called with each line and each progress while it runs, from any thread.
    """
    order = json.loads(document)
    try:
        ctx = Context(job_from_json(order["job"]), RemotePort(report, order["max_bytes"]))
    except BaseException as problem:  # another version of Horae wrote it
        return json.dumps({"how": "raised", "error": error_text(problem), "final": False})
    try:
        function, app = find_handler(importlib.import_module(order["module"]), order)
        ctx.services = getattr(app, "services", None)
        result = _call(function, ctx, order)
    except Snooze as snooze:
        return json.dumps({"how": "snoozed", "seconds": snooze.delay.total_seconds(), "error": str(snooze.reason)})
    except Cancel as cancel:
        return json.dumps({"how": "cancelled", "error": str(cancel.reason)})
    except BaseException as problem:
        final = is_ruled_out(ctx.claimed.retry, problem)
        return json.dumps({"how": "raised", "error": error_text(problem), "final": final})
    try:
        return json.dumps({"how": "returned", "result": encode(result, "result", order["max_bytes"])})
    except BaseException as problem:
        why = str(problem) if isinstance(problem, InvalidPayload) else error_line(problem)
        return json.dumps({"how": "returned", "result": "null", "error": why})


def _call(function: Callable[..., Any], ctx: Context, order: dict[str, Any]) -> Any:
    payload = ctx.claimed.payload
    arguments = payload if isinstance(payload, dict) else {"payload": payload}
    given = (ctx,) if order["takes_context"] else ()
    has_ended, begun = begin(ctx.name, function, given, arguments, ctx.scope.close)
    if has_ended:
        return begun

    async def body() -> Any:
        try:
            return refuse_generator(ctx.name, await await_fully(begun or function(*given, **arguments)))
        finally:
            await ctx.scope.aclose()

    return asyncio.run(body())


class RemotePort:
    """What the context of a remote handler may ask for."""

    def __init__(self, report: Report, max_bytes: int) -> None:
        self._report = report
        self._max_bytes = max_bytes

    def progress(self, lease: Lease, value: Any) -> None:
        self._report("progress", json.loads(encode(value, "progress", self._max_bytes)))

    def keep_line(self, ctx: Context, level: str, text: str) -> None:
        self._report("line", [level, text[:LONGEST]])

    def checkpoint(self, lease: Lease, value: Any) -> None:
        raise ConfigurationError("remote_without_store", verb="checkpoint")

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        raise ConfigurationError("remote_without_store", verb="once")

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        raise ConfigurationError("remote_without_store", verb="step")

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        raise ConfigurationError("remote_without_store", verb="step")

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        raise ConfigurationError("remote_without_store", verb="parents")

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        raise ConfigurationError("remote_without_store", verb="spend")

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        raise ConfigurationError("remote_without_store", verb="spent")

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        return asyncio.to_thread(work)
