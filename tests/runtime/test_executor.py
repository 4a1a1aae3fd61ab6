"""How handlers end: on the loop and in threads."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from horae import Cancel, Context, Horae, Retry, Snooze
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.reasons import why
from horae.core.jobs.job import Job
from tests.runtime.serving import LIMIT, ended, outcomes, serving
from tests.support.waiting import eventually, wait_until

NEVER = Retry.none()


class NotEvenAnException(BaseException):
    """Something no handler should raise, and some will."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class ExitsWhenPrinted(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class ExitsWhenShown(Exception):
    def __repr__(self) -> str:
        raise SystemExit(3)


class Recursive(Exception):
    def __str__(self) -> str:
        return str(self)


class Huge(Exception):
    def __str__(self) -> str:
        return "x" * 5_000_000


class OddTraceback(Exception):
    __notes__ = (ExitsWhenPrinted(),)  # type: ignore[assignment]


def caused_by_poison() -> Exception:
    problem = ValueError("caused")
    problem.__cause__ = ExitsWhenPrinted()
    return problem


def both(app: Horae, name: str, function: Callable[[], Any], **options: Any) -> list[str]:
    """The same handler twice: as a plain function and as a coroutine."""

    async def coroutine() -> Any:
        return function()

    app.job(f"{name}-thread", **options)(function)
    app.job(f"{name}-async", **options)(coroutine)
    return [app.enqueue(f"{name}-thread").id, app.enqueue(f"{name}-async").id]


@pytest.mark.parametrize(
    "problem",
    [ValueError("wrong"), SystemExit(1), KeyboardInterrupt(), NotEvenAnException("odd"), GeneratorExit(), Unspeakable(),
     StopIteration(1), StopAsyncIteration(1), asyncio.CancelledError(), TimeoutError("theirs"), ExitsWhenPrinted(),
     ExitsWhenShown(), Recursive(), Huge(), OddTraceback(), ExceptionGroup("group", [ExitsWhenPrinted()]),
     caused_by_poison()],
    ids=["ValueError", "SystemExit", "KeyboardInterrupt", "NotEvenAnException", "GeneratorExit", "Unspeakable",
         "StopIteration", "StopAsyncIteration", "CancelledError", "TimeoutError", "ExitsWhenPrinted", "ExitsWhenShown",
         "Recursive", "Huge", "OddTraceback", "ExceptionGroup", "CausedByPoison"],
)  # fmt: skip
@pytest.mark.parametrize("timeout", [None, 30])
async def test_whatever_a_handler_raises_fails_its_attempt_and_nothing_else(
    app: Horae, problem: BaseException, timeout: float | None
) -> None:
    def raising() -> None:
        raise problem

    jobs = both(app, "raise", raising, retry=NEVER, timeout=timeout)
    after = app.job("after")(lambda: None).enqueue()
    async with serving(app):
        await eventually(lambda: all(app.get(job).state == "dead" for job in jobs), "two dead jobs")
        assert (await ended(app, after)).state == "succeeded"

    assert all(type(problem).__name__ in (app.get(job).last_error or "") for job in jobs)
    assert all(len(app.get(job).last_error or "") <= 20_000 for job in jobs)


async def test_an_error_is_told_in_one_line_first_and_then_where_it_happened(app: Horae) -> None:
    def fails() -> None:
        raise ValueError("the shelf is empty")

    async with serving(app):
        job = await ended(app, app.enqueue(app.job("fail", retry=NEVER)(fails).name))

    first, *rest = (job.last_error or "").splitlines()
    assert first == "ValueError: the shelf is empty"
    assert any("in fails" in line for line in rest)


async def test_snooze_puts_a_job_off_without_counting_an_attempt(app: Horae) -> None:
    def later() -> None:
        raise Snooze(3600, "the bank is closed")

    jobs = both(app, "later", later)
    async with serving(app):
        await eventually(lambda: all(app.get(job).last_error == "the bank is closed" for job in jobs), "two snoozes")

    for job in map(app.get, jobs):
        assert (job.state, job.attempt) == ("queued", 0)
        assert job.run_at > job.planned_at + timedelta(minutes=59)


@pytest.mark.parametrize("reason", ["a\x00b", "x" * 100_000, {"why": 1}], ids=["nul", "long", "no text"])
async def test_a_reason_that_no_database_could_store_puts_a_job_off_all_the_same(app: Horae, reason: Any) -> None:
    def later() -> None:
        raise Snooze(3600, reason)

    jobs = both(app, "later", later)
    async with serving(app):
        await eventually(lambda: all(app.get(job).last_error for job in jobs), "two snoozes")

    assert [(app.get(job).state, app.get(job).attempt) for job in jobs] == [("queued", 0)] * 2
    assert all("could not be stored" not in (app.get(job).last_error or "") for job in jobs)


async def test_cancel_ends_a_job_for_good(app: Horae) -> None:
    def unwanted() -> None:
        raise Cancel("nobody wants it")

    jobs = both(app, "unwanted", unwanted)
    async with serving(app):
        await eventually(lambda: all(app.get(job).state == "cancelled" for job in jobs), "two cancelled jobs")


class Treacherous(dict[str, Any]):
    """Not even encoding it is harmless."""

    def items(self) -> Any:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "result",
    [{1, 2}, object(), float("nan"), "x" * 2_000_000, b"bytes", {1: 2}, Treacherous(a=1)],
    ids=["set", "object", "nan", "large", "bytes", "keys", "treacherous"],
)
async def test_a_result_that_cannot_be_kept_is_told_as_an_error_of_a_job_that_succeeded(
    app: Horae, result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever ran it again would do its work twice."""
    job = app.job("odd")(lambda: result).enqueue()
    async with serving(app):
        done = await ended(app, job)

    assert (done.state, done.result) == ("succeeded", None)
    assert (done.last_error or "").startswith("ResultNotKept: the job succeeded, but its result could not be kept.")
    (run,) = verbs.runs(app.world, job.id)
    assert (run.outcome, run.error) == ("succeeded", done.last_error)
    assert why(app.world, verbs.get(app.world, job.id))[0].text == "done, but its result could not be kept"
    assert "the result of odd cannot be stored" in caplog.text


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1, None]}], ids=repr)
async def test_a_result_that_can_be_kept_brings_no_error(app: Horae, result: Any) -> None:
    job = app.job("even")(lambda: result).enqueue()
    async with serving(app):
        done = await ended(app, job)

    assert (done.state, done.result, done.last_error) == ("succeeded", result, None)


# -- time limits -------------------------------------------------------------------------------------------------


async def test_an_async_handler_over_its_limit_is_cancelled_and_fails(app: Horae) -> None:
    cleaned = asyncio.Event()

    @app.job("slow", timeout=0.05, retry=NEVER)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with serving(app):
        done = await ended(app, slow.enqueue())

    assert done.last_error == "timed_out: over 0:00:00.050000"
    assert cleaned.is_set()


async def test_a_thread_over_its_limit_is_asked_to_end_and_fails(app: Horae) -> None:
    @app.job("slow", timeout=0.05, retry=NEVER)
    def slow(ctx: Context) -> str:
        wait_until(lambda: ctx.cancelled)
        return "stopped"

    async with serving(app) as worker:
        job = slow.enqueue()
        done = await ended(app, job)

        assert done.last_error == "timed_out: over 0:00:00.050000"
        assert outcomes(app, job) == ["timed_out"]
        assert worker._executor.stuck == 0


async def test_the_limit_of_one_job_wins_over_its_definition(app: Horae) -> None:
    @app.job("slow", timeout=60, retry=NEVER)
    async def slow() -> None:
        await asyncio.Event().wait()

    async with serving(app):
        done = await ended(app, slow.using(timeout=0.05).enqueue())

    assert (done.last_error or "").startswith("timed_out")


@pytest.mark.parametrize("kind", ["thread", "async"])
async def test_a_handler_that_does_not_end_when_its_time_is_up_is_given_up_and_its_worker_ends(
    app: Horae, kind: str
) -> None:
    release = threading.Event()

    def deaf() -> None:
        release.wait(20)

    async def shielded() -> None:
        while not release.is_set():
            try:
                await eventually(release.is_set)
            except asyncio.CancelledError:
                continue

    job = app.job("deaf", timeout=0.05, retry=NEVER)(deaf if kind == "thread" else shielded).enqueue()
    other = app.job("other")(lambda: "done").enqueue()
    async with serving(app, grace=0.2) as worker:
        done = await ended(app, job)

        assert "did not end when asked" in (done.last_error or "")
        assert (await ended(app, other)).state == "succeeded"
        await eventually(lambda: worker._stopping, "the worker's decision to end")
    release.set()


# -- threads -----------------------------------------------------------------------------------------------------


async def test_plain_functions_run_side_by_side_up_to_the_slots(app: Horae) -> None:
    barrier = threading.Barrier(3)

    @app.job("meet", retry=NEVER)
    def meet() -> int:
        return barrier.wait(timeout=LIMIT)

    async with serving(app, slots=3):
        jobs = [meet.enqueue() for _ in range(3)]
        states = [(await ended(app, job)).state for job in jobs]

    assert states == ["succeeded"] * 3


async def test_threads_are_used_again_and_end_with_their_worker(app: Horae) -> None:
    @app.job("who")
    def who() -> str:
        return threading.current_thread().name

    before = set(threading.enumerate())  # those of an earlier test's application may end later, or with the process
    async with serving(app, slots=1):
        names = {(await ended(app, who.enqueue())).result for _ in range(3)}
        assert len(names) == 1
        ours = {"horae-job", "horae-renew", "horae-watchdog", "horae-db", "horae-process"}
        mine = [thread for thread in set(threading.enumerate()) - before if thread.name.rpartition("-")[0] in ours]
        assert mine

    await eventually(lambda: not any(thread.is_alive() for thread in mine), f"the end of {mine}")


# -- external decisions ------------------------------------------------------------------------------------------


def external(app: Horae, decide: Callable[[Job, str], Any], **policy: Any) -> Any:
    @app.job("ask", retry=Retry.external(**policy), decide=decide)
    def ask() -> None:
        raise ConnectionError("the line is dead")

    return ask.enqueue()


@pytest.mark.parametrize("answer", [timedelta(0), 0, 0.0, timedelta(seconds=-5)])
async def test_the_one_who_decides_may_have_it_tried_again(app: Horae, answer: Any) -> None:
    asked: list[str] = []

    def decide(job: Job, error: str) -> Any:
        asked.append(error.splitlines()[0])
        return answer if job.attempt == 0 else None

    job = external(app, decide, attempts=5)
    async with serving(app):
        done = await ended(app, job)

    assert asked == ["ConnectionError: the line is dead"] * 2
    assert (done.state, done.attempt) == ("dead", 2)


async def test_an_async_decision_is_awaited(app: Horae) -> None:
    async def decide(job: Job, error: str) -> timedelta | None:
        await asyncio.sleep(0)
        return None

    job = external(app, decide)
    async with serving(app):
        assert (await ended(app, job)).attempt == 1


@pytest.mark.parametrize("kind", ["silent", "silent async", "raising", "leaving", "nonsense"])
@pytest.mark.parametrize(("default", "attempts"), [(None, 1), (0, 2)])
async def test_without_an_answer_in_time_the_default_applies(
    app: Horae, kind: str, default: float | None, attempts: int
) -> None:
    release = threading.Event()

    def silent(job: Job, error: str) -> Any:
        release.wait(20)

    async def silent_async(job: Job, error: str) -> Any:
        await asyncio.Event().wait()

    def raising(job: Job, error: str) -> Any:
        raise ValueError("I cannot say")

    def leaving(job: Job, error: str) -> Any:
        raise SystemExit(1)

    def nonsense(job: Job, error: str) -> Any:
        return "soon"

    ways = {
        "silent": silent,
        "silent async": silent_async,
        "raising": raising,
        "leaving": leaving,
        "nonsense": nonsense,
    }
    job = external(app, ways[kind], attempts=2, deadline=0.05, default=default)
    async with serving(app, slots=1):
        done = await ended(app, job)
    release.set()

    assert (done.state, done.attempt) == ("dead", attempts)


# -- context -----------------------------------------------------------------------------------------------------


async def test_until_cancelled_wakes_at_once_and_holds_no_thread(app: Horae) -> None:
    @app.job("wait")
    async def wait(ctx: Context) -> None:
        await ctx.until_cancelled()

    jobs = [wait.enqueue() for _ in range(50)]
    before = set(threading.enumerate())  # threads that other tests of this process left are not ours
    async with serving(app, slots=50):
        await eventually(lambda: all(app.get(job.id).state == "running" for job in jobs), "fifty waiters")
        assert len(set(threading.enumerate()) - before) < 30
        for job in jobs:
            await asyncio.to_thread(verbs.cancel, app.world, job.id)
        states = {(await ended(app, job)).state for job in jobs}

    assert states == {"cancelled"}


async def test_progress_and_checkpoint_are_stored_while_the_job_runs(app: Horae) -> None:
    written, go_on = threading.Event(), threading.Event()

    @app.job("walk")
    def walk(ctx: Context) -> Any:
        ctx.progress({"percent": 40})
        ctx.checkpoint([1, 2])
        written.set()
        go_on.wait(20)
        return ctx.last_checkpoint

    job = walk.enqueue()
    async with serving(app):
        await eventually(written.is_set, "the progress")
        stored = app.get(job.id)
        go_on.set()
        done = await ended(app, job)

    assert (stored.progress, stored.checkpoint) == ({"percent": 40}, [1, 2])
    assert done.result == [1, 2]
