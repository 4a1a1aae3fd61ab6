"""Handlers whose call runs nothing by itself: it is awaited, or refused; never taken for a success."""

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Context, Horae, JobExecutionListener, Retry
from horae.actions.jobs import jobs as verbs
from horae.errors import DefinitionError
from horae.runtime.chores.janitor import Chore
from tests.runtime.serving import ended, outcomes, running, serving, until
from tests.support.refusals import refused

NEVER = Retry.none()
Handler = Callable[..., Any]
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def plainly(function: Handler) -> Handler:
    """A decorator that was written for plain functions."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def work() -> str:
    await asyncio.sleep(0)
    return "worked"


async def forgets_to_await() -> Any:
    return work()


class Callable_:
    async def __call__(self) -> str:
        return await work()


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize(
    "handler",
    [plainly(work), lambda: work(), forgets_to_await, plainly(forgets_to_await), Callable_(), functools.partial(work)],
    ids=["decorated", "returned", "twice", "twice and decorated", "an object", "partial"],
)
async def test_what_a_handler_returns_to_be_awaited_is_awaited(app: Horae, handler: Handler, timeout: Any) -> None:
    job = app.job("work", retry=NEVER, timeout=timeout)(handler).enqueue()
    async with serving(app):
        done = await ended(app, job)

    assert (done.state, done.result) == ("succeeded", "worked")


def produces() -> Iterator[int]:
    yield 1


async def produces_async() -> AsyncIterator[int]:
    yield 1


async def returns_generator() -> Any:
    return produces()


@pytest.mark.parametrize("function", [produces, produces_async], ids=["generator", "async generator"])
def test_a_generator_function_is_refused_when_it_is_declared(app: Horae, function: Handler) -> None:
    with refused(DefinitionError, "job_is_generator", handler="produce"):
        app.job("produce")(function)


def test_a_class_whose_run_is_a_generator_is_refused_when_it_is_declared(app: Horae) -> None:
    with refused(DefinitionError, "job_is_generator"):

        @app.job("produce")
        class Produce:
            def run(self, ctx: Context) -> Iterator[int]:
                yield 1


@pytest.mark.parametrize(
    "handler",
    [lambda: produces(), lambda: produces_async(), returns_generator, plainly(returns_generator)],
    ids=["generator", "async generator", "by a coroutine", "by a decorated coroutine"],
)
async def test_a_handler_that_returns_a_generator_has_failed_and_says_what_to_do(app: Horae, handler: Handler) -> None:
    job = app.job("produce", retry=NEVER)(handler).enqueue()
    async with serving(app):
        done = await ended(app, job)

    assert done.state == "dead"
    assert "produce returned a generator, so none of the code behind it has run" in (done.last_error or "")


async def test_a_plain_decorator_may_run_the_async_function_to_its_end_itself(app: Horae) -> None:
    """``asyncio.run`` in a wrapper is common, and needs a thread without a running loop."""

    def to_its_end(function: Handler) -> Handler:
        @functools.wraps(function)
        def wrapper() -> Any:
            return asyncio.run(function())

        return wrapper

    job = app.job("work", retry=NEVER)(to_its_end(work)).enqueue()
    async with serving(app):
        assert (await ended(app, job)).result == "worked"


def test_a_decorated_async_function_may_ask_for_the_loop(app: Horae) -> None:
    assert app.job("work", executor="async")(plainly(work)).definition.executor == "async"
    with refused(DefinitionError, "executor_needs_async"):
        app.job("other", executor="async")(lambda: None)


async def test_what_a_decorator_puts_into_context_variables_is_there_when_the_function_runs(app: Horae) -> None:
    def for_tenant(function: Handler) -> Handler:
        @functools.wraps(function)
        def wrapper() -> Any:
            tenant.set("ann")
            return function()

        return wrapper

    async def who() -> str:
        return tenant.get()

    job = app.job("who", retry=NEVER)(for_tenant(who)).enqueue()
    async with serving(app):
        assert (await ended(app, job)).result == "ann"


async def test_a_decorated_async_function_over_its_limit_is_cancelled(app: Horae) -> None:
    cleaned = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    job = app.job("slow", retry=NEVER, timeout=0.05)(plainly(slow)).enqueue()
    async with serving(app):
        done = await ended(app, job)

    assert (outcomes(app, job), done.last_error) == (["timed_out"], "timed_out: over 0:00:00.050000")
    assert cleaned.is_set()


async def test_a_decorated_async_function_is_cancelled_on_request(app: Horae) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    job = app.job("slow", retry=NEVER)(plainly(slow)).enqueue()
    async with serving(app):
        await started.wait()
        verbs.cancel(app.world, job.id)
        done = await ended(app, job)

    assert (done.state, cleaned.is_set()) == ("cancelled", True)


async def test_a_worker_that_ends_gives_a_decorated_async_function_back(app: Horae) -> None:
    async def slow() -> None:
        await asyncio.sleep(60)

    job = app.job("slow", retry=NEVER)(plainly(slow)).enqueue()
    async with serving(app, grace=0.01):
        await running(app, job)

    assert (app.get(job.id).state, outcomes(app, job)) == ("queued", ["released"])


async def test_what_was_made_for_a_run_lives_until_the_awaited_part_has_ended(app: Horae) -> None:
    open_ones: list[str] = []

    class Connection: ...

    def connection() -> Iterator[Connection]:
        open_ones.append("open")
        yield Connection()
        open_ones.clear()

    app.provide(Connection, connection, per_run=True)

    @app.job("use", retry=NEVER)
    class Use:
        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        @plainly
        async def run(self, ctx: Context) -> list[str]:
            await asyncio.sleep(0)
            return list(open_ones)

    job = app.enqueue("use")
    async with serving(app):
        done = await ended(app, job)

    assert (done.result, open_ones) == (["open"], [])


# -- what else is called -----------------------------------------------------------------------------------------


async def test_a_decide_behind_a_plain_decorator_is_awaited(app: Horae) -> None:
    async def decide(*_: Any) -> timedelta:
        return timedelta(hours=1)

    @app.job("fail", retry=Retry.external(), decide=plainly(decide))
    def fail() -> None:
        raise ValueError("no")

    job = fail.enqueue()
    async with serving(app):
        await until(lambda: app.get(job.id).attempt == 1, "a failed attempt")

    assert app.get(job.id).run_at > app.get(job.id).planned_at + timedelta(minutes=59)


async def test_listeners_behind_a_plain_decorator_are_awaited(app: Horae) -> None:
    heard: list[str] = []

    async def dead(job: Any) -> None:
        heard.append(job.handler)

    app.on_dead(plainly(dead))
    app.job("fail", retry=NEVER)(lambda: 1 / 0)
    app.enqueue("fail")
    async with serving(app):
        await until(lambda: heard == ["fail"], "the listener")


def test_a_listener_that_is_a_generator_function_is_refused(app: Horae) -> None:
    class Listens(JobExecutionListener):
        def on_start(self, job_id: str, fire_time: int) -> Any:
            yield

    with refused(DefinitionError, "listener_is_generator", name="on_start"):
        app.listen(Listens())
    with refused(DefinitionError, "listener_is_generator", name="on_dead"):
        app.on_dead(produces)  # type: ignore[arg-type]


async def test_a_chore_that_returns_something_to_be_awaited_is_awaited(app: Horae) -> None:
    done: list[str] = []

    async def tidy() -> None:
        done.append("tidy")

    app.chores += [
        Chore("tidy", timedelta(milliseconds=10), lambda world: tidy()),
        Chore("produce", timedelta(milliseconds=10), lambda world: produces()),
        Chore("leave", timedelta(milliseconds=10), lambda world: exec_exit()),
    ]
    async with serving(app):
        await until(lambda: len(done) >= 3, "three rounds, whatever the others did")


def exec_exit() -> None:
    raise SystemExit(3)
