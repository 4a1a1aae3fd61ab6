"""The scheduler sleeps until the next fire, whoever tells it of it, and looks at the zones when it starts."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae import Horae
from horae.actions.schedules import schedules
from horae.actions.schedules.schedules import with_next_fire
from horae.core.schedules.schedule import Firing
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.schedules.scheduler import Scheduler
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.builders import a_schedule
from horae.testing.clock import LoadedDice
from tests.support.fire_history import read_fires
from tests.support.waiting import eventually

LIMIT = 60.0


class Interrupted:
    """A store on which somebody else gets a word in while it is being looked at."""

    def __init__(self, store: Any, meanwhile: Callable[[], None]) -> None:
        self._store, self._meanwhile = store, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def peek(self, *args: Any, **more: Any) -> Any:
        seen = self._store.peek(*args, **more)
        self._meanwhile()
        return seen


def in_memory() -> Any:
    return open_store(create_store_engine("sqlite://"))


async def test_what_is_told_while_it_looks_is_not_forgotten() -> None:
    """A schedule made by another thread just then fires on time, not at the next slow look."""
    fired: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    with Horae("sqlite://") as app:
        world = app.world
        soon: list[datetime] = []

        def meanwhile() -> None:
            if not soon:
                soon.append(world.clock.now() + timedelta(milliseconds=200))
                at = soon[0].isoformat()
                schedules.create(world, a_schedule("soon", at, kind="once"))
                loop.call_soon_threadsafe(scheduler.expect, soon[0])

        def tell(firing: Firing, _: list[str]) -> None:
            fired.put_nowait(firing.schedule.key)

        interrupted = replace(world, store=Interrupted(world.store, meanwhile))
        scheduler = Scheduler(interrupted, DatabaseThreads(), tell)
        schedules.create(world, a_schedule("first", "2020-01-01T00:00:00Z", kind="once"))
        schedules.create(world, a_schedule("far", "2090-01-01T00:00:00Z", kind="once"))
        running = asyncio.create_task(scheduler.run())
        scheduler.expect(world.clock.now())

        async with asyncio.timeout(LIMIT):
            assert [await fired.get() for _ in range(2)] == ["first", "soon"]
        scheduler.stop()
        await running


async def test_a_newer_zone_database_is_noticed_at_the_start() -> None:
    """Fault 33: with one entry in the audit."""
    store = in_memory()
    with Horae("sqlite://") as app:
        old = World(store, app.world.clock, LoadedDice(), tzdata="2025b")
        made = schedules.create(old, a_schedule("s", "0 3 * * *", zone="Europe/Paris"))
        assert made.next_fire_at is not None
        wrong = made.next_fire_at + timedelta(hours=1)
        told_wrongly = replace(made, next_fire_at=wrong, next_due_at=wrong)
        store.transact(lambda tx: tx.schedules.put(told_wrongly, expected_version=1))
        new = replace(old, tzdata="2026f")
        scheduler = Scheduler(new, DatabaseThreads())
        running = asyncio.create_task(scheduler.run())
        await eventually(lambda: schedules.get(new, "s").tzdata == "2026f")
        scheduler.stop()
        await running

    assert schedules.get(new, "s").next_fire_at == made.next_fire_at
    assert [entry.verb for entry in schedules.versions(new, "s")] == ["move", "create"]
    store.close()


async def test_a_burst_that_takes_several_batches_at_once_fires_each_schedule_once(database_url: str) -> None:
    """More than the first batch and the two that follow it side by side."""
    fired: Counter[str] = Counter()
    with Horae(database_url) as app:
        migrate(app.engine)
        keys = [f"burst-{place}" for place in range(150)]
        plain = [a_schedule(key, "2020-01-01T00:00:00Z", kind="once") for key in keys]
        now = app.world.clock.now()
        due = [with_next_fire(app.world, replace(each, created_at=now, updated_at=now), now) for each in plain]
        app.world.store.transact(lambda tx: tx.schedules.add(due))
        scheduler = Scheduler(app.world, DatabaseThreads(), lambda firing, _: fired.update([firing.schedule.key]))
        running = asyncio.create_task(scheduler.run())
        scheduler.expect(now)
        await eventually(lambda: len(fired) == len(keys))
        scheduler.stop()
        await running

        assert [len(each.records) for each in read_fires(app.world)] == [1] * len(keys)
    assert fired == dict.fromkeys(keys, 1)
