"""Dependencies by type: what is provided, for how long, and who gets it (S3-6, S3-7, S3-14)."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from horae import Context, Horae
from horae.errors import ConfigurationError
from horae.runtime.worker.services import Services
from horae.testing import Lab
from tests.support.refusals import refused


class Tokens:
    made = 0

    def __init__(self) -> None:
        type(self).made += 1


class Cleaner:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens


@pytest.fixture
def app() -> Horae:
    Tokens.made = 0
    return Horae("sqlite:////dev/null/no.db", name="test")


async def ran(app: Horae, name: str, times: int = 1) -> list[object]:
    """The results of running a job so often."""
    async with Lab(app) as lab:
        jobs = [app.enqueue(name) for _ in range(times)]
        await lab.settle()
        assert [lab.job(job).last_error for job in jobs] == [None] * times
        return [lab.job(job).result for job in jobs]


async def test_a_class_gets_what_its_constructor_asks_for(app: Horae) -> None:
    """S3-14"""
    tokens = Tokens()
    app.provide(Tokens, tokens)
    seen = []

    @app.job("clean")
    class Clean:
        def __init__(self, tokens: Tokens, logger: logging.Logger, ctx: Context, size: int = 3) -> None:
            seen.extend([tokens, logger.name, ctx, size])

        async def run(self, ctx: Context) -> None:
            seen.append(ctx)

    await ran(app, "clean")

    assert seen[0] is tokens
    assert str(seen[1]).endswith("test_services.test_a_class_gets_what_its_constructor_asks_for.<locals>.Clean")
    assert (seen[3], seen[2]) == (3, seen[4])


async def test_every_run_gets_a_fresh_instance(app: Horae) -> None:
    """S3-6: the origin creates an executor for each firing."""
    made = []

    @app.job("clean")
    class Clean:
        def __init__(self) -> None:
            made.append(self)

        def run(self, ctx: Context) -> None: ...

    await ran(app, "clean", times=3)

    assert len(set(map(id, made))) == 3


async def test_a_function_asks_its_context(app: Horae) -> None:
    """S3-7"""
    app.provide(Tokens, Tokens())

    @app.job("clean")
    def clean(ctx: Context) -> str:
        return type(ctx.get(Tokens)).__name__

    assert await ran(app, "clean") == ["Tokens"]


async def test_a_factory_makes_one_for_the_application(app: Horae) -> None:
    app.provide(Tokens, Tokens)

    @app.job("clean")
    async def clean(ctx: Context) -> None:
        ctx.get(Tokens)

    await ran(app, "clean", times=3)

    assert Tokens.made == 1


async def test_a_factory_may_make_one_for_each_run(app: Horae) -> None:
    app.provide(Tokens, Tokens, per_run=True)

    @app.job("clean")
    async def clean(ctx: Context) -> bool:
        return ctx.get(Tokens) is ctx.get(Tokens)

    assert await ran(app, "clean", times=3) == [True] * 3
    assert Tokens.made == 3


async def test_factories_depend_on_each_other_by_type(app: Horae) -> None:
    app.provide(Tokens, Tokens())
    app.provide(Cleaner)

    @app.job("clean")
    async def clean(ctx: Context) -> bool:
        return ctx.get(Cleaner).tokens is ctx.get(Tokens)

    assert await ran(app, "clean") == [True]


async def test_what_a_generator_made_for_a_run_ends_with_the_run(app: Horae) -> None:
    story: list[str] = []

    def connect() -> Iterator[Tokens]:
        story.append("open")
        yield Tokens()
        story.append("close")

    app.provide(Tokens, connect, per_run=True)

    @app.job("clean")
    def clean(ctx: Context) -> None:
        ctx.get(Tokens)
        story.append("work")

    await ran(app, "clean", times=2)

    assert story == ["open", "work", "close"] * 2


async def test_it_ends_with_a_run_that_failed_too(app: Horae) -> None:
    story: list[str] = []

    async def connect() -> AsyncIterator[Tokens]:
        story.append("open")
        try:
            yield Tokens()
        finally:
            story.append("close")

    app.provide(Tokens, connect, per_run=True)

    @app.job("clean")
    async def clean(ctx: Context) -> None:
        await ctx.get_async(Tokens)
        raise ValueError("no")

    async with Lab(app) as lab:
        clean.enqueue()
        await lab.settle()

    assert story == ["open", "close"]


async def test_a_class_gets_what_an_async_factory_makes(app: Horae) -> None:
    async def make() -> Tokens:
        return Tokens()

    app.provide(Tokens, make, per_run=True)

    @app.job("clean")
    class Clean:
        def __init__(self, tokens: Tokens) -> None:
            self.tokens = tokens

        async def run(self, ctx: Context) -> str:
            return type(self.tokens).__name__

    assert await ran(app, "clean") == ["Tokens"]


def test_a_plain_run_that_needs_an_async_factory_is_found_by_the_check(app: Horae) -> None:
    async def make() -> Tokens:
        return Tokens()

    app.provide(Tokens, make, per_run=True)

    @app.job("clean")
    class Clean:
        def __init__(self, tokens: Tokens) -> None: ...
        def run(self, ctx: Context) -> None: ...

    (problem,) = app.problems()
    assert "make run an async function" in problem.text


def test_factories_that_need_each_other_are_found_by_the_check(app: Horae) -> None:
    def tokens(cleaner: Cleaner) -> Tokens:
        return Tokens()

    app.provide(Tokens, tokens)
    app.provide(Cleaner)

    @app.job("clean")
    class Clean:
        def __init__(self, tokens: Tokens) -> None: ...
        def run(self, ctx: Context) -> None: ...

    (problem,) = app.problems()
    assert "Tokens → Cleaner → Tokens" in problem.text


async def test_what_lives_with_the_application_ends_with_it(app: Horae) -> None:
    story: list[str] = []

    async def connect() -> AsyncIterator[Tokens]:
        story.append("open")
        yield Tokens()
        story.append("close")

    services = Services()
    services.provide(Tokens, connect)

    await services.open()
    assert services.scope({}).get(Tokens) is services.scope({}).get(Tokens)  # also a plain function may ask now
    await services.close()

    assert story == ["open", "close"]


async def test_what_nothing_provides_is_refused_with_what_to_do(app: Horae) -> None:
    @app.job("clean")
    def clean(ctx: Context) -> None:
        with refused(ConfigurationError, "not_provided", kind="Tokens"):
            ctx.get(Tokens)

    await ran(app, "clean")


def test_a_value_cannot_be_made_anew_for_each_run() -> None:
    with refused(ConfigurationError, "factory_needed"):
        Services().provide(Tokens, Tokens(), per_run=True)
