"""The keeper: one process at a time does a chore, another takes over, and a server without workers keeps its store."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from horae import Horae
from horae.actions import chores as turns
from horae.actions.access.tokens import create_token
from horae.actions.attention.queries import find_tasks
from horae.actions.audit import find_entries, verify_audit
from horae.actions.chores import HeldChore
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.attention import Attention, Wait
from horae.client import Client
from horae.clock import SystemDice
from horae.core.jobs.job import Filter, Outcome, settlement
from horae.errors import StoreUnavailable
from horae.ports.claims import Claim
from horae.ports.workers import Upcoming
from horae.ports.world import World
from horae.runtime.chores.janitor import CHORES, Chore, Janitor
from horae.runtime.chores.keeper import Keeper, keeping
from horae.runtime.database import DatabaseThreads
from horae.server.process import ServiceServer
from horae.server.socket import listen, url_of
from horae.settings import Settings
from horae.stores.schema import migrate
from horae.testing.clock import LoadedDice, VirtualClock
from tests.runtime.fickle import fickle_world
from tests.runtime.keeping import LEASE, NAME
from tests.support.waiting import eventually, wait_until

MOMENT, SECOND, DAY = timedelta(milliseconds=2), timedelta(seconds=1), timedelta(days=1)
OPEN = Upcoming(None, None, unsealed=True)
IDLE = Upcoming(None, None)


class PromptDice(SystemDice):
    """Chance that begins everything at once."""

    def roll(self) -> float:
        return 0.0


class Work:
    """Counts its steps, and notices when two of them overlap."""

    def __init__(self, left: int = 0) -> None:
        self.steps, self.left, self.overlaps = 0, left, 0
        self._busy = threading.Lock()

    def __call__(self, _: World) -> bool:
        if not self._busy.acquire(blocking=False):
            self.overlaps += 1
            return False
        try:
            self.steps += 1
            self.left -= 1
            return self.left > 0
        finally:
            self._busy.release()


@contextmanager
def threads() -> Iterator[DatabaseThreads]:
    database = DatabaseThreads()
    yield database
    database.close()


async def run_until(holds: Callable[[], object], *janitors: Janitor) -> None:
    tasks = [asyncio.create_task(each.run()) for each in janitors]
    await eventually(holds)
    for each in janitors:
        each.stop()
    await asyncio.gather(*tasks)


# -- turns ---------------------------------------------------------------------------------------------------------


async def test_two_keepers_never_do_the_same_chore_at_once(database_url: str, app_on: Callable[[str], Horae]) -> None:
    work = Work()
    with threads() as first, threads() as second:
        janitors = [
            Janitor(app_on(database_url).world, database, [Chore("count", MOMENT, work)], name=name)
            for name, database in (("a", first), ("b", second))
        ]
        await run_until(lambda: work.steps >= 20, *janitors)

    assert work.overlaps == 0


async def test_a_chore_goes_on_until_nothing_is_left_and_others_get_their_turn(app: Horae) -> None:
    long, order = Work(left=30), []

    def count(world: World) -> bool:
        order.append("long")
        return long(world)

    chores = [Chore("long", DAY, count), Chore("short", MOMENT, lambda _: order.append("short"))]
    with threads() as database:
        world = World(app.world.store, app.world.clock, PromptDice())
        await run_until(lambda: long.left == 0 and "short" in order, Janitor(world, database, chores))

    assert order.count("long") == 30
    assert "short" in order[: order.index("long") + 32]


async def test_a_chore_with_a_condition_is_done_only_when_a_look_says_so(app: Horae) -> None:
    work, other = Work(), Work()
    chore = Chore("seal", MOMENT, work, when=lambda upcoming: upcoming.unsealed)
    world, store = fickle_world(app)
    with threads() as database:
        janitor = Janitor(world, database, [chore])
        janitor.expect(IDLE)
        beside = Janitor(app.world, database, [Chore("other", MOMENT, other)])
        running = asyncio.create_task(janitor.run())
        await run_until(lambda: other.steps >= 10, beside)
        assert (work.steps, store.calls.total()) == (0, 0)

        janitor.expect(OPEN)
        await eventually(lambda: work.steps == 1)
        janitor.expect(OPEN)
        await eventually(lambda: work.steps == 2)
        janitor.stop()
        await running


async def test_a_chore_that_nobody_waits_for_is_put_off_by_a_process_that_starts(app: Horae) -> None:
    put_off, at_once = Work(), Work()
    chores = [
        Chore("label", DAY, put_off, when=lambda upcoming: upcoming.unsealed, spread=True),
        Chore("seal", MOMENT, at_once, when=lambda upcoming: upcoming.unsealed),
    ]
    clock = VirtualClock()
    with threads() as database:
        janitor = Janitor(World(app.world.store, clock, LoadedDice()), database, chores)
        janitor.expect(OPEN)
        running = asyncio.create_task(janitor.run())
        await eventually(lambda: at_once.steps == 1)
        assert put_off.steps == 0

        clock.advance(timedelta(minutes=1))
        janitor.expect(OPEN)
        await eventually(lambda: put_off.steps == 1)
        janitor.stop()
        await running


async def test_a_process_that_froze_in_a_step_does_no_further_one(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    steps: list[object] = []
    lease = timedelta(milliseconds=200)

    async def freeze(world: World) -> int:
        """Stop the whole loop, so that nothing is renewed, until another process has taken the chore over."""
        steps.append("begun")
        held: list[HeldChore | timedelta] = [timedelta(0)]

        def is_taken_over() -> bool:
            held[0] = take(world)
            return isinstance(held[0], HeldChore)

        wait_until(is_taken_over)
        steps.append(held[0])
        return 1  # there would be more

    def take(world: World) -> HeldChore | timedelta:
        return turns.take(world, "freeze", holder="heir", every=DAY, lease=timedelta(hours=1))

    with threads() as database:
        janitor = Janitor(app.world, database, [Chore("freeze", MOMENT, freeze)], lease=lease)
        await run_until(lambda: "lost the chore freeze" in caplog.text, janitor)

    assert steps[0] == "begun"
    assert len(steps) == 2
    assert turns.extend(app.world, steps[1], lease=lease), "what the late process wrote was refused"  # type: ignore[arg-type]


async def test_a_step_that_takes_longer_than_its_lease_stays_ours_while_the_process_lives(app: Horae) -> None:
    lease, refused = timedelta(seconds=2), list[HeldChore | timedelta]()

    def work(world: World) -> None:
        ends = world.clock.monotonic() + 1.5 * lease.total_seconds()
        wait_until(lambda: world.clock.monotonic() > ends)
        refused.append(turns.take(world, "slow", holder="other", every=DAY, lease=lease))

    with threads() as database:
        await run_until(lambda: refused, Janitor(app.world, database, [Chore("slow", MOMENT, work)], lease=lease))

    assert isinstance(refused[0], timedelta)


async def test_a_store_that_is_away_is_reported_once(app: Horae, caplog: pytest.LogCaptureFixture) -> None:
    world, store = fickle_world(app)
    store.trouble["take_chore"] = lambda *_: StoreUnavailable("away")
    store.trouble["peek"] = lambda *_: StoreUnavailable("away")
    work = Work()
    chores = [Chore(str(number), MOMENT, work) for number in range(5)]

    def make(world: World, database: DatabaseThreads, name: str, *, is_further: bool = False) -> Keeper:
        return Keeper(world, database, name, chores, lambda _: None)

    async with keeping(lambda: world, make, PromptDice()):
        await eventually(lambda: store.calls["take_chore"] > 50 and store.calls["peek"] > 3)
        warned = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
        store.trouble.clear()
        await eventually(lambda: work.steps > 0)

    assert len([line for line in warned if "chores wait for the store" in line]) == 1
    assert len([line for line in warned if "not looked after" in line]) == 1


async def test_an_application_does_its_own_chores_beside_those_of_another(app: Horae) -> None:
    other = Horae(app.engine, name="other")
    for each in (app, other):
        each.chores.append(Chore("refresh", SECOND, lambda _: True))

    names = [chore.lock for each in (app, other) for chore in each.worker().settings.chores if chore.name == "refresh"]
    assert len(set(names)) == 2


# -- death ---------------------------------------------------------------------------------------------------------


def start(url: str, file: Path, manner: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.keeping", url, str(file), manner])


def test_when_a_keeper_is_killed_another_process_takes_over(
    database_url: str, app_on: Callable[[str], Horae], tmp_path: Path
) -> None:
    app, file = app_on(database_url), tmp_path / "lines"
    file.touch()
    first = start(database_url, file, "holds")
    started = [first]
    try:
        wait_until(lambda: file.read_text().splitlines() == [str(first.pid)])
        second = start(database_url, file, "returns")
        started.append(second)
        refused = turns.take(app.world, NAME, holder="test", every=DAY, lease=LEASE)
        assert isinstance(refused, timedelta), "it is held, however long its step takes"
        first.send_signal(signal.SIGKILL)
        first.wait(20)
        wait_until(lambda: file.read_text().splitlines().count(str(second.pid)) >= 3)
        assert file.read_text().splitlines()[0] == str(first.pid)
        assert second.poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait(20)


# -- a server without workers ----------------------------------------------------------------------------------------


@contextmanager
def served(app: Horae, **settings: str) -> Iterator[str]:
    """``horae server`` in a thread: what runs beside the service runs here too."""
    service = app.asgi(Settings.read(settings))
    listening, listens = listen("127.0.0.1", 0), threading.Event()
    server = ServiceServer(service, listening, grace=timedelta(seconds=5), started=listens.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.run_until_stopped()), daemon=True)
    thread.start()
    try:
        assert listens.wait(30)
        yield url_of(listening)
    finally:
        server.stop()
        thread.join(30)
        listening.close()
        assert not thread.is_alive(), "the server ends within its grace"


def old_run(world: World, ended_at: datetime) -> str:
    """A job that ended long ago."""
    made = jobs.enqueue(world, Request("greet", queue="old"))
    [job] = world.store.claim(Claim("old", 1, "w", SECOND), now=world.clock.now())
    world.store.settle([settlement(job, Outcome("succeeded"), now=ended_at, roll=0.5)], now=ended_at)
    return made.id


def exists(world: World, job_id: str) -> bool:
    return bool(jobs.find(world, Filter(states=("succeeded",), queue="old"))) and bool(job_id)


def test_a_server_without_workers_keeps_its_store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_KEEP_RUNS", "1h")
    with Horae(database_url, dice=PromptDice()) as app:
        migrate(app.engine)
        world = app.world
        gone = old_run(world, world.clock.now() - DAY)
        assert exists(world, gone)
        text = create_token(world, owner="system", scopes=["admin"], title="test", actor="test")[1]
        agent = Attention("ops", app)
        agent.cognition("sleepy")(lambda turn: Wait("bell", timeout=SECOND))
        agent.add("sleepy")
        agent.run(until="idle")
        [waits] = find_tasks(world, "ops")
        assert waits.state == "waiting"

        with served(app) as url, Client(url, text) as client:
            client.schedules.create("tick", every=SECOND, handler="greet", queue="ticks")
            held = client.jobs.enqueue("greet", queue="lost").id
            [claimed] = client.jobs.claim("silent-worker", queues=["lost"], lease=SECOND)
            assert claimed.id == held

            wait_until(lambda: list(client.jobs.list(queue="ticks")))
            wait_until(lambda: client.jobs.get(held).state == "queued")
            assert "lost" in (client.jobs.get(held).last_error or "")
            wait_until(lambda: [task.state for task in find_tasks(world, "ops")] == ["ready"])
            wait_until(lambda: not exists(world, gone))
            wait_until(lambda: not world.store.peek([]).unsealed)
    assert [found.complaints for found in verify(app)] == [()]


def verify(app: Horae) -> Any:
    assert find_entries(app.world, limit=1)
    return verify_audit(app.world)


def test_a_server_whose_chores_are_off_only_answers(app_on: Callable[[str], Horae], sqlite_database_url: str) -> None:
    app = app_on(sqlite_database_url)
    assert app.asgi(Settings.read({"HORAE_SERVER_CHORES": "0"})).state.horae.options.beside is None
    assert app.asgi(Settings.read({})).state.horae.options.beside is not None


def test_every_chore_has_a_name_of_its_own() -> None:
    names = [chore.name for chore in CHORES]
    assert len(set(names)) == len(names)
