"""What ``ctx.logger`` writes is kept with the attempt: in threads, on the loop, in child processes and over HTTP."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from horae import Context, Horae, Retry
from tests.runtime import processes
from tests.runtime.serving import ended, serving
from tests.runtime.test_http_source import until_done
from tests.support.serving import Served
from tests.support.serving import serving as serving_http

NEVER = Retry.none()


def texts(app: Horae, job_id: str) -> list[tuple[str, str]]:
    return [(line.level, line.text) for each in app.jobs.logs(job_id) for line in each.lines]


@pytest.mark.parametrize("is_async", [True, False])
async def test_lines_are_kept_with_secrets_masked_whatever_is_printed(app: Horae, is_async: bool) -> None:
    def log(ctx: Context, key: str) -> None:
        ctx.logger.debug("not kept unless it is printed")
        ctx.logger.info("with %s and token=abc123", key)
        try:
            raise KeyError("books")
        except KeyError:
            ctx.logger.exception("%d failed", 7)

    async def log_async(ctx: Context, key: str) -> None:
        log(ctx, key)

    app.job("talk", retry=NEVER, sensitive=["key"])(log_async if is_async else log)
    async with serving(app):
        job = await ended(app, app.enqueue("talk", key="hunter22"))

    (first, second) = texts(app, job.id)
    assert first == ("INFO", "with … and token=…")
    assert second[1].startswith("7 failed\nTraceback")
    assert second[1].endswith("KeyError: 'books'")


async def test_a_line_names_the_place_that_wrote_it(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    @app.job("talk", retry=NEVER)
    def talk(ctx: Context) -> None:
        ctx.logger.warning("here")

    async with serving(app):
        await ended(app, talk.enqueue())

    (record,) = [each for each in caplog.records if each.getMessage() == "here"]
    assert (record.filename, record.funcName) == ("test_lines.py", "talk")


async def test_a_line_that_cannot_be_put_together_fails_nothing(app: Horae) -> None:
    @app.job("talk", retry=NEVER)
    def talk(ctx: Context) -> None:
        ctx.logger.info("%d", "no number")

    logging.raiseExceptions, before = False, logging.raiseExceptions
    try:
        async with serving(app):
            job = await ended(app, talk.enqueue())
    finally:
        logging.raiseExceptions = before
    assert (job.state, texts(app, job.id)) == ("succeeded", [("INFO", "(a line that cannot be shown: TypeError)")])


async def test_a_job_can_be_declared_to_keep_nothing(app: Horae) -> None:
    @app.job("talk", retry=NEVER, logs=False)
    def talk(ctx: Context) -> None:
        ctx.logger.info("nothing of this")

    async with serving(app):
        job = await ended(app, talk.enqueue())

    assert texts(app, job.id) == []


@pytest.mark.slow
async def test_lines_of_a_child_process_are_kept_at_once(process_app: Horae) -> None:
    async with serving(process_app):
        job = await ended(process_app, processes.report.enqueue())

    assert texts(process_app, job.id) == [("WARNING", f"half way with {job.id}")]


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving_http(sqlite_database_url) as running:
        yield running


def test_lines_of_a_worker_without_a_database_reach_the_service(served: Served) -> None:
    with Horae("sqlite:////nowhere/at/all.db", name="far") as app:
        app.use_service(served.url, served.token("system", "worker"))

        @app.job("talk", retry=NEVER)
        def talk(ctx: Context, password: str) -> None:
            ctx.logger.error("wrong: %s", password)

        made = talk.enqueue("hunter22")
        asyncio.run(until_done(app, made.id))

        assert texts(app, made.id) == [("ERROR", "wrong: …")]
