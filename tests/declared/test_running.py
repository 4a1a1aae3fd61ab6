"""Declared jobs in a real worker: every node, locks that are lost, start and end, a store that is away."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from horae import Context, Horae
from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import schedules
from horae.clock import SystemClock, SystemDice
from horae.core.jobs.job import LOCAL, Filter, Run
from horae.errors import ConfigurationError, DefinitionError, StoreUnavailable
from horae.runtime.schedules.locks import LockKeeper
from horae.stores.locks.base import HeldLock
from horae.stores.locks.memory import MemoryLocks
from horae.testing.builders import a_schedule
from horae.testing.clock import LoadedDice, VirtualClock
from tests.declared import program
from tests.support.refusals import refused
from tests.support.waiting import eventually, pass_time


@pytest.fixture
def app(sqlite_database_url: str, tmp_path: Path) -> Horae:
    (tmp_path / "jobs.conf").touch()
    return Horae(sqlite_database_url, name="test", config=tmp_path / "jobs.conf")


@asynccontextmanager
async def another_node(app: Horae) -> AsyncIterator[Horae]:
    """The same jobs in what could be another process."""
    other = Horae(app.database, name=app.name, config=app.config)
    for definition in app.definitions:
        other.definitions.add(definition)
    async with other.running():
        yield other
    other.close()


def local_runs(app: Horae, name: str) -> list[Run]:
    found = verbs.find(app.world, Filter(handler=name), limit=100)
    return [run for job in found for run in verbs.runs(app.world, job.id)]


# -- every node --------------------------------------------------------------------------------------------------


async def test_all_nodes_run_it_each_for_itself_and_say_which(app: Horae) -> None:
    """S3-4, S3-20"""
    ran: list[str] = []
    app.job("temp", every=0.1, mode="ALL_NODES")(lambda ctx: ran.append(ctx.job.worker_id))

    async with app.running(), another_node(app):
        await eventually(lambda: len(set(ran)) == 2 and len(ran) >= 6)

    recorded = local_runs(app, "temp")
    assert {run.worker_id for run in recorded} == set(ran)
    assert {run.outcome for run in recorded} == {"succeeded"}


async def test_all_nodes_touch_no_lock(app: Horae) -> None:
    """S3-4, S3-44"""
    ran: list[int] = []
    app.locks = None
    app.job("temp", every=0.05, mode="ALL_NODES")(lambda: ran.append(1))

    async with app.running():
        await eventually(lambda: len(ran) >= 2)


async def test_a_local_job_never_overlaps_itself(app: Horae) -> None:
    """S3-24"""
    running = most = ran = 0

    @app.job("temp", every=0.01, mode="ALL_NODES")
    async def temp(ctx: Context) -> None:
        nonlocal running, most, ran
        running, ran = running + 1, ran + 1
        most = max(most, running)
        await pass_time(0.03)
        running -= 1

    async with app.running():
        await eventually(lambda: ran >= 5)

    assert most == 1


async def test_a_local_job_that_fails_goes_on(app: Horae) -> None:
    """S3-25"""
    ran: list[int] = []

    @app.job("temp", every=0.05, mode="ALL_NODES")
    def temp() -> None:
        ran.append(1)
        raise ValueError("no")

    async with app.running():
        await eventually(lambda: len(ran) >= 3)

    (status,) = app.snapshot()
    assert (status.last_result, status.fail_count >= 3) == ("FAILED", True)


async def test_switching_a_local_job_off_through_a_verb_reaches_every_node(app: Horae) -> None:
    """S3-42, C-16"""
    ran: list[int] = []
    app.job("temp", every=0.05, mode="ALL_NODES")(lambda: ran.append(1))

    async with app.running():
        await eventually(lambda: ran)
        await asyncio.to_thread(schedules.change, app.world, "temp", {"enabled": False})

        async def is_still() -> bool:
            before = len(ran)
            await pass_time(0.3)
            return len(ran) == before

        await eventually(is_still)


async def test_a_job_of_every_node_that_becomes_one_of_a_single_node_loses_its_timers(app: Horae) -> None:
    """S3-4, S3-16: changed in the file while it runs, by the only local job there is."""
    kinds: list[bool] = []
    app.job("temp", every=0.05, mode="ALL_NODES")(lambda ctx: kinds.append(ctx.job.queue == LOCAL))

    async with app.running() as hosted:
        await eventually(lambda: any(kinds))
        assert app.config is not None
        Path(app.config).write_text('[[jobs.items]]\nid = "temp"\nmode = "SINGLE_NODE"\n')
        assert hosted.worker is not None
        hosted.worker.reload()
        await eventually(lambda: not all(kinds))
        await eventually(lambda: len(kinds) > 20 and not any(kinds[-10:]))


async def test_a_job_that_a_verb_gives_to_every_node_runs_on_every_node(app: Horae) -> None:
    """S3-46: declared for one node, or made through a verb."""
    ran: list[str] = []
    app.job("temp", cron="0 3 1 1 *")(lambda ctx: ran.append(ctx.job.queue))
    app.declare_schedules()
    schedules.create(app.world, a_schedule("made", "0.05", kind="every", handler="temp", mode="ALL_NODES"))

    async with app.running() as hosted:
        await eventually(lambda: ran)
        schedules.delete(app.world, "made")
        schedules.change(app.world, "temp", {"mode": "ALL_NODES", "kind": "every", "expression": "0.05"})
        assert hosted.worker is not None
        hosted.worker.reload()
        ran.clear()
        await eventually(lambda: len(ran) > 5)

    assert set(ran) == {LOCAL}


@pytest.mark.parametrize("bounds", [{"starts_at": timedelta(days=1)}, {"ends_at": timedelta(days=-1)}], ids=str)
@pytest.mark.parametrize("rule", [{"every": 0.05}, {"cron": "* * * * * *"}], ids=str)
async def test_a_local_job_keeps_to_its_bounds(app: Horae, bounds: dict[str, timedelta], rule: Any) -> None:
    ran: list[str] = []
    now = app.world.clock.now()
    instants: dict[str, Any] = {name: now + away for name, away in bounds.items()}
    app.job("bound", mode="ALL_NODES", **rule, **instants)(lambda: ran.append("bound"))
    app.job("free", mode="ALL_NODES", **rule)(lambda: ran.append("free"))

    async with app.running():
        await eventually(lambda: len(ran) > 1)

    assert set(ran) == {"free"}


async def test_a_local_job_gets_its_dependencies_and_cleans_up(app: Horae) -> None:
    class Tokens: ...

    seen: list[object] = []
    app.provide(Tokens, Tokens())

    @app.job("temp", every=0.05, mode="ALL_NODES")
    class Temp:
        def __init__(self, tokens: Tokens) -> None:
            self.tokens = tokens

        def run(self, ctx: Context) -> None:
            seen.append(self.tokens)

    async with app.running():
        await eventually(lambda: seen)


# -- the lock ----------------------------------------------------------------------------------------------------


def test_single_node_without_a_lock_manager_fails_at_the_start_and_says_how_to_fix_it(app: Horae) -> None:
    """S3-28, C-39: disabled ones too, because a trigger runs them."""
    app.locks = None
    app.job("clean", cron="0 3 * * *", enabled=False)(lambda: None)

    with refused(DefinitionError, "declarations_invalid", reasons=["single_node_without_locks"]):
        app.worker()


def test_a_lock_manager_by_an_unknown_name_is_refused(app: Horae) -> None:
    app.locks = "zookeeper"

    with refused(ConfigurationError, "locks_unknown"):
        _ = app.locks


async def test_a_lock_is_kept_longer_than_it_was_set_for(app: Horae) -> None:
    """S3-47"""
    held: list[bool] = []

    @app.job("long", cron="0 3 * * *", lock_ttl=3)
    async def long(ctx: Context) -> None:
        await pass_time(4)
        assert app.locks is not None
        held.append(await asyncio.to_thread(app.locks.try_lock, "job:long", 1) is None)

    async with app.running():
        job_id = await asyncio.to_thread(app.trigger, "long")
        await eventually(lambda: held)
        assert job_id is not None
        await eventually(lambda: app.get(job_id).state == "succeeded")

    assert held == [True]


@pytest.mark.parametrize("is_async", [True, False])
async def test_losing_the_lock_stops_the_run_and_gives_it_back(
    app: Horae, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    attempts: list[int] = []

    async def patient(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            started.set()
            await asyncio.Event().wait()

    def blocking(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            loop.call_soon_threadsafe(started.set)
            while not ctx.cancelled:
                pass

    app.job("long", cron="0 3 * * *", lock_ttl=0.3)(patient if is_async else blocking)

    async with app.running():
        job_id = await asyncio.to_thread(app.trigger, "long")
        assert job_id is not None
        await started.wait()
        await asyncio.to_thread(_steal_locks, app)
        await eventually(lambda: app.get(job_id).state == "succeeded")

    first = verbs.runs(app.world, job_id)[0]
    assert (first.outcome, (first.error or "").partition(":")[0]) == ("released", "LockLost")
    assert attempts == [1, 1]
    assert "was lost while its job was running" in caplog.text


def _steal_locks(app: Horae) -> None:
    with app.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE horae_locks SET token = 'somebody else'")


@pytest.mark.parametrize("answers", [True, False], ids=["raises what we know", "raises what we do not know"])
async def test_an_attempt_whose_lock_manager_is_away_is_put_off_and_not_counted(app: Horae, answers: bool) -> None:
    class Away:
        def try_lock(self, *_: Any) -> Any:
            raise StoreUnavailable("no answer") if answers else OSError("no answer")

        with_lock = try_lock

    app.job("clean", cron="0 3 * * *")(lambda: None)
    app.locks = Away()
    async with app.running():
        job_id = await asyncio.to_thread(app.trigger, "clean")
        assert job_id is not None
        await eventually(lambda: "no answer" in (app.get(job_id).last_error or ""))

    assert (app.get(job_id).state, app.get(job_id).attempt) == ("queued", 0)


async def test_a_job_cancelled_while_it_asks_for_its_lock_leaves_none_behind(app: Horae) -> None:
    asked, go_on = threading.Event(), threading.Event()
    locks = MemoryLocks(SystemClock(), SystemDice(), lambda _: None)

    class Slow:
        def try_lock(self, key: str, ttl: Any, *_: Any) -> Any:
            asked.set()
            go_on.wait(20)
            return locks.try_lock(key, ttl)

        with_lock = try_lock

    app.job("clean", cron="0 3 * * *", lock_ttl=600)(lambda: None)
    app.locks = Slow()
    async with app.running():
        job_id = await asyncio.to_thread(app.trigger, "clean")
        assert job_id is not None
        await asyncio.to_thread(asked.wait, 20)
        await asyncio.to_thread(verbs.cancel, app.world, job_id)
        await eventually(lambda: app.get(job_id).state == "cancelled")
        go_on.set()
        await eventually(lambda: locks.try_lock("job:clean", 1) is not None)


class Keeping:
    """A keeper whose thread is the test, with one lock of 30 seconds in memory."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.keeper = LockKeeper(self.clock)
        self.keeper._thread = object()  # type: ignore[assignment]
        self.locks = MemoryLocks(self.clock, LoadedDice(1), lambda _: None)
        self.lost: list[str] = []
        self.lock = self.hold("job:x")

    def hold(self, key: str) -> HeldLock:
        lock = self.locks.try_lock(key, 30)
        assert lock is not None
        self.keeper.hold(lock, timedelta(seconds=30), lambda: self.lost.append(key))
        return lock

    def step_after(self, seconds: float) -> float | None:
        self.clock.advance(timedelta(seconds=seconds))
        return self.keeper.step()


def test_a_lock_that_cannot_be_extended_is_believed_in_until_its_time_is_surely_over() -> None:
    keeping = Keeping()
    assert keeping.step_after(10) == 10.0
    keeping.locks.move = _refuse  # type: ignore[method-assign, assignment]

    keeping.step_after(10)
    keeping.step_after(18)
    assert keeping.lost == []
    assert keeping.step_after(1) == 1.0  # asked again when its time is over, not later
    keeping.step_after(1)

    assert keeping.lost == ["job:x"]


def test_while_the_lock_manager_is_away_one_lock_is_asked_about_and_none_is_kept_too_long() -> None:
    """Each call may take seconds: with many locks the last would be believed in long after its time."""
    keeping = Keeping()
    for number in range(10):
        keeping.hold(f"job:{number}")
    calls: list[int] = []

    def hangs(*_: Any) -> bool:
        calls.append(1)
        keeping.clock.advance(timedelta(seconds=5))
        raise StoreUnavailable("no answer")

    keeping.locks.move = hangs  # type: ignore[method-assign, assignment]
    keeping.step_after(10)
    assert len(calls) == 1
    keeping.step_after(20)

    assert len(keeping.lost) == 11


def test_a_lock_that_the_manager_forgot_before_its_time_is_put_back() -> None:
    keeping = Keeping()
    keeping.locks._held.clear()

    assert keeping.step_after(10) == 10.0
    assert (keeping.lost, keeping.locks.try_lock("job:x", 1)) == ([], None)


def test_a_lock_that_was_let_go_while_it_was_being_put_back_is_free() -> None:
    keeping = Keeping()
    put = keeping.locks.put

    def released_meanwhile(*arguments: Any) -> bool:
        keeping.keeper.drop(keeping.lock)
        keeping.lock.release()
        return put(*arguments)

    keeping.locks._held.clear()
    keeping.locks.put = released_meanwhile  # type: ignore[method-assign, assignment]
    keeping.step_after(10)
    keeping.locks.put = put  # type: ignore[method-assign]

    assert keeping.locks.try_lock("job:x", 1) is not None


def _refuse(*_: Any) -> bool:
    raise StoreUnavailable("no answer")


# -- start and end -----------------------------------------------------------------------------------------------


async def test_shutdown_waits_for_what_runs_then_cancels_it(app: Horae) -> None:
    """S3-18, S3-29"""
    story: list[str] = []
    stopping = asyncio.Event()

    @app.job("short", every=3600)
    async def short(ctx: Context) -> None:
        story.append("began")
        await stopping.wait()
        story.append("short ended")

    @app.job("endless", every=3600)
    async def endless(ctx: Context) -> None:
        try:
            story.append("began")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            story.append("endless cancelled")
            raise

    await app.start()
    await eventually(lambda: len(story) == 2)
    asyncio.get_running_loop().call_later(0.1, stopping.set)
    await app.shutdown(timeout=4)

    assert story[2:] == ["short ended", "endless cancelled"]


async def test_shutdown_cancels_a_local_run_after_the_timeout_too(app: Horae) -> None:
    started = asyncio.Event()

    @app.job("temp", every=3600, mode="ALL_NODES")
    async def temp(ctx: Context) -> None:
        started.set()
        await asyncio.Event().wait()

    await app.start()
    await started.wait()
    await app.shutdown(timeout=0.2)

    assert [run.outcome for run in local_runs(app, "temp")] == ["cancelled"]


async def test_an_application_runs_once_in_a_process(app: Horae) -> None:
    async with app.running():
        with refused(ConfigurationError, "application_already_running"):
            await app.start()


async def test_bad_declarations_are_fatal_at_the_start(app: Horae) -> None:
    """C-17"""
    Path(str(app.config)).write_text('[[jobs.items]]\nid = "nobody"\n')

    with refused(DefinitionError, "declarations_invalid", reasons=["file_job_unknown"]):
        await app.start()


async def test_a_store_that_is_away_at_the_start_is_waited_for(
    app: Horae, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C-17, S4-25"""
    ran: list[int] = []
    app.job("clean", every=3600)(lambda: ran.append(1))
    is_away = True
    opened = app._open

    def maybe() -> Any:
        if is_away:
            raise StoreUnavailable("the database is asleep")
        return opened()

    monkeypatch.setattr(app, "_open", maybe)

    hosted = await app.start()
    assert hosted.trouble == "the database is asleep"
    assert "the store does not answer" in caplog.text
    is_away = False
    await eventually(lambda: ran)
    await eventually(lambda: hosted.trouble is None)
    await app.shutdown()


async def test_a_reload_takes_the_changed_file_over(app: Horae) -> None:
    app.job("clean", cron="0 3 * * *")(lambda: None)
    async with app.running() as hosted:
        await eventually(lambda: app.snapshot()[0].next_fire_time)
        Path(str(app.config)).write_text('[[jobs.items]]\nid = "clean"\nenabled = false\n')
        assert hosted.worker is not None
        hosted.worker.reload()

        await eventually(lambda: app.snapshot()[0].next_fire_time is None)


async def test_a_reload_of_a_broken_file_changes_nothing_and_says_so(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    app.job("clean", cron="0 3 * * *")(lambda: None)
    async with app.running() as hosted:
        await eventually(lambda: hosted.worker is not None and hosted.worker.declared.in_line)
        Path(str(app.config)).write_text("[jobs")
        assert hosted.worker is not None
        hosted.worker.reload()
        await eventually(lambda: "the previous plan stays in force" in caplog.text)

    Path(str(app.config)).write_text("")
    assert app.snapshot()[0].next_fire_time is not None


async def test_a_wrong_file_does_not_bring_back_what_a_right_one_has_changed_since(
    app: Horae, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process took the right file over; this one has never read it."""
    app.job("clean", cron="0 3 * * *")(lambda: None)
    file = Path(str(app.config))

    async with app.running() as hosted:
        await eventually(lambda: hosted.worker is not None and hosted.worker.declared.in_line)
        file.write_text('[[jobs.items]]\nid = "clean"\ncron = "0 4 * * *"\n')
        await asyncio.to_thread(app.declare_schedules)
        file.write_text("[jobs\n")
        assert hosted.worker is not None
        hosted.worker.reload()
        await eventually(lambda: "the previous plan stays in force" in caplog.text)
        await eventually(lambda: hosted.worker is not None and hosted.worker.declared.in_line)

    assert schedules.get(app.world, "clean").expression == "0 4 * * *"


def test_a_web_application_serves_jobs_while_it_runs(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "horae.jobs")
    greet = app.job("greet")(lambda name: f"hello {name}")
    web = FastAPI(lifespan=app.lifespan)

    @web.post("/greet/{name}")
    def greet_by_and_by(name: str) -> str:
        return greet.enqueue(name=name).id

    with TestClient(web) as client:
        job_id = client.post("/greet/ann").json()
        asyncio.run(eventually(lambda: app.get(job_id).state == "succeeded"))

    assert app.get(job_id).result == "hello ann"


@pytest.mark.slow
async def test_a_class_gets_its_dependencies_in_a_child_process_too(sqlite_database_url: str) -> None:
    app = program.app
    app.database = sqlite_database_url
    async with app.running():
        job_id = await asyncio.to_thread(app.trigger, "greet", name="bob")
        assert job_id is not None
        await eventually(lambda: app.get(job_id).state != "queued" and app.get(job_id).state != "running")
    result = app.get(job_id).result
    app.close()

    assert result[:3] == ["hello", "bob", "greet"]
    assert result[3] != os.getpid()
