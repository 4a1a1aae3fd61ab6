"""What an agent's action answered, as what it found.

An action that ran is told as having run, also where its answer cannot be used: whoever took it for a failure would
do it again. Only a transactional one is taken back, because that is possible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from horae.actions.attention.turns import ActionResult, Perform
from horae.actions.jobs.jobs import truncate
from horae.core.attention.directives import Facts, Pending, check_answer, wait_keys
from horae.core.attention.task import Policy
from horae.core.jobs.payloads import decode, encode
from horae.errors import InvalidInput
from horae.runtime.worker.calls import Uncaught, finished, is_awaitable
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.attention")
MAX_COMPLAINT = 2000  # characters of what is wrong with an answer


class Raised(Exception):
    """What a transactional action raised, so that the store does not take it for trouble of its own."""


def line_of(problem: BaseException) -> str:
    """Return one line about what some code of the agent raised."""
    return str(problem) if isinstance(problem, Raised | Uncaught) else error_line(problem)


def found_inside(
    policy: Policy, name: str, run: Callable[..., Any], arguments: Mapping[str, Any], connection: Any
) -> ActionResult:
    """Run a transactional action; whatever is wrong with it or its answer takes back what it did."""
    try:
        answer = run(connection, **arguments)
        if is_awaitable(answer):
            raise TypeError("a transactional action shares a synchronous transaction, so it is a plain function")
        return _as_found(check_answer(finished(f"action {name}", answer), policy))
    except BaseException as problem:
        raise Raised(error_line(problem)) from problem


def found_after(policy: Policy, perform: Perform, answer: Any) -> ActionResult:
    """Return what an action found that has run, and what is wrong with its answer, if anything is."""
    try:
        return _as_found(check_answer(answer, policy))
    except Exception as problem:
        why = str(problem) if isinstance(problem, InvalidInput) else error_line(problem)
        log.warning("%s of %s ran, but its answer cannot be used: %s", perform.action, perform.task.id, why)
        return ActionResult(
            "ok", {"invalid_answer": truncate(why, MAX_COMPLAINT), "key": perform.key} | _raw_answer(answer)
        )


def _raw_answer(answer: Any) -> dict[str, Any]:
    """Return as much of an answer that cannot be used as can be kept."""
    if isinstance(answer, Facts):
        answer = answer.data
    elif isinstance(answer, Pending):
        answer = {"on": answer.on, "timeout": str(answer.timeout)}
    try:
        return {"answer": decode(encode(answer, "answer"))}
    except Exception:
        return {}


def _as_found(answer: Facts | Pending | None) -> ActionResult:
    if isinstance(answer, Facts):
        return ActionResult("partial" if answer.is_partial else "ok", answer.data)
    if isinstance(answer, Pending):
        timeout = answer.timeout if isinstance(answer.timeout, timedelta) else timedelta(seconds=answer.timeout)
        return ActionResult("pending", {}, wait_keys(answer.on), timeout)
    return ActionResult("ok", {})
