"""A worker that somebody tries to break."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from horae import Cancel, Context, Horae, Job, Retry
from horae.actions.jobs import claims, queues
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.errors import ConfigurationError, StoreBusy, StoreError, StoreUnavailable
from horae.runtime.worker.attempts import FIRST_WAIT
from horae.runtime.worker.faults import Faults
from tests.runtime.fickle import fickle_world
from tests.runtime.serving import LIMIT, ended, outcomes, running, serving
from tests.support.refusals import refused
from tests.support.waiting import eventually, pass_time, wait_until

NEVER = Retry.none()


# -- the store fails ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), StoreBusy("locked")])
async def test_an_ending_waits_for_the_store_to_come_back(app: Horae, problem: Exception) -> None:
    world, store = fickle_world(app)
    job = app.job("work")(lambda: "done").enqueue()
    store.trouble["settle"] = lambda *_: problem
    with app.using_world(world):
        async with serving(app) as worker:
            await eventually(lambda: store.calls["settle"] >= 3, "three tries")
            assert app.get(job.id).state == "running"
            del store.trouble["settle"]
            done = await ended(app, job)

    assert (done.result, worker.counts["succeeded"]) == ("done", 1)


async def test_endings_whose_rows_are_locked_keep_no_other_ending_waiting(app: Horae) -> None:
    world, store = fickle_world(app)
    gate = threading.Event()
    work = app.job("work", retry=NEVER)(lambda n: n if gate.wait(20) else None)
    jobs = [work.enqueue(n=n) for n in range(8)]
    locked = {job.job.number for job in jobs[:4]}  # more than one round of a batch is ready to wait for

    def wait_in_vain(settlements: Any, *_: Any) -> Exception | None:
        return StoreBusy("locked") if any(s.number in locked for s in settlements) else None

    store.trouble["settle"] = wait_in_vain
    with app.using_world(world):
        async with serving(app, slots=12):
            await eventually(lambda: all(app.get(job.id).state == "running" for job in jobs), "eight running jobs")
            gate.set()
            done = [await ended(app, job) for job in jobs[4:]]
            later = await ended(app, work.enqueue(n=9))
            assert [app.get(job.id).state for job in jobs[:4]] == ["running"] * 4
            locked.clear()
            done += [await ended(app, job) for job in jobs[:4]]

    assert [job.state for job in [*done, later]] == ["succeeded"] * 9


@pytest.mark.parametrize(
    ("refuses", "becomes"), [("the result", "succeeded"), ("the success", "dead")], ids=["the result", "the success"]
)
async def test_an_ending_the_store_refuses_takes_no_neighbour_with_it_and_is_told_in_another_form(
    app: Horae, refuses: str, becomes: str
) -> None:
    """What ran is told as having run, as long as the store takes that at all."""
    world, store = fickle_world(app)
    gate = threading.Event()
    work = app.job("work", retry=NEVER)(lambda n: n if gate.wait(20) else None)
    jobs = [work.enqueue(n=n) for n in range(5)]

    def refuse(settlements: Any, *_: Any) -> Exception | None:
        mine = [s for s in settlements if s.number == jobs[3].number and s.outcome.ending == "succeeded"]
        poison = [s for s in mine if refuses == "the success" or s.outcome.result is not None]
        return StoreError("refused") if poison else None

    store.trouble["settle"] = refuse
    with app.using_world(world):
        async with serving(app, slots=5):
            await eventually(lambda: all(app.get(job.id).state == "running" for job in jobs), "five running jobs")
            gate.set()
            done = [await ended(app, job) for job in jobs]

    assert [job.state for job in done] == ["succeeded"] * 3 + [becomes, "succeeded"]
    assert "StoreError: refused" in (done[3].last_error or "")
    assert [job.last_error for job in done if job is not done[3]] == [None] * 4


@pytest.mark.parametrize("verb", ["claim", "peek"])
@pytest.mark.parametrize("problem", [StoreUnavailable("away"), RuntimeError("a bug"), KeyError("another")])
async def test_the_worker_survives_any_failure_of_its_rounds(app: Horae, verb: str, problem: Exception) -> None:
    world, store = fickle_world(app)
    job = app.job("work")(lambda: "done").enqueue()
    store.trouble[verb] = lambda *_: problem if store.calls[verb] <= 2 else None
    with app.using_world(world):
        async with serving(app):
            assert (await ended(app, job)).result == "done"
            await eventually(lambda: store.calls[verb] >= 3, "another round")


async def test_a_worker_whose_rounds_fail_rests_however_often_it_is_rung(app: Horae) -> None:
    world, store = fickle_world(app)
    store.trouble["claim"] = lambda *_: RuntimeError("a bug")
    with app.using_world(world):
        async with serving(app) as worker:
            await eventually(lambda: store.calls["claim"] >= 2, "two failures")
            for _ in range(200):
                worker._alarm.ring()
                await pass_time(0.001)

            assert store.calls["claim"] < 50, "it rests longer and longer, and is rung 200 times"


async def test_handlers_that_are_long_in_their_ledger_do_not_keep_others_from_being_settled(
    process_app: Horae,
) -> None:
    let_go = threading.Event()

    @process_app.job("long")
    async def long(ctx: Context) -> None:
        await ctx._port.call(lambda: let_go.wait(20))

    async with serving(process_app, slots=10):
        held = [long.enqueue() for _ in range(8)]
        await eventually(lambda: all(process_app.get(job.id).state == "running" for job in held), "eight long handlers")
        done = await ended(process_app, process_app.job("short")(lambda: "done").enqueue())
        let_go.set()

    assert done.result == "done"


async def test_a_worker_can_stop_although_the_store_is_away(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    world, store = fickle_world(app)
    job = app.job("work")(lambda: "done").enqueue()
    store.trouble["settle"] = lambda *_: StoreUnavailable("away")
    with app.using_world(world):
        async with serving(app, grace=0.1, cancel_grace=0.1):
            await eventually(lambda: store.calls["settle"] >= 1, "a try")

    assert app.get(job.id).state == "running"
    assert "unwritten jobs run again when their leases expire" in caplog.text


async def test_an_idle_worker_asks_the_store_hardly_anything(app: Horae) -> None:
    world, store = fickle_world(app)
    with app.using_world(world):
        async with serving(app) as worker:
            await eventually(
                lambda: worker.declared.in_line and store.calls["peek"] >= 1, "the start and the first look"
            )
            asked = [-1, store.calls.total()]
            async with asyncio.timeout(LIMIT):
                while asked[-1] != asked[-2]:  # what belongs to its start may still come; then it is quiet
                    await pass_time(0.3)
                    asked.append(store.calls.total())


# -- what a worker cannot run ------------------------------------------------------------------------------------


async def test_a_job_nobody_can_run_is_kept_with_the_reason_and_looked_at_seldom(app: Horae) -> None:
    world, store = fickle_world(app)
    job = verbs.enqueue(app.world, Request(handler="unheard-of"))
    with app.using_world(world):
        async with serving(app):
            await eventually(lambda: app.get(job.id).last_error, "the reason")
            claims = store.calls["claim"]
            await pass_time(0.2)

            assert store.calls["claim"] - claims <= 3
    kept = app.get(job.id)
    assert (kept.state, kept.attempt) == ("queued", 0)
    assert "knows the handler 'unheard-of'" in (kept.last_error or "")
    assert kept.run_at - kept.planned_at >= FIRST_WAIT * 0.9


NEVER_RENEWED = 600.0  # seconds; whoever hears of a cancellation only when the lease is renewed is too late for `ended`


# -- cancelling --------------------------------------------------------------------------------------------------


async def test_a_running_coroutine_is_cancelled_at_once(app: Horae) -> None:
    @app.job("wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    async with serving(app, lease=NEVER_RENEWED):
        job = wait.enqueue()
        await running(app, job)
        await asyncio.to_thread(verbs.cancel, app.world, job.id, reason="changed my mind")
        done = await ended(app, job)

    assert done.state == "cancelled"


async def test_a_cancellation_from_another_process_arrives_within_a_moment(
    process_app: Horae, sqlite_database_url: str
) -> None:
    @process_app.job("wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    async with serving(process_app, lease=NEVER_RENEWED):
        job = wait.enqueue()
        await running(process_app, job)
        with Horae(sqlite_database_url) as elsewhere:
            await asyncio.to_thread(verbs.cancel, elsewhere.world, job.id)
        done = await ended(process_app, job)

    assert done.state == "cancelled"


@pytest.mark.parametrize(
    ("ending", "state"),
    [("return", "cancelled"), ("raise", "cancelled"), ("Cancel", "cancelled"), ("deaf", "succeeded")],
)
async def test_what_a_thread_that_was_asked_to_stop_means_by_its_ending(app: Horae, ending: str, state: str) -> None:
    asked = threading.Event()

    @app.job("work", retry=Retry.fixed(0, attempts=3))
    def work(ctx: Context) -> str:
        if ending == "deaf":
            asked.wait(20)
            return "done all the same"
        wait_until(lambda: ctx.cancelled)
        if ending == "raise":
            raise RuntimeError("interrupted")
        if ending == "Cancel":
            raise Cancel("as you wish")
        return "stopped early"

    async with serving(app) as worker:
        job = work.enqueue()
        await running(app, job)
        await asyncio.to_thread(verbs.cancel, app.world, job.id)
        await eventually(
            lambda: any(attempt.stop_reason for attempt in worker._held.values()) or ending != "deaf", "the request"
        )
        asked.set()
        done = await ended(app, job)

    assert done.state == state
    assert len(outcomes(app, job)) == 1


async def test_a_coroutine_that_shields_itself_is_waited_for(app: Horae) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    @app.job("shielded", timeout=60)
    async def shielded() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            asked.set()
            await go_on.wait()
        return "finished first"

    async with serving(app):
        job = shielded.enqueue()
        await running(app, job)
        await asyncio.to_thread(verbs.cancel, app.world, job.id)
        await asked.wait()
        assert app.get(job.id).state == "running"
        go_on.set()
        done = await ended(app, job)

    assert (done.state, done.result) == ("succeeded", "finished first")


async def test_a_worker_that_never_runs_dry_still_sees_cancellations_and_lost_leases(app: Horae) -> None:
    @app.job("more")
    async def more() -> None:
        await more.enqueue_async()

    @app.job("wait", queue="slow")
    async def wait() -> None:
        await asyncio.Event().wait()

    lost = app.job("lost", queue="elsewhere")(lambda: None).enqueue()
    claims.pull(app.world, worker_id="dead", queues=["elsewhere"], lease=timedelta(seconds=1))
    async with serving(app, queues={"default": 2, "slow": 1}):
        for _ in range(4):
            more.enqueue()
        job = wait.enqueue()
        await running(app, job)
        await asyncio.to_thread(verbs.cancel, app.world, job.id)

        assert (await ended(app, job)).state == "cancelled"
        await eventually(lambda: app.get(lost.id).state == "queued", "the return of the lost job")
        queues.pause_queue(app.world, "default")


# -- stopping ----------------------------------------------------------------------------------------------------


async def test_outcomes_of_one_claim_are_written_together_although_its_jobs_start_a_few_at_a_time(app: Horae) -> None:
    world, store = fickle_world(app)
    seen: list[int] = []

    @app.job("work")
    async def work(n: int) -> None:
        seen.append(n)

    work.enqueue_many({"n": n} for n in range(60))
    with app.using_world(world):
        async with serving(app, slots=100) as worker:
            await eventually(lambda: worker.counts["succeeded"] == 60, "sixty outcomes")

    assert seen == list(range(60))
    assert store.calls["settle"] <= 2, "a claim of fifty and one of ten"


async def test_a_stopping_worker_claims_nothing_more_and_finishes_what_it_has(app: Horae) -> None:
    go_on = threading.Event()

    @app.job("work")
    def work() -> str:
        go_on.wait(20)
        return "finished"

    async with serving(app, slots=1) as worker:
        job = work.enqueue()
        await running(app, job)
        worker.stop()
        later = work.enqueue()
        go_on.set()
    assert app.get(job.id).result == "finished"
    assert app.get(later.id).state == "queued"


@pytest.mark.parametrize(
    "kind", ["async", "polite thread", "returning coroutine", "raising thread", "deaf thread", "deaf async"]
)
async def test_what_does_not_end_within_the_grace_is_given_back_without_an_attempt(app: Horae, kind: str) -> None:
    let_go = threading.Event()

    async def waits() -> None:
        await asyncio.Event().wait()

    def polite(ctx: Context) -> str:
        wait_until(lambda: ctx.cancelled)
        return "half of it"

    async def returning(ctx: Context) -> str:
        await ctx.until_cancelled()
        return "half of it"

    def raising(ctx: Context) -> None:
        wait_until(lambda: ctx.cancelled)
        raise RuntimeError("interrupted")

    def deaf() -> None:
        let_go.wait(20)

    async def deaf_async() -> None:
        while not let_go.is_set():
            try:
                await eventually(let_go.is_set)
            except asyncio.CancelledError:
                continue

    ways: dict[str, Any] = {
        "async": waits, "polite thread": polite, "returning coroutine": returning, "raising thread": raising,
        "deaf thread": deaf, "deaf async": deaf_async,
    }  # fmt: skip
    job = app.job("work")(ways[kind]).enqueue()
    async with serving(app, grace=0.05, cancel_grace=0.3):
        await running(app, job)

    back = app.get(job.id)
    assert (back.state, back.attempt, back.run_at <= app.world.clock.now()) == ("queued", 0, True)
    assert outcomes(app, job) == ["released"]
    let_go.set()


async def test_a_stopped_worker_takes_its_name_off_the_list(app: Horae) -> None:
    async with serving(app):
        await eventually(lambda: app.world.store.read(lambda tx: tx.nodes.all()), "its name")

    assert app.world.store.read(lambda tx: tx.nodes.all()) == []


async def test_no_task_is_left_behind(app: Horae) -> None:
    before = asyncio.all_tasks()
    async with serving(app):
        await ended(app, app.job("work", retry=NEVER)(lambda: 1 / 0).enqueue())

    assert asyncio.all_tasks() == before


# -- limits ------------------------------------------------------------------------------------------------------


async def test_a_paused_queue_lets_running_jobs_finish_and_starts_no_other(app: Horae) -> None:
    go_on = threading.Event()

    @app.job("work")
    def work() -> None:
        go_on.wait(20)

    async with serving(app, slots=1):
        first, second = work.enqueue(), work.enqueue()
        await running(app, first)
        queues.pause_queue(app.world, "default")
        go_on.set()
        assert (await ended(app, first)).state == "succeeded"
        await pass_time(0.1)
        assert app.get(second.id).state == "queued"
        queues.resume_queue(app.world, "default")

        assert (await ended(app, second)).state == "succeeded"


async def test_no_more_jobs_of_one_key_run_at_once_than_it_allows(app: Horae) -> None:
    at_once: Counter[str] = Counter()
    most: Counter[str] = Counter()
    full = asyncio.Event()

    @app.job("bill", concurrency_key="customer:{name}", concurrency_limit=2)
    async def bill(name: str) -> None:
        at_once[name] += 1
        most[name] = max(most[name], at_once[name])
        if most == {"a": 2, "b": 2}:
            full.set()
        await asyncio.wait_for(full.wait(), LIMIT)
        await pass_time(0.01)  # a third one would be seen
        at_once[name] -= 1

    jobs = [bill.enqueue(name=name) for name in "ab" * 10]
    async with serving(app, slots=10):
        states = {(await ended(app, job)).state for job in jobs}

    assert states == {"succeeded"}
    assert most == {"a": 2, "b": 2}


# -- listeners ---------------------------------------------------------------------------------------------------


async def test_a_listener_is_told_of_a_dead_job_and_no_failure_of_another_keeps_it_from_that(app: Horae) -> None:
    answer: list[Job] = []

    @app.on_dead
    def failing(job: Job) -> None:
        raise RuntimeError("I break everything")

    @app.on_dead
    async def leaving(job: Job) -> None:
        raise SystemExit(1)

    @app.on_dead
    async def cancelling(job: Job) -> None:
        raise asyncio.CancelledError

    @app.on_dead
    async def listening(job: Job) -> None:
        answer.append(job)

    def fails() -> None:
        raise ValueError("for good")

    async with serving(app):
        job = app.job("fail", retry=NEVER)(fails).enqueue()
        await eventually(lambda: answer, "the news")

    assert (answer[0].id, answer[0].state, answer[0].attempt) == (job.id, "dead", 1)
    assert (answer[0].last_error or "").startswith("ValueError: for good")


async def test_a_slow_listener_holds_nothing_up_but_the_news(app: Horae) -> None:
    let_go = threading.Event()

    @app.on_dead
    def slow(job: Job) -> None:
        let_go.wait(20)

    def fails() -> None:
        raise ValueError

    async with serving(app, slots=1):
        await ended(app, app.job("fail", retry=NEVER)(fails).enqueue())
        assert (await ended(app, app.job("work")(lambda: "done").enqueue())).result == "done"
        let_go.set()


# -- planted faults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["nowhere:kill", "settle.before", "settle.before:explode", "settle.before:kill:often"])
def test_a_fault_that_cannot_be_read_is_refused(text: str) -> None:
    with refused(ConfigurationError, "fault_unreadable"):
        Faults(text)


def test_no_fault_strikes_unless_asked_for() -> None:
    faults = Faults("")
    for point in ("claim.after", "run.before", "settle.before", "settle.after"):
        faults.at(point)


# -- how much at a time, and how often ---------------------------------------------------------------------------


async def test_a_worker_claims_no_more_at_a_time_than_its_batch(app: Horae) -> None:
    """S1-22: --batch."""
    world, store = fickle_world(app)
    limits: list[int] = []
    store.trouble["claim"] = lambda claim: limits.append(claim.limit)
    work = app.job("work")(lambda n: n)
    jobs = [work.enqueue(n=n) for n in range(7)]
    with app.using_world(world):
        async with serving(app, slots=20, batch=3):
            done = [await ended(app, job) for job in jobs]

    assert [job.result for job in done] == list(range(7))
    assert set(limits) <= {1, 2, 3}


async def test_a_worker_looks_at_the_store_as_often_as_it_is_told(app: Horae) -> None:
    """S1-20: --poll; without hints from outside it would sleep for a minute."""
    world, store = fickle_world(app)
    with app.using_world(world):
        async with serving(app, look_every=0.1):
            await eventually(lambda: store.calls["peek"] >= 5, "five looks")
