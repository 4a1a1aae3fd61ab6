"""The Lab, seen by somebody who tests an application with it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from horae import Cancel, Context, Horae, Retry, Snooze
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs import queues
from horae.core.jobs.job import Job
from horae.errors import LeaseLost, StoreUnavailable
from horae.testing import Lab
from horae.testing.trace import Happening

MONDAY = datetime(2030, 1, 7, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def events(lab: Lab) -> list[str]:
    return [happening.event for happening in lab.trace]


def instants(lab: Lab, event: str) -> list[timedelta]:
    return [happening.at - MONDAY for happening in lab.trace if happening.event == event]


@pytest.fixture
def app() -> Horae:
    return Horae("sqlite:////dev/null/no.db")


async def test_what_is_enqueued_inside_a_lab_never_reaches_the_applications_own_store(app: Horae) -> None:
    @app.job("greet")
    def greet(name: str) -> str:
        return f"hello {name}"

    async with Lab(app) as lab:
        plain = greet.enqueue("ann")
        awaited = await greet.enqueue_async(name="bob")
        by_name = app.enqueue("greet", name="cid")
        await lab.settle()

        assert [lab.job(job).result for job in (plain, awaited, by_name)] == ["hello ann", "hello bob", "hello cid"]
        assert app.get(plain.id).state == "succeeded"


async def test_after_a_lab_the_application_has_its_own_world_again(tmp_path: object) -> None:
    with Horae(f"sqlite:///{tmp_path}/own.db") as app:
        greet = app.job("greet")(lambda: None)
        own = greet.enqueue()
        async with Lab(app) as lab:
            greet.enqueue()
            assert len(lab.enqueued(greet)) == 1

        assert app.get(own.id).state == "queued"
        assert len(verbs.find(app.world)) == 1


async def test_a_lab_that_ends_with_an_error_gives_the_world_back_too(app: Horae) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Lab(app):
            _ = 1 / 0

    with pytest.raises(StoreUnavailable):  # its own again, which cannot be opened
        _ = app.world


async def test_a_refused_receipt_is_sent_again_after_its_wait_and_not_before(app: Horae) -> None:
    @app.job("send-receipt", retry=Retry.fixed(2, attempts=5))
    async def send_receipt(ctx: Context, order_id: int) -> int:
        return ctx.attempt

    async with Lab(app) as lab:
        with lab.breaking(send_receipt, ConnectionError("mail is down")):
            job = await send_receipt.enqueue_async(order_id=42)
            await lab.settle()
        assert lab.state_of(job) == "queued"
        assert (lab.job(job).last_error or "").startswith("ConnectionError: mail is down")

        await lab.advance(timedelta(seconds=1.999999))
        assert lab.state_of(job) == "queued"

        await lab.advance(timedelta(microseconds=1))
        assert (lab.state_of(job), lab.job(job).result) == ("succeeded", 2)
        assert [run.outcome for run in lab.runs(job)] == ["failed", "succeeded"]


async def test_settle_runs_everything_that_becomes_due_by_running(app: Horae) -> None:
    @app.job("count-down")
    def count_down(left: int) -> None:
        if left:
            handle.enqueue(left - 1)

    handle = count_down
    async with Lab(app) as lab:
        count_down.enqueue(5)
        await lab.settle()

        assert [job.payload["left"] for job in lab.enqueued(count_down)] == [5, 4, 3, 2, 1, 0]
        assert {job.state for job in lab.enqueued(count_down)} == {"succeeded"}
        assert lab.now == MONDAY


async def test_settle_leaves_what_is_due_later_alone(app: Horae) -> None:
    later = app.job("later")(lambda: None)
    async with Lab(app) as lab:
        job = later.using(delay=timedelta(microseconds=1)).enqueue()
        await lab.settle()

        assert lab.state_of(job) == "queued"


async def test_advance_shows_each_handler_exactly_its_own_due_instant(app: Horae) -> None:
    seen: list[tuple[timedelta, timedelta]] = []

    @app.job("look")
    def look(ctx: Context) -> None:
        seen.append((ctx.due_at - MONDAY, app.world.clock.now() - MONDAY))

    async with Lab(app) as lab:
        for minutes in (90, 1, 45, 1, 2000):
            look.using(delay=MINUTE * minutes).enqueue()
        await lab.advance(timedelta(hours=2))

        assert seen == [(MINUTE * minutes, MINUTE * minutes) for minutes in (1, 1, 45, 90)]
        assert lab.now == MONDAY + timedelta(hours=2)


async def test_jobs_due_at_one_instant_run_in_the_order_of_a_claim(app: Horae) -> None:
    order: list[str] = []

    @app.job("say")
    def say(word: str) -> None:
        order.append(word)

    async with Lab(app) as lab:
        say.using(priority="low").enqueue("low")
        say.enqueue("medium")
        say.using(priority="high").enqueue("high")
        say.using(run_at=MONDAY - DAY).enqueue("overdue")
        await lab.settle()

        assert order == ["high", "overdue", "medium", "low"]


async def test_every_queue_is_served_even_one_that_no_handler_names(app: Horae) -> None:
    app.job("one", queue="first")(lambda: None)
    two = app.job("two", queue="second")(lambda: None)
    async with Lab(app) as lab:
        jobs = [two.enqueue(), two.using(queue="third").enqueue(), two.using(queue="far", delay=DAY).enqueue()]
        await lab.advance(DAY)

        assert [lab.state_of(job) for job in jobs] == ["succeeded"] * 3


async def test_one_handler_ends_before_the_next_begins(app: Horae) -> None:
    running, loop = 0, asyncio.get_running_loop()

    async def let_others_run() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    @app.job("sync")
    def sync() -> None:
        nonlocal running
        running += 1
        asyncio.run_coroutine_threadsafe(let_others_run(), loop).result(30)
        assert running == 1
        running -= 1

    @app.job("async", queue="other")
    async def async_() -> None:
        nonlocal running
        running += 1
        await let_others_run()
        assert running == 1
        running -= 1

    async with Lab(app) as lab:
        jobs = [handle.enqueue() for handle in (sync, async_) * 5]
        await lab.settle()

        assert {lab.state_of(job) for job in jobs} == {"succeeded"}


async def test_snooze_cancel_and_a_last_failure_end_as_they_do_in_a_worker(app: Horae) -> None:
    @app.job("sleepy")
    def sleepy(ctx: Context) -> None:
        if app.world.clock.now() < MONDAY + MINUTE:
            raise Snooze(MINUTE)

    @app.job("unwanted")
    def unwanted() -> None:
        raise Cancel("no longer")

    @app.job("hopeless", retry=Retry.none())
    def hopeless() -> None:
        raise ValueError("no")

    async with Lab(app) as lab:
        jobs = [sleepy.enqueue(), unwanted.enqueue(), hopeless.enqueue()]
        await lab.settle()
        assert [lab.state_of(job) for job in jobs] == ["queued", "cancelled", "dead"]

        await lab.advance(MINUTE)
        assert lab.state_of(jobs[0]) == "succeeded"
        assert lab.job(jobs[0]).attempt == 0


async def test_listeners_hear_of_a_death_by_failure_and_by_loss(app: Horae) -> None:
    heard: list[tuple[str, str]] = []
    app.on_dead(lambda job: heard.append((job.id, (job.last_error or "").partition(":")[0])))
    fragile = app.job("fragile", retry=Retry.none())(lambda: None)

    async with Lab(app) as lab:
        with lab.breaking(fragile, ValueError):
            failed = fragile.enqueue()
            await lab.settle()
        lost = fragile.enqueue()
        for _ in range(3):
            lab.crash_next(fragile)
        await lab.advance(timedelta(minutes=5))

        assert heard == [(failed.id, "ValueError"), (lost.id, "worker_died_3_times")]


@pytest.mark.parametrize("point", ["run.before", "settle.before"])
async def test_a_crashed_attempt_is_lost_when_its_lease_runs_out_and_the_next_one_succeeds(
    app: Horae, point: str
) -> None:
    ran: list[int] = []

    @app.job("work")
    def work(ctx: Context) -> None:
        ran.append(ctx.attempt)

    async with Lab(app, lease=timedelta(seconds=10)) as lab:
        job = work.enqueue()
        lab.crash_next(at=point)  # type: ignore[arg-type]
        await lab.settle()
        assert lab.state_of(job) == "running"

        await lab.advance(timedelta(seconds=10))
        assert lab.state_of(job) == "running"  # the lease holds up to and including its last instant

        await lab.advance(timedelta(seconds=1))
        assert lab.state_of(job) == "succeeded"
        assert ran == ([2] if point == "run.before" else [1, 2])
        assert [run.outcome for run in lab.runs(job)] == ["lost", "succeeded"]
        assert events(lab) == ["enqueued", "pulled", "crashed", "lost", "pulled", "acked"]


async def test_work_that_takes_long_keeps_its_lease(app: Horae) -> None:
    long = app.job("long")(lambda: None)
    async with Lab(app, lease=timedelta(seconds=10)) as lab:

        async def for_an_hour() -> None:
            await lab.sleep(timedelta(hours=1))

        with lab.replacing(long, for_an_hour):
            job = long.enqueue()
            await lab.settle()

        assert lab.state_of(job) == "succeeded"
        assert lab.now == MONDAY + timedelta(hours=1)
        assert len(lab.runs(job)) == 1


async def test_the_late_ending_of_a_frozen_process_is_refused_and_the_new_result_stands(app: Horae) -> None:
    charge = app.job("charge", retry=Retry.fixed(1))(lambda: "never")
    async with Lab(app, lease=timedelta(seconds=10)) as lab:
        refusals: list[LeaseLost] = []

        @app.job("thaw")
        async def first_frozen(ctx: Context) -> str:
            if ctx.attempt == 1:
                await lab.freeze(timedelta(minutes=1))
                with pytest.raises(LeaseLost) as refused:
                    ctx.checkpoint("mine")
                refusals.append(refused.value)
                return "old"
            return "new"

        job = first_frozen.enqueue()
        await lab.settle()

        assert lab.job(job).result == "new"
        assert events(lab) == ["enqueued", "pulled", "lost", "refused", "pulled", "acked"]
        assert len(refusals) == 1
        assert lab.enqueued(charge) == []


async def test_a_job_cancelled_while_it_works_is_told_so(app: Horae) -> None:
    async with Lab(app) as lab:

        @app.job("endless")
        async def endless(ctx: Context) -> None:
            verbs.cancel(lab.world, ctx.job_id)
            while not ctx.cancelled:
                await lab.sleep(MINUTE)
            raise Cancel("as asked")

        job = endless.enqueue()
        await lab.settle()

        assert lab.state_of(job) == "cancelled"


async def test_a_paused_queue_waits_and_hides_nothing_that_is_due_elsewhere(app: Horae) -> None:
    mail = app.job("mail", queue="mail")(lambda: None)
    post = app.job("post", queue="post")(lambda: None)
    async with Lab(app) as lab:
        queues.pause_queue(lab.world, "mail", actor="ann")
        waiting, other = mail.enqueue(), post.using(delay=DAY).enqueue()
        await lab.advance(DAY)
        assert (lab.state_of(waiting), lab.state_of(other)) == ("queued", "succeeded")
        assert instants(lab, "acked") == [DAY]

        queues.resume_queue(lab.world, "mail", actor="ann")
        await lab.settle()
        assert lab.state_of(waiting) == "succeeded"


async def test_jobs_with_one_concurrency_key_follow_each_other_even_over_a_crash(app: Horae) -> None:
    @app.job("import", concurrency_key="customer:{customer}")
    def bring_in(customer: int) -> None:
        return None

    async with Lab(app, lease=timedelta(seconds=10)) as lab:
        lab.crash_next(bring_in)
        first, second, other = bring_in.enqueue(1), bring_in.enqueue(1), bring_in.enqueue(2)
        await lab.settle()
        assert [lab.state_of(job) for job in (first, second, other)] == ["running", "queued", "succeeded"]

        await lab.advance(MINUTE)
        assert [lab.state_of(job) for job in (first, second)] == ["succeeded", "succeeded"]


async def test_until_stops_the_clock_where_the_predicate_comes_true(app: Horae) -> None:
    daily = app.job("daily")(lambda: None)
    async with Lab(app) as lab:
        jobs = [daily.using(delay=DAY * day).enqueue() for day in range(1, 10)]

        await lab.until(lambda: lab.state_of(jobs[2]) == "succeeded", within=timedelta(weeks=1))

        assert lab.now == MONDAY + 3 * DAY
        assert lab.state_of(jobs[3]) == "queued"


async def test_until_says_what_happened_last_when_it_never_comes_true(app: Horae) -> None:
    daily = app.job("daily")(lambda: None)
    async with Lab(app) as lab:
        daily.enqueue()

        async def never() -> bool:
            return False

        with pytest.raises(AssertionError, match=r"within 7 days(?s:.*)acked +job_1 daily succeeded"):
            await lab.until(never, within=timedelta(weeks=1))


async def test_work_that_never_ends_at_one_instant_is_an_error_and_not_a_hang(app: Horae) -> None:
    @app.job("again")
    async def again() -> None:
        raise Snooze(0)

    async with Lab(app, max_runs=50) as lab:
        again.enqueue()

        with pytest.raises(AssertionError, match="still work due at 2030-01-07T06:00:00Z"):
            await lab.settle()


async def test_a_handler_cannot_drive_the_lab_that_runs_it(app: Horae) -> None:
    async with Lab(app) as lab:

        @app.job("meddling", retry=Retry.none())
        async def meddling() -> None:
            await lab.advance(DAY)

        job = meddling.enqueue()
        await lab.settle()

        assert "already being driven" in (lab.job(job).last_error or "")
        with pytest.raises(RuntimeError, match="use advance"):
            await lab.sleep(1)


async def test_a_handler_for_a_child_process_runs_here_so_that_it_can_be_broken(app: Horae) -> None:
    @app.job("crunch", executor="process", retry=Retry.none())
    def crunch(number: int) -> int:
        return number**2

    async with Lab(app) as lab:
        fine = crunch.enqueue(7)
        await lab.settle()
        with lab.breaking("crunch", MemoryError):
            broken = crunch.enqueue(8)
            await lab.settle()

        assert (lab.job(fine).result, lab.state_of(broken)) == (49, "dead")


async def test_checkpoints_and_the_ledger_survive_a_crash(app: Horae) -> None:
    charges: list[int] = []

    def charge(_connection: object) -> str:
        charges.append(1)
        return "receipt"

    @app.job("pay")
    async def pay(ctx: Context) -> object:
        receipt = await ctx.once_async("charge", charge)
        before = ctx.last_checkpoint
        await ctx.checkpoint_async({"paid": True})
        await ctx.progress_async(50)
        return [receipt, before]

    async with Lab(app) as lab:
        lab.crash_next(at="settle.before")
        job = pay.enqueue()
        await lab.advance(MINUTE)

        assert lab.job(job).result == ["receipt", {"paid": True}]
        assert charges == [1]


async def test_the_lab_can_stand_on_the_applications_kind_of_database(database_url: str) -> None:
    app = Horae(database_url)
    fragile = app.job("fragile", retry=Retry.fixed(3600))(lambda: None)
    async with Lab(app, database=database_url) as lab:
        with lab.world.store.engine.begin() as connection:  # type: ignore[attr-defined]
            job = fragile.using(connection=connection, queue="elsewhere").enqueue()
        with lab.breaking(fragile, OSError):
            await lab.settle()
        lab.crash_next()
        await lab.advance(DAY)

        assert [run.outcome for run in lab.runs(job)] == ["failed", "lost", "succeeded"]
        assert instants(lab, "acked")[0] - timedelta(hours=1) < MINUTE


# -- the story ---------------------------------------------------------------------------------------------------


async def a_month_of_trials(seed: int) -> tuple[list[Happening], list[Job]]:
    """A shop: orders come in, receipts go out, a reminder each day, mail is down on the second day, workers die."""
    app = Horae("sqlite:////dev/null/no.db")

    @app.job("receipt", queue="mail", retry=Retry.exponential(60, attempts=50))
    async def receipt(ctx: Context, order: int) -> int:
        return order

    @app.job("remind")
    def remind(ctx: Context, day: int) -> None:
        receipt.using(key=f"day:{day}").enqueue(order=1000 + day)
        if day < 30:
            again.using(delay=DAY, key=f"remind:{day + 1}").enqueue(day=day + 1)

    again = remind
    async with Lab(app, starts_at=MONDAY, seed=seed) as lab:
        remind.enqueue(day=1)
        await lab.advance(DAY)
        with lab.breaking(receipt, ConnectionError("mail is down")):
            for order in range(20):
                receipt.using(delay=MINUTE * order, priority="high").enqueue(order=order)
            await lab.advance(timedelta(hours=1))
        lab.crash_next(receipt)
        lab.crash_next(remind, at="settle.before")
        await lab.until(lambda: len(lab.enqueued(remind)) == 30, within=timedelta(days=40))
        await lab.advance(2 * DAY)
        return lab.trace, lab.enqueued(receipt)


async def test_a_story_over_virtual_days_runs_in_milliseconds() -> None:
    began = time.process_time()
    trace, receipts = await a_month_of_trials(seed=1)
    took = time.process_time() - began

    assert trace[-1].at - trace[0].at == timedelta(days=29)
    assert [job.state for job in receipts] == ["succeeded"] * 50
    assert sum(happening.event == "lost" for happening in trace) == 2
    assert took < 5.0  # about half a second; the limit only tells that nobody waited for the month to pass


async def test_the_same_seed_gives_the_same_trace_and_another_seed_another_one() -> None:
    first, _ = await a_month_of_trials(seed=7)
    second, _ = await a_month_of_trials(seed=7)
    third, _ = await a_month_of_trials(seed=8)

    assert first == second
    assert [str(line) for line in first] == [str(line) for line in second]
    assert first != third
