"""Alerts: a death and a queue that nobody serves are told once, however many notice (design 13, dead letters)."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae
from horae.actions import alerts
from horae.actions.alerts import Alerts, look_round
from horae.actions.budgets import budgets
from horae.actions.governance.decisions import decide
from horae.actions.jobs import claims, endings, jobs, machinery, queues
from horae.actions.schedules import schedules
from horae.actions.schedules.fires import trigger
from horae.alerts.rules import QUEUE, sender, watch
from horae.cli.process.server import add_built_in
from horae.core.jobs.job import Filter
from horae.core.jobs.retry import Retry
from horae.errors import StoreUnavailable
from horae.ports.workers import Node
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES, Chore, Janitor
from horae.runtime.database import DatabaseThreads
from horae.settings import Settings
from horae.stores.opening import create_store_engine, open_store
from horae.testing import Lab
from horae.testing.builders import a_request, a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.governed import OWNER, keep
from tests.support.waiting import eventually

URL = "https://ops.example/hooks/horae"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_store(create_store_engine("sqlite://"))
    yield World(store, clock, LoadedDice())
    store.close()


def answer(world: World) -> list[dict[str, Any]]:
    """What has been said to the operator, the oldest first."""
    sent = jobs.find(world, Filter(tag=alerts.TAG))
    assert all((job.handler, job.owner, job.payload["url"]) == ("webhook", "system", URL) for job in sent)
    return [job.payload["body"] for job in reversed(sent)]


def works_app(app: Horae, delivered: list[Any]) -> None:
    @app.job("doomed", retry=Retry.none())
    async def doomed() -> None:
        raise ConnectionError("no route")

    @app.job("webhook", retry=Retry.none())
    async def webhook(url: str, body: Any) -> None:
        delivered.append(body)


async def test_a_death_is_told_once_however_many_notice(app: Horae) -> None:
    delivered: list[Any] = []
    works_app(app, delivered)
    how = watch(app, URL)
    async with Lab(app) as lab:
        job = app.enqueue("doomed")
        await lab.settle()
        for _ in range(3):  # what every worker's janitor does
            look_round(lab.world, how)
        await lab.advance(HOUR / 2)

        [body] = delivered
        assert (body["type"], body["data"]["job_id"], body["data"]["handler"]) == ("job.dead", job.id, "doomed")
        assert "no route" in body["data"]["error"]
        assert len(answer(lab.world)) == 1


def test_a_death_that_no_listener_heard_of_is_told_all_the_same(world: World) -> None:
    """A worker that speaks HTTP fails a job in a process without listeners."""
    jobs.enqueue(world, a_request(owner="alice"))
    [job] = claims.pull(world, worker_id="w", owner="alice")
    endings.fail(world, job.id, job.token, "no", final=True)

    assert look_round(world, Alerts(URL)) == 1
    assert look_round(world, Alerts(URL)) == 0
    assert answer(world)[0]["data"]["owner"] == "alice"


def test_a_second_death_of_a_revived_job_is_news(world: World) -> None:
    enqueued = jobs.enqueue(world, a_request())
    for _ in range(2):
        [job] = claims.pull(world, worker_id="w", queues=["default"], limit=1)
        endings.fail(world, job.id, job.token, "no", final=True)
        look_round(world, Alerts(URL, queue="ops"))
        jobs.revive(world, job.id)

    assert [body["data"]["job_id"] for body in answer(world)] == [enqueued.id, enqueued.id]


async def test_an_alert_that_dies_is_not_told_by_another(app: Horae) -> None:
    @app.job("doomed", retry=Retry.none())
    async def doomed() -> None:
        raise ConnectionError("no route")

    @app.job("webhook")
    async def webhook(url: str, body: Any) -> None:
        raise ConnectionError("the operator sleeps")

    how = watch(app, URL)
    async with Lab(app) as lab:
        app.enqueue("doomed")
        await lab.advance(timedelta(days=1))
        look_round(lab.world, how)

        assert [job.handler for job in jobs.find(lab.world, Filter(states=("dead",)))] == ["webhook", "doomed"]
        assert len(answer(lab.world)) == 1


def test_due_work_that_nobody_takes_is_told_once_an_hour(world: World, clock: VirtualClock) -> None:
    jobs.enqueue_many(world, [a_request(queue="mail") for _ in range(2)])
    how = Alerts(URL, stalled_after=5 * MINUTE)

    clock.advance(5 * MINUTE)
    assert look_round(world, how) == 0
    clock.advance(MINUTE)
    assert [look_round(world, how) for _ in range(3)] == [1, 0, 0]
    assert answer(world)[0]["data"] == {"queue": "mail", "waiting": 2, "oldest_due_at": "2030-01-07T12:00:00Z"}

    clock.advance(HOUR)
    assert look_round(world, how) == 2  # and the queue of the alerts themselves, which nobody serves either
    assert [body["type"] for body in answer(world)] == ["queue.stalled"] * 3


@pytest.mark.parametrize("calm", ["served", "paused", "running", "future"])
def test_a_queue_that_is_cared_for_is_not_stalled(world: World, clock: VirtualClock, calm: str) -> None:
    jobs.enqueue_many(world, [a_request(queue="mail", run_at=NOON + HOUR * (calm == "future")) for _ in range(2)])
    clock.advance(10 * MINUTE)
    if calm == "served":
        world.store.transact(lambda tx: tx.nodes.put(Node("n", "h", 1, "0", NOON, clock.now(), {"mail": 1})))
    elif calm == "paused":
        queues.pause_queue(world, "mail")
    elif calm == "running":  # somebody who does not register, over HTTP, is at it
        claims.pull(world, worker_id="w", queues=["mail"], limit=1)

    assert look_round(world, Alerts(URL)) == 0


def test_a_worker_that_went_silent_serves_nobody(world: World, clock: VirtualClock) -> None:
    jobs.enqueue(world, a_request(queue="mail"))
    world.store.transact(lambda tx: tx.nodes.put(Node("n", "h", 1, "0", NOON, NOON, {"mail": 1})))
    clock.advance(10 * MINUTE)

    assert look_round(world, Alerts(URL)) == 1


def test_an_alert_names_the_secret_that_signs_it(world: World, clock: VirtualClock) -> None:
    jobs.enqueue(world, a_request(queue="mail"))
    clock.advance(10 * MINUTE)

    look_round(world, Alerts(URL, secret="ops", queue="urgent"))

    [alert] = jobs.find(world, Filter(tag=alerts.TAG))
    assert (alert.payload["secret"], alert.queue) == ("ops", "urgent")


async def test_the_janitor_does_chores_in_their_rhythm_and_survives_their_failures(app: Horae) -> None:
    seen: list[World] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(world: World) -> None:
        seen.append(world)
        if len(seen) == 1:
            raise RuntimeError("a bug")
        if len(seen) == 2:
            raise StoreUnavailable("the store rests")
        loop.call_soon_threadsafe(done.set)

    database = DatabaseThreads()
    chores = [Chore("look", timedelta(milliseconds=5), work)]
    lease = timedelta(milliseconds=200)  # it runs out after the store failed
    janitor = Janitor(app.world, database, chores, lease=lease)
    running = asyncio.create_task(janitor.run())
    async with asyncio.timeout(60):
        await done.wait()
    janitor.stop()
    await running
    database.close()

    assert seen[:3] == [app.world] * 3


def test_what_an_application_wants_done_reaches_its_workers(app: Horae) -> None:
    watch(app, URL)

    assert [chore.name for chore in app.worker().settings.chores] == [*(chore.name for chore in CHORES), "alerts"]


@pytest.mark.parametrize(("url", "chores"), [(None, []), (URL, ["alerts"])])
def test_the_environment_says_whether_anybody_is_told(app: Horae, url: str | None, chores: list[str]) -> None:
    settings = Settings.read({"HORAE_ALERT_WEBHOOK_URL": url or "", "HORAE_ALERT_STALLED_AFTER": "10m"})

    add_built_in(app, settings)

    assert settings.alert_stalled_after == 10 * MINUTE
    assert [chore.name for chore in app.chores] == chores


async def test_a_process_that_only_sends_alerts_runs_nothing_else_and_fires_nothing(app: Horae) -> None:
    """S0-20: what `horae server` does beside serving."""
    delivered: list[Any] = []
    works_app(app, delivered)
    app.job("nightly", every=1)(lambda: None)
    watch(app, URL, queue=QUEUE)
    app.declare_schedules()
    other = app.enqueue("doomed")
    doomed = jobs.enqueue(app.world, a_request(queue="mail"))
    [job] = claims.pull(app.world, worker_id="w", queues=["mail"])
    endings.fail(app.world, job.id, job.token, "no", final=True)
    look_round(app.world, Alerts(URL, queue=QUEUE))

    worker = sender(app.world, app.definitions.find, app.chores)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: delivered, "the alert")
    worker.stop()
    await running

    assert [body["data"]["job_id"] for body in delivered] == [doomed.id]
    assert (jobs.get(app.world, other.id).state, jobs.find(app.world, Filter(handler="nightly"))) == ("queued", [])
    assert [chore.name for chore in worker.settings.chores] == ["alerts"]


def test_a_review_that_waits_for_a_person_is_told_once_and_without_its_question(world: World) -> None:
    keep(world, "mem_1", state="stale", risk="high")
    made = decide(world, owner=OWNER, action="pay the secret sum", cites=["memory:mem_1"], actor="token/1")

    assert look_round(world, Alerts(URL)) == 1
    assert look_round(world, Alerts(URL)) == 0
    [body] = answer(world)
    assert (body["type"], body["data"]["review_id"], body["data"]["owner"]) == ("review.opened", made.review, OWNER)
    assert "secret" not in str(body)


def test_a_budget_that_was_exceeded_is_told_once_for_each_period(world: World, clock: VirtualClock) -> None:
    how = Alerts(URL)
    budgets.set_budget(world, "llm", "tokens", 100, owner="alice")
    budgets.adjust(world, "llm", "tokens", 90, owner="alice", reason="within it")
    assert look_round(world, how) == 0
    budgets.adjust(world, "llm", "tokens", 30, owner="alice", reason="beyond it")

    assert (look_round(world, how), look_round(world, how)) == (1, 0)

    [told] = answer(world)
    assert (told["type"], told["data"]["owner"], told["data"]["budget"]) == (
        "budget.overdrawn",
        "alice",
        "llm:tokens:day",
    )
    assert (told["data"]["capacity"], told["data"]["settled"], told["data"]["overdrawn"]) == (100, 120, 20)
    clock.advance(timedelta(days=1))
    look_round(world, how)
    assert [each["type"] for each in answer(world)].count("budget.overdrawn") == 1


def test_a_run_that_is_missing_is_told_once_and_its_recovery_once(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule("hourly", "0 * * * *", expect="within 10m"))
    how = Alerts(URL, stalled_after=24 * HOUR, queue="ops")  # nobody delivers here, which is not the subject
    told = []
    for minutes in (69, 2, 60):
        clock.advance(minutes * MINUTE)
        while machinery.serve_due(world, "keeper"):
            pass
        told.append([look_round(world, how) for _ in range(2)])
    assert told == [[0, 0], [1, 0], [0, 0]]
    trigger(world, "hourly")
    [job] = claims.pull(world, worker_id="w", queues=["default"])
    endings.ack(world, job.id, job.token)
    machinery.serve_due(world, "keeper")
    assert [look_round(world, how) for _ in range(2)] == [1, 0]

    missed, recovered = answer(world)
    assert (missed["type"], recovered["type"]) == ("schedule.missed", "schedule.recovered")
    assert (missed["data"]["schedule"], missed["data"]["due_at"]) == ("hourly", "2030-01-07T13:10:00Z")
    assert (recovered["data"]["missed"], recovered["data"]["recovered_at"]) == (2, "2030-01-07T14:11:00Z")


def test_what_was_missing_before_there_were_alerts_is_not_told_when_it_is_over(
    world: World, clock: VirtualClock
) -> None:
    schedules.create(world, a_schedule("hourly", "0 * * * *", expect="within 10m"))
    clock.advance(70 * MINUTE)
    machinery.serve_due(world, "keeper")
    trigger(world, "hourly")
    [job] = claims.pull(world, worker_id="w", queues=["default"])
    endings.ack(world, job.id, job.token)
    machinery.serve_due(world, "keeper")
    clock.advance(2 * HOUR)
    assert look_round(world, Alerts(URL, stalled_after=24 * HOUR)) == 0
