"""Verifiers of an application, and the built-in handler of jobs about objects, which judges by stored evidence alone.

A verifier is a definition by the name ``govern.memory``: a worker that has one runs it for due jobs of that kind. It
reads the object, calls the application's function, and returns what that answers as the job's result; what the answer
means for the object is decided where the job ends.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar

from horae.core.governance.answers import answer_as_json
from horae.core.governance.budgets import verify_budget
from horae.core.governance.machines import KINDS
from horae.core.governance.objects import GOVERNANCE
from horae.core.jobs.job import GOVERN, govern_name
from horae.core.time.spans import Span
from horae.declare.definitions import LOCAL, Definition, Runner, define
from horae.errors import DefinitionError
from horae.runtime.worker.calls import is_awaitable
from horae.runtime.worker.context import Context
from horae.runtime.worker.verifiers import App, examine, judge_by_evidence, must_look

P = ParamSpec("P")
R = TypeVar("R")
TIMEOUT = timedelta(minutes=5)  # of a verifier that names none: everything that waits has a limit


class Verifier(Generic[P, R]):
    """A declared verifier: call it like the function it is. Workers run it when objects of its kind are due."""

    def __init__(self, home: Any, definition: Definition, function: Callable[P, R]) -> None:
        self._home, self.definition, self._function = home, definition, function
        functools.update_wrapper(self, function, updated=())

    @property
    def app(self) -> Any:
        """Return the application that declared it."""
        return self._home.home

    @property
    def name(self) -> str:
        return self.definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function here and now."""
        return self._function(*args, **kwargs)


def define_verifier(
    home: Any,
    kind: str,
    function: Callable[..., Any],
    *,
    timeout: Span | None = None,
    cost: Mapping[str, int] | None = None,
    budget: str | None = None,
    executor: Runner | None = None,
) -> Definition:
    """Check a verifier and make it a definition; refuse what cannot work."""
    if kind not in KINDS:
        raise DefinitionError("verifier_kind_unknown", kind=repr(kind)[:40], choices=KINDS)
    if executor is not None and executor not in LOCAL:
        raise DefinitionError("verifier_not_remote", kind=kind, executor=str(executor))
    limit = TIMEOUT if timeout is None else timeout
    made = define(
        govern_name(kind), function, context_type=Context, queue=GOVERNANCE, timeout=limit, executor=executor,
        budget=budget or verify_budget(kind), cost=cost, tenants=True,
    )  # fmt: skip
    needed = [each for each in made.signature.parameters.values() if each.default is inspect.Parameter.empty]
    named = [each for each in needed if each.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(named) != 1:
        raise DefinitionError("verifier_parameters", kind=kind, signature=str(made.signature))
    run = _awaited(home, made, function) if made.is_async else _called(home, made, function)
    return replace(made, function=run, takes_context=True, signature=inspect.Signature())


def _awaited(home: Any, made: Definition, function: Callable[..., Any]) -> Callable[..., Any]:
    verifier = _name_of(function)

    @functools.wraps(function)
    async def run(ctx: Context, **payload: Any) -> dict[str, Any] | None:
        if not must_look(ctx, payload):
            return None
        it = await asyncio.to_thread(examine, home.home, ctx)
        return answer_as_json(await function(*((ctx,) if made.takes_context else ()), it), verifier)

    return _plain(run)


def _called(home: Any, made: Definition, function: Callable[..., Any]) -> Callable[..., Any]:
    verifier = _name_of(function)

    @functools.wraps(function)
    def run(ctx: Context, **payload: Any) -> Any:
        if not must_look(ctx, payload):
            return None
        answer = function(*((ctx,) if made.takes_context else ()), examine(home.home, ctx))
        return _later(answer, verifier) if is_awaitable(answer) else answer_as_json(answer, verifier)

    return _plain(run)


async def _later(answer: Any, verifier: str) -> dict[str, Any]:
    """Await what a plain function returned, such as a wrapped async one."""
    return answer_as_json(await answer, verifier)


def _plain(run: Callable[..., Any]) -> Callable[..., Any]:
    del run.__wrapped__  # type: ignore[attr-defined]  # its signature is its own
    return run


def _name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a verifier gives its verdicts: the same in every process."""
    return f"{function.__module__}.{function.__qualname__}"[-200:]


def built_in(app: App) -> Definition:
    """Return the handler that every worker has for objects of kinds without a verifier of its own."""

    def govern(ctx: Context, **payload: Any) -> None:
        judge_by_evidence(app, ctx, payload)

    return Definition(GOVERN, govern, queue=GOVERNANCE, tenants=True, takes_context=True)
