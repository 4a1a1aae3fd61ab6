"""Turn the answer of an agent's action into an ``ActionResult``.

An action that ran is reported as having run even if its answer is invalid: reported as a failure, the agent would run
it again. Only a transactional action is rolled back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from horae.actions.attention.turns import ActionResult, Perform
from horae.actions.jobs.jobs import truncate
from horae.core.attention.directives import Facts, Pending, check_answer, wait_keys
from horae.core.attention.task import Policy
from horae.core.jobs.payloads import decode, encode
from horae.core.time.spans import span
from horae.errors import InvalidInput
from horae.runtime.steps import inside_transaction
from horae.runtime.worker.calls import Uncaught, is_awaitable, refuse_generator
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.attention")
MAX_COMPLAINT = 2000  # characters of the description of an invalid answer


class Raised(Exception):
    """Wraps an error of a transactional action, so that the store does not treat it as a database error."""


def line_of(problem: BaseException) -> str:
    """Describe an error of the agent's code in one line."""
    return str(problem) if isinstance(problem, Raised | Uncaught) else error_line(problem)


def run_transactional(
    policy: Policy, name: str, run: Callable[..., Any], arguments: Mapping[str, Any], connection: Any
) -> ActionResult:
    """Run a transactional action; an error in it or in its answer rolls it back."""
    try:
        with inside_transaction("a transactional action"):
            answer = run(connection, **arguments)
        if is_awaitable(answer):
            raise TypeError("a transactional action shares a synchronous transaction, so it is a plain function")
        return _to_result(check_answer(refuse_generator(f"action {name}", answer), policy))
    except BaseException as problem:
        raise Raised(error_line(problem)) from problem


def result_of(policy: Policy, perform: Perform, answer: Any) -> ActionResult:
    """Return the result of an action that has run; if its answer is invalid, say so in the result."""
    try:
        return _to_result(check_answer(answer, policy))
    except Exception as problem:
        why = str(problem) if isinstance(problem, InvalidInput) else error_line(problem)
        log.warning("action %s of %s ran, but its answer is invalid: %s", perform.action, perform.task.id, why)
        return ActionResult(
            "ok", {"invalid_answer": truncate(why, MAX_COMPLAINT), "key": perform.key} | _raw_answer(answer)
        )


def _raw_answer(answer: Any) -> dict[str, Any]:
    """Return an invalid answer as JSON, or nothing if it cannot be stored."""
    if isinstance(answer, Facts):
        answer = answer.data
    elif isinstance(answer, Pending):
        answer = {"on": answer.on, "timeout": str(answer.timeout)}
    try:
        return {"answer": decode(encode(answer, "answer"))}
    except Exception:
        return {}


def _to_result(answer: Facts | Pending | None) -> ActionResult:
    if isinstance(answer, Facts):
        return ActionResult("partial" if answer.is_partial else "ok", answer.data)
    if isinstance(answer, Pending):
        return ActionResult("pending", {}, wait_keys(answer.on), span(answer.timeout))
    return ActionResult("ok", {})
