"""One fire of a declared job, under virtual time: lock, listeners, log, history (S3-21 … S3-28, S3-37)."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from horae import Context, Horae, JobExecutionListener, Retry
from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import schedules
from horae.core.jobs.job import Job
from horae.core.jobs.locks import LockHolder
from horae.errors import InvalidArguments, NotFound
from horae.ports.locks import AttemptLocks
from horae.testing import Lab
from tests.support.refusals import refused

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Notes(JobExecutionListener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_start(self, job_id: str, fire_time: int) -> None:
        self.heard.append(("start", job_id, fire_time))

    async def on_success(self, job_id: str, fire_time: int, duration: int) -> None:
        self.heard.append(("success", job_id, fire_time, duration))

    def on_failure(self, job_id: str, fire_time: int, duration: int, error: BaseException) -> None:
        self.heard.append(("failure", job_id, fire_time, duration, error))

    def on_skipped(self, job_id: str, fire_time: int) -> None:
        self.heard.append(("skipped", job_id, fire_time))


@pytest.fixture
def app() -> Horae:
    return Horae("sqlite:////dev/null/no.db", name="test")


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


async def response(lab: Lab) -> None:
    await lab._occurrences.drain(MINUTE)


async def test_a_cron_job_fires_at_its_minute_and_never_twice(app: Horae) -> None:
    """S3-36"""
    seen: list[tuple[str, datetime, datetime]] = []

    @app.job("clean", cron="*/5 * * * *")
    async def clean(ctx: Context) -> None:
        seen.append((ctx.name, ctx.planned_at, ctx.fire_time))

    async with Lab(app, starts_at=NOON + MINUTE) as lab:
        await lab.advance(timedelta(minutes=10))

    at = [NOON + timedelta(minutes=5), NOON + timedelta(minutes=10)]
    assert seen == [("clean", moment, moment) for moment in at]


async def test_an_interval_begins_after_its_initial_delay(app: Horae) -> None:
    """S3-8"""
    app.job("sync", every=60, initial_delay=10)(lambda ctx: None)

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(timedelta(seconds=140))

        assert lab.fired("sync") == ["2030-01-07T12:00:10Z", "2030-01-07T12:01:10Z", "2030-01-07T12:02:10Z"]


async def test_a_fixed_delay_counts_from_the_end_of_each_run(app: Horae) -> None:
    """S3-24, document 003's fixedRate"""

    @app.job("sync", every=60, anchor="finish")
    async def sync(ctx: Context) -> None:
        await lab.sleep(30)

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(timedelta(seconds=200))

        assert lab.fired("sync") == ["2030-01-07T12:00:00Z", "2030-01-07T12:01:30Z", "2030-01-07T12:03:00Z"]


async def test_a_failing_run_stops_neither_its_job_nor_others(app: Horae) -> None:
    """S3-25"""
    app.job("good", cron="* * * * *")(lambda ctx: None)

    @app.job("bad", cron="* * * * *")
    def bad(ctx: Context) -> None:
        raise ValueError("no")

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(3 * MINUTE)

        good, bad_status = app.snapshot()
        assert (good.run_count, good.fail_count, good.last_result) == (3, 0, "SUCCESS")
        assert (bad_status.run_count, bad_status.fail_count, bad_status.last_result) == (3, 3, "FAILED")


async def test_the_logger_of_a_job_carries_its_id(app: Horae) -> None:
    """S3-7"""
    seen: list[str] = []

    @app.job("clean", cron="* * * * *")
    def clean(ctx: Context) -> None:
        seen.append(ctx.logger.logger.name)

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)

    assert seen == ["horae.jobs.clean"]


# -- the lock ----------------------------------------------------------------------------------------------------


async def test_a_job_whose_lock_somebody_holds_waits_for_it_and_loses_no_attempt(app: Horae) -> None:
    """S3-21, S3-27: the lock itself is not waited for; the attempt is put back and asks again."""
    notes = Notes()
    app.listen(notes)
    ran: list[int] = []
    app.job("clean", cron="* * * * *", lock_ttl=60)(lambda: ran.append(1))

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 600):
            await lab.advance(MINUTE + timedelta(seconds=20))

        (job,) = lab.enqueued("clean")
        assert (job.state, job.attempt) == ("queued", 0)
        assert job.last_error == "its lock job:clean is held by another program"
        assert (ran, notes.heard) == ([], [])

        await lab.advance(timedelta(seconds=35))
        await response(lab)
        assert len(ran) == 1
        assert lab.state_of(job) == "succeeded"
        assert {run.outcome for run in lab.runs(job)} == {"snoozed", "succeeded"}
        assert [fire.verdict for fire in lab.fires("clean")] == ["ran"]
        assert [event[0] for event in notes.heard] == ["start", "success"]


async def test_a_job_whose_lock_somebody_holds_is_skipped_when_the_next_one_comes_and_says_so(app: Horae) -> None:
    """S3-21, S3-26, S3-27, C-22"""
    notes = Notes()
    app.listen(notes)
    ran: list[datetime] = []
    app.job("clean", cron="* * * * *", lock_ttl=60)(lambda ctx: ran.append(ctx.planned_at))

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 600):
            await lab.advance(2 * MINUTE + timedelta(seconds=45))
            await response(lab)

        first, second = lab.enqueued("clean")
        assert (first.state, first.last_error, second.state) == ("cancelled", "lock", "queued")
        assert lab.runs(first)[-1].outcome == "skipped"
        assert [(fire.verdict, fire.reason) for fire in lab.fires("clean")] == [("skipped", "lock"), ("ran", None)]
        assert notes.heard == [("skipped", "clean", milliseconds(NOON + MINUTE))]
        (status,) = app.snapshot()
        assert status.run_count == 0

        await lab.advance(timedelta(seconds=14))
        assert ran == [NOON + 2 * MINUTE]


@pytest.mark.parametrize("overlap", ["skip", "queue_one", "allow"])
async def test_of_many_fires_during_somebody_elses_run_the_last_one_runs_and_each_leaves_a_record(
    app: Horae, overlap: Any
) -> None:
    ran: list[datetime] = []
    app.job("clean", cron="* * * * *", overlap=overlap)(lambda ctx: ran.append(ctx.planned_at))

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 6000):
            await lab.advance(31 * MINUTE)
        await lab.advance(timedelta(seconds=59))

        assert ran == [NOON + 31 * MINUTE]
        verdicts = [fire.verdict for fire in lab.fires("clean")]
        assert verdicts == ["skipped"] * 30 + ["ran"]


async def test_a_schedule_without_a_next_fire_waits_for_its_lock_however_long(app: Horae) -> None:
    """Nothing takes its place, so nothing may end it."""
    app.job("sync", every=60, anchor="finish")(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:sync", 6000):
            await lab.advance(60 * MINUTE)
        await lab.advance(MINUTE)

        assert lab.fired("sync")[0] == "2030-01-07T12:00:00Z"
        assert lab.enqueued("sync")[0].state == "succeeded"


@pytest.mark.parametrize("attempts", [1, 3])
async def test_the_lock_of_a_worker_that_died_does_not_stop_the_next_attempt(app: Horae, attempts: int) -> None:
    ran: list[int] = []
    app.job("clean", cron="0 * * * *", lock_ttl=3600, retry=Retry.fixed(0, attempts=attempts))(
        lambda ctx: ran.append(ctx.attempt)
    )

    async with Lab(app, starts_at=NOON) as lab:
        lab.crash_next("clean")
        await lab.advance(60 * MINUTE)
        (job,) = lab.enqueued("clean")
        take_lock(app, job)

        await lab.advance(lab.lease + MINUTE)

        assert (lab.state_of(job), ran) == ("succeeded", [2])
        assert [run.outcome for run in lab.runs(job)] == ["lost", "succeeded"]
        assert [fire.verdict for fire in lab.fires("clean")] == ["ran"]


async def test_the_lock_of_an_attempt_that_failed_without_releasing_it_does_not_stop_its_retry(app: Horae) -> None:
    ran: list[int] = []

    def clean(ctx: Context) -> None:
        ran.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("no")

    app.job("clean", cron="0 * * * *", lock_ttl=3600, retry=Retry.fixed(60, attempts=2))(clean)

    async with Lab(app, starts_at=NOON) as lab:
        lab.crash_next("clean", at="settle.before")
        await lab.advance(60 * MINUTE)
        (job,) = lab.enqueued("clean")
        take_lock(app, job)

        await lab.advance(2 * MINUTE)

        assert ran == [1, 2]
        assert lab.state_of(job) == "succeeded"


async def test_the_lock_of_a_dead_job_does_not_cost_the_fires_after_it(app: Horae) -> None:
    """One kill used to cost every fire until the lock's time had run out."""
    ran: list[datetime] = []
    app.job("clean", cron="* * * * *", lock_ttl=6000)(lambda ctx: ran.append(ctx.planned_at))

    async with Lab(app, starts_at=NOON, lease=timedelta(seconds=10)) as lab:
        for _ in range(3):
            lab.crash_next("clean")
        await lab.advance(MINUTE)
        (job,) = lab.enqueued("clean")
        take_lock(app, job)
        await lab.advance(timedelta(seconds=50))
        assert lab.state_of(job) == "dead"

        await lab.advance(5 * MINUTE)

        assert ran == [NOON + minute * MINUTE for minute in range(2, 7)]


async def test_a_run_of_another_store_on_the_same_lock_manager_is_not_mistaken_for_our_own(app: Horae) -> None:
    """Stores that share one Redis count their jobs alike."""
    app.job("clean", cron="0 * * * *", lock_ttl=6000)(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        job_id = app.trigger("clean")
        await lab.settle()
        assert job_id is not None
        theirs = replace(lab.job(job_id), created_at=NOON - timedelta(days=1))
        take_lock(app, theirs)
        second = app.trigger("clean")
        await lab.settle()

        assert second is not None
        assert lab.state_of(second) == "queued"


def take_lock(app: Horae, job: Job) -> None:
    """Hold the job's lock as its current attempt would, and never release it."""
    manager = cast(AttemptLocks, app.locks)
    assert manager.try_lock_for(f"job:{job.handler}", 3000, LockHolder.of(job), lambda _: False) is not None


async def test_the_lock_is_free_again_after_a_run_that_failed(app: Horae) -> None:
    """S3-21"""

    @app.job("clean", cron="* * * * *")
    def clean(ctx: Context) -> None:
        assert app.locks is not None
        assert app.locks.try_lock("job:clean", 1) is None  # held while it runs
        raise ValueError("no")

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)

        assert (lab.enqueued("clean")[0].last_error or "").startswith("ValueError")
        assert app.locks is not None
        assert app.locks.try_lock("job:clean", 1) is not None


async def test_a_manual_trigger_obeys_the_lock(app: Horae) -> None:
    """S3-30, C-23"""
    app.job("clean", cron="0 3 * * *", enabled=False)(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 600):
            job_id = app.trigger("clean")
            await lab.advance(10 * MINUTE)
            assert job_id is not None
            assert lab.state_of(job_id) == "queued"

        await lab.advance(MINUTE)
        assert lab.state_of(job_id) == "succeeded"


async def test_a_manual_trigger_that_waits_for_the_lock_does_not_yield_to_the_rhythm(app: Horae) -> None:
    """A person asked for it, perhaps with arguments of its own."""
    ran: list[int] = []
    app.job("clean", cron="* * * * *")(lambda size=1: ran.append(size))

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 6000):
            app.trigger("clean", size=5)
            await lab.advance(5 * MINUTE)
        await lab.advance(timedelta(seconds=59))

    assert ran[0] == 5


async def test_a_job_that_a_person_moved_while_it_waited_for_its_lock_yields_no_more(app: Horae) -> None:
    ran: list[datetime] = []
    app.job("clean", cron="* * * * *", overlap="allow")(lambda ctx: ran.append(ctx.planned_at))

    async with Lab(app, starts_at=NOON) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:clean", 6000):
            await lab.advance(MINUTE + timedelta(seconds=10))
            (job,) = lab.enqueued("clean")
            verbs.reschedule(lab.world, job.id, run_at=NOON + 10 * MINUTE)
        await lab.advance(10 * MINUTE)

    assert NOON + MINUTE in ran


async def test_the_lock_of_a_job_that_was_only_enqueued_is_nobodys_business(app: Horae) -> None:
    mail = app.job("mail")(lambda: None)

    async with Lab(app) as lab:
        assert app.locks is not None
        with app.locks.with_lock("job:mail", 600):
            job = mail.enqueue()
            await lab.settle()

        assert lab.state_of(job) == "succeeded"


async def test_a_lock_manager_that_does_not_answer_puts_the_run_off(app: Horae) -> None:
    class Silent:
        def try_lock(self, *_: Any) -> Any:
            from horae.errors import StoreUnavailable

            raise StoreUnavailable("no answer")

        with_lock = try_lock

    app.job("clean", cron="0 3 * * *")(lambda: None)
    async with Lab(app, starts_at=NOON) as lab:
        job_id = app.trigger("clean")
        assert job_id is not None
        app.locks = Silent()
        await lab.settle()
        assert lab.state_of(job_id) == "queued"

        app.locks = "database"
        await lab.advance(timedelta(seconds=5))
        assert lab.state_of(job_id) == "succeeded"


# -- listeners and log -------------------------------------------------------------------------------------------


async def test_listeners_hear_of_start_and_success_with_the_time_of_the_fire(app: Horae) -> None:
    """S3-22, S3-37"""
    first, second = Notes(), Notes()
    app.listen(first)
    app.listen(second)
    app.job("clean", cron="* * * * *")(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)
        await response(lab)

    fire_time = milliseconds(NOON + MINUTE)
    assert first.heard == [("start", "clean", fire_time), ("success", "clean", fire_time, 0)]
    assert second.heard == first.heard


async def test_listeners_hear_of_the_start_before_the_work_begins(app: Horae) -> None:
    """S3-22"""
    notes = Notes()
    app.listen(notes)
    seen: list[int] = []
    app.job("clean", cron="* * * * *")(lambda: seen.append(len(notes.heard)))

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)

    assert seen == [1]


async def test_listeners_hear_of_a_failure_with_the_error_itself(app: Horae) -> None:
    """S3-22, S3-37"""
    notes = Notes()
    app.listen(notes)
    error = ValueError("no")

    @app.job("clean", cron="* * * * *")
    async def clean(ctx: Context) -> None:
        raise error

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)
        await response(lab)

    assert notes.heard[-1] == ("failure", "clean", milliseconds(NOON + MINUTE), 0, error)


async def test_an_error_that_cannot_be_printed_reaches_listeners_as_one_that_can(app: Horae) -> None:
    class ExitsWhenPrinted(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    notes = Notes()
    app.listen(notes)

    @app.job("clean", cron="* * * * *")
    async def clean(ctx: Context) -> None:
        raise ExitsWhenPrinted

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)
        await response(lab)

    assert str(notes.heard[-1][-1]) == "ExitsWhenPrinted: (its text cannot be shown)"


async def test_a_listener_that_fails_breaks_nothing(app: Horae) -> None:
    """S3-37, C-25"""

    class Broken(JobExecutionListener):
        def on_start(self, job_id: str, fire_time: int) -> None:
            raise RuntimeError("broken")

    class Partial:
        async def on_success(self, job_id: str, fire_time: int, duration: int) -> None:
            notes.append(job_id)

    notes: list[str] = []
    app.listen(Broken())
    app.listen(Partial())  # type: ignore[arg-type]
    app.job("clean", cron="* * * * *")(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(MINUTE)
        await response(lab)
        assert lab.enqueued("clean")[0].state == "succeeded"

    assert notes == ["clean"]


async def test_the_log_tells_what_happened_with_the_fields_of_the_document(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    """S3-23; the document's jobId is the handler, because a job is one due item here."""
    app.job("good", cron="* * * * *")(lambda: None)
    app.job("bad", cron="* * * * *")(lambda: 1 / 0)

    with caplog.at_level(logging.INFO, "horae.jobs"):
        async with Lab(app, starts_at=NOON) as lab:
            await lab.advance(MINUTE)

    events = {record.getMessage().split(":")[0]: record for record in caplog.records}
    assert set(events) == {"job.started good", "job.done good", "job.started bad", "job.failed bad"}
    failed = vars(events["job.failed bad"])
    assert (failed["handler"], failed["fire_time"], failed["duration"]) == ("bad", milliseconds(NOON + MINUTE), 0)
    assert failed["error"].startswith("ZeroDivisionError")


# -- changing ----------------------------------------------------------------------------------------------------


async def test_a_disabled_job_does_not_fire_but_can_be_triggered(app: Horae) -> None:
    """S3-30, C-23"""
    ran: list[object] = []
    app.job("clean", cron="* * * * *", enabled=False)(lambda size=1: ran.append(size))

    async with Lab(app, starts_at=NOON) as lab:
        await lab.advance(2 * MINUTE)
        assert ran == []

        app.trigger("clean", size=5)
        await lab.settle()

    assert ran == [5]


async def test_a_trigger_while_it_waits_or_runs_is_skipped(app: Horae) -> None:
    """S3-30"""
    app.job("clean", cron="0 3 * * *")(lambda: None)

    async with Lab(app):
        assert app.trigger("clean") is not None
        assert app.trigger("clean") is None


async def test_a_change_through_a_verb_wins_over_code_and_file_and_survives_a_restart(app: Horae) -> None:
    """C-16, S4-13"""
    app.job("clean", cron="0 3 * * *")(lambda: None)

    async with Lab(app, starts_at=NOON) as lab:
        schedules.change(lab.world, "clean", {"expression": "0 5 * * *"}, actor="ann")
        app.declare_schedules()

        stored = schedules.get(lab.world, "clean")
        assert (stored.expression, stored.sources["expression"], stored.sources["zone"]) == (
            "0 5 * * *",
            "api",
            "default",
        )
        assert app.snapshot()[0].next_fire_time == datetime(2030, 1, 8, 5, tzinfo=UTC)


def test_a_trigger_with_arguments_that_do_not_fit_is_refused_at_once(tmp_path: Path) -> None:
    """S3-51: as with an enqueue, not when it runs."""
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}") as app:
        app.job("clean", every=3600, arguments={"size": 1})(lambda size: None)

        with refused(InvalidArguments, "arguments_unfit", handler="clean"):
            app.trigger("clean", sise=2)
        assert app.trigger("clean", size=2) is not None


async def test_a_trigger_of_an_unknown_job_is_an_error(app: Horae) -> None:
    """S3-30"""
    app.job("clean", cron="0 3 * * *")(lambda: None)

    async with Lab(app):
        with refused(NotFound, "handler_misspelt", close="clean"):
            app.trigger("claen")


async def test_a_job_without_a_schedule_can_be_triggered_too(app: Horae) -> None:
    """C-23: any known definition; not tried again by itself."""
    app.job("mail")(lambda to: f"to {to}")

    async with Lab(app) as lab:
        job_id = app.trigger("mail", to="ann")
        await lab.settle()

        assert job_id is not None
        assert (lab.job(job_id).result, lab.job(job_id).max_attempts) == ("to ann", 1)
