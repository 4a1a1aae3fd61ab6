"""Run a named step outside any transaction and keep its result: at least once, and after that never again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from horae.core.jobs.steps import KeptResult
from horae.errors import DefinitionError, HoraeError, ServiceUnavailable, StoreError, StoreUnavailable
from horae.runtime.worker.calls import await_fully, is_awaitable

T = TypeVar("T")
_transaction: ContextVar[str] = ContextVar("horae_open_transaction", default="")


class StepLog(Protocol):
    """Where the results of one attempt's or one turn's steps are kept; reading and writing are fenced."""

    def recall(self, name: str) -> KeptResult | None: ...
    def keep(self, name: str, value: Any) -> Any:
        """Store a result; return the one that counts, which an earlier run may have stored."""

    def call(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a blocking call off the event loop."""


class KeepsSteps:
    """Gives its subclass ``step`` and ``step_async``."""

    __slots__ = ()

    def step_log(self) -> StepLog:
        """For the runtime: where results are kept."""
        raise NotImplementedError

    def step(self, name: str, work: Callable[[], T]) -> T:
        """Run ``work()`` and keep its result under *name*; a later try gets that result and does not run it.

        For calls to the outside, such as a model or a payment: it runs outside any transaction, and its result is
        stored behind it, fenced. It runs at least once: after a crash between the two it runs again, so hand it an
        idempotency key. The result is JSON, bounded like a payload.
        """
        _refuse_in_transaction(name)
        log = self.step_log()
        known = log.recall(name)
        return known.value if known is not None else _keep(log, name, _plain(name, work()))  # type: ignore[no-any-return]  # what work returned

    async def step_async(self, name: str, work: Callable[[], Any]) -> Any:
        """Run a step as :meth:`step` does; *work* may be an async function, a plain one runs in a thread."""
        _refuse_in_transaction(name)
        log = self.step_log()
        known = await log.call(lambda: log.recall(name))
        if known is not None:
            return known.value
        value = await await_fully(await log.call(work))
        return await log.call(lambda: _keep(log, name, value))


@contextmanager
def inside_transaction(what: str) -> Iterator[None]:
    """Refuse steps while code of the application runs in a transaction of ours: they would hold it open."""
    token = _transaction.set(what)
    try:
        yield
    finally:
        _transaction.reset(token)


def has_run(problem: BaseException) -> bool:
    """Return whether an error says that a step has run although its result is not kept."""
    return isinstance(problem, HoraeError) and problem.reason in ("step_not_storable", "step_not_stored")


def _refuse_in_transaction(name: str) -> None:
    if what := _transaction.get():
        raise DefinitionError("step_in_transaction", step=name, what=what)


def _plain(name: str, value: Any) -> Any:
    if is_awaitable(value):
        if hasattr(value, "close"):
            value.close()
        raise DefinitionError("step_is_async", step=name)
    return value


def _keep(log: StepLog, name: str, value: Any) -> Any:
    try:
        return log.keep(name, value)
    except (StoreError, ServiceUnavailable) as problem:
        raise StoreUnavailable("step_not_stored", step=name, problem=str(problem), outcome_unknown=True) from problem
