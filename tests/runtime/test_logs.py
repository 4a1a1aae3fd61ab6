"""What the log says of a job: where it failed, and which job a line belongs to, whoever wrote it."""

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from horae import Context, Horae, HoraeError, JobLogFilter, Retry
from horae.cli.logs import JsonLines, TextLines
from tests.runtime import processes
from tests.runtime.serving import ended, serving, until
from tests.support.waiting import eventually

NEVER = Retry.none()
library = logging.getLogger("some.library")
FORMS = pytest.mark.parametrize("form", [TextLines, JsonLines], ids=["text", "json"])


class Lines(logging.Handler):
    """Keeps what a formatter makes of each record."""

    def __init__(self, form: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(form)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def having(self, text: str) -> str:
        return next(line for line in self.lines if text in line)


@pytest.fixture
def lines(form: type[logging.Formatter]) -> Any:
    handler = Lines(form())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("INFO")
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def unpack(shelf: dict[str, int]) -> int:
    return shelf["books"]


# -- failures ----------------------------------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failing_job_leaves_its_traceback_in_the_log(app: Horae, lines: Lines, is_async: bool) -> None:
    async def fails() -> None:
        unpack({})

    app.job("fail", retry=NEVER)(fails if is_async else lambda: unpack({}))
    async with serving(app):
        await ended(app, app.enqueue("fail"))

    answer = lines.having("(fail) failed, now dead: KeyError: 'books'")
    assert 'return shelf["books"]' in answer.replace('\\"', '"')
    assert "horae/runtime" not in answer


@FORMS
async def test_a_failing_scheduled_job_leaves_its_traceback_once(app: Horae, lines: Lines) -> None:
    app.job("fail", cron="0 3 * * *")(lambda: unpack({}))
    async with serving(app):
        job_id = await asyncio.to_thread(app.trigger, "fail")
        assert job_id is not None
        await eventually(lambda: app.get(job_id).state == "dead")

    assert "in unpack" in lines.having("job.failed fail: KeyError")
    assert sum("in unpack" in line for line in lines.lines) == 1


@FORMS
async def test_a_job_that_fails_in_a_child_process_leaves_its_traceback_too(process_app: Horae, lines: Lines) -> None:
    async with serving(process_app):
        await ended(process_app, processes.fail.enqueue())

    answer = lines.having("(fail) failed")
    assert "the thing we needed" in answer
    assert "in fail" in answer


@FORMS
async def test_an_error_that_cannot_be_printed_is_logged_all_the_same(app: Horae, lines: Lines) -> None:
    class ExitsWhenPrinted(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    def fails() -> None:
        raise ExitsWhenPrinted

    app.job("fail", retry=NEVER)(fails)
    async with serving(app):
        await ended(app, app.enqueue("fail"))

    assert "in fails" in lines.having("ExitsWhenPrinted: (its text cannot be shown)")


async def test_a_stored_traceback_begins_in_the_handler(app: Horae) -> None:
    class Shelf:
        def __init__(self) -> None:
            self.books = unpack({})

    @app.job("fail", retry=NEVER, timeout=60)
    async def fails(ctx: Context) -> None:
        try:
            unpack({})
        except KeyError as problem:
            raise HoraeError("wrapped") from problem

    app.job("build", retry=NEVER)(lambda: Shelf())
    async with serving(app):
        jobs = [await ended(app, app.enqueue(name)) for name in ("fail", "build")]

    for job in jobs:
        assert "in unpack" in (job.last_error or "")
        assert "horae/runtime" not in (job.last_error or "")


async def test_a_stored_traceback_is_whole_where_the_error_is_ours(app: Horae) -> None:
    app.job("fail", retry=NEVER)(unpack)  # enqueued without the argument that it needs
    from horae.actions.jobs.jobs import enqueue
    from horae.actions.jobs.requests import Request

    async with serving(app):
        done = await ended(app, enqueue(app.world, Request("fail", {}, retry=NEVER)))

    assert "horae/runtime/worker/executor.py" in (done.last_error or "")


# -- whose line it is --------------------------------------------------------------------------------------------


def fields_of(caplog: pytest.LogCaptureFixture, message: str) -> dict[str, Any]:
    return vars(next(record for record in caplog.records if record.getMessage() == message))


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_lines_of_a_library_carry_the_job_that_it_was_called_by(
    app: Horae, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def work(ctx: Context) -> None:
        library.warning("called by %s", ctx.job_id)

    async def work_async(ctx: Context) -> None:
        work(ctx)
        await asyncio.to_thread(library.warning, "in a thread of %s", ctx.job_id)

    app.job("work")(work_async if is_async else work)
    jobs = [app.enqueue("work") for _ in range(3)]
    async with serving(app):
        for job in jobs:
            await ended(app, job)

    for job in jobs:
        answer = fields_of(caplog, f"called by {job.id}")
        assert (answer["job_id"], answer["handler"], answer["queue"]) == (job.id, "work", "default")
        assert answer["run_id"].startswith(f"{job.id}.")
    if is_async:
        assert fields_of(caplog, f"in a thread of {jobs[0].id}")["job_id"] == jobs[0].id


async def test_the_lines_of_a_library_in_a_child_process_carry_its_job(
    process_app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    job = processes.log.enqueue()
    async with serving(process_app):
        await ended(process_app, job)

    answer = fields_of(caplog, "it went wrong")
    assert (answer["job_id"], answer["shelf"]) == (job.id, 4)


async def test_lines_outside_of_any_job_carry_none(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    job = app.job("work")(lambda: None).enqueue()
    async with serving(app):
        await ended(app, job)
        library.warning("nobody's")
        answer = threading.Thread(target=library.warning, args=("a stranger's",))
        answer.start()
        answer.join()

    assert not {"job_id", "run_id"} & set(fields_of(caplog, "nobody's"))
    assert not {"job_id", "run_id"} & set(fields_of(caplog, "a stranger's"))


async def test_a_worker_leaves_the_handlers_of_the_log_as_it_found_them(app: Horae) -> None:
    root = logging.getLogger()
    before = [list(handler.filters) for handler in root.handlers]

    def is_marked(handler: logging.Handler) -> bool:
        return any(isinstance(each, JobLogFilter) for each in handler.filters)

    async with serving(app):
        await until(lambda: all(map(is_marked, root.handlers)), "filters on all handlers")

    assert [list(handler.filters) for handler in root.handlers] == before


async def test_a_field_that_is_there_already_is_not_changed(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    def work(ctx: Context) -> None:
        library.warning("mine", extra={"job_id": "theirs"})

    app.job("work")(work)
    async with serving(app):
        await ended(app, app.enqueue("work"))

    assert fields_of(caplog, "mine")["job_id"] == "theirs"


# -- extra -------------------------------------------------------------------------------------------------------


async def test_extra_fields_given_to_the_logger_of_a_job_stay(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    def work(ctx: Context) -> None:
        ctx.logger.warning("charged", extra={"amount": 3})

    app.job("work")(work)
    job = app.enqueue("work")
    async with serving(app):
        await ended(app, job)

    answer = fields_of(caplog, "charged")
    assert (answer["amount"], answer["job_id"]) == (3, job.id)


@pytest.mark.parametrize("form", [JsonLines])
def test_json_lines_show_every_extra_field(lines: Lines, form: Any) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("no text")

    library.warning("odd %s", "ones", extra={"amount": 3, "time": "noon", "odd": Odd(), "keys": {(1, 2): 3}})
    answer = json.loads(lines.having("odd ones"))

    assert (answer["message"], answer["amount"], answer["extra_time"]) == ("odd ones", "3", "noon")
    assert {"odd", "keys", "level", "logger"} <= set(answer)

    library.warning("even", extra={"amount": 3, "tags": ["a"]})
    even = json.loads(lines.having('"even"'))
    assert (even["amount"], even["tags"]) == (3, ["a"])


@pytest.mark.parametrize("form", [JsonLines])
def test_json_lines_show_an_exception_in_one_line_and_whole(lines: Lines, form: Any) -> None:
    try:
        unpack({})
    except KeyError:
        library.exception("broken")
    answer = json.loads(lines.having("broken"))

    assert answer["error"] == "KeyError: 'books'"
    assert "in unpack" in answer["traceback"]
