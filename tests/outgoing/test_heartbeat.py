"""A heartbeat: it calls while all is well, is silent while a run is missing, and keeps to the rules of the house."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae import Horae
from horae.actions.access.owners import set_owner
from horae.actions.jobs import machinery
from horae.actions.schedules import schedules
from horae.alerts.heartbeat import beat
from horae.core.access.owners import OwnerSettings
from horae.core.jobs.job import SYSTEM
from horae.errors import AddressRefused, InvalidInput
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.builders import a_schedule
from horae.testing.clock import LoadedDice, VirtualClock
from tests.outgoing.ground import HookServer, answering, serving
from tests.support.refusals import refused


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_store(create_store_engine("sqlite://"))
    yield World(store, clock, LoadedDice())
    store.close()


def allow(world: World, server: HookServer) -> None:
    set_owner(world, SYSTEM, OwnerSettings(("127.0.0.0/8",), allow_http=True, ports=(server.port,)))


async def once(world: World, url: str) -> None:
    """Do what the chore does at one of its turns."""
    app: Any = Horae("sqlite://")
    beat(app, url, every="30s")
    (chore,) = app.chores
    assert (chore.name, chore.every) == ("heartbeat", timedelta(seconds=30))
    step = chore.work(world)
    if step is not None:
        await step
    app.close()


async def test_a_heartbeat_calls_while_nothing_is_missing(world: World) -> None:
    async with serving(answering()) as server:
        allow(world, server)
        await once(world, server.url)
    [call] = server.received
    assert call.line.startswith("POST /hook")
    assert json.loads(call.body)["type"] == "heartbeat"


async def test_a_heartbeat_is_silent_while_a_run_is_missing(
    world: World, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    schedules.create(world, a_schedule("hourly", "0 * * * *", expect="within 10m"))
    clock.advance(timedelta(minutes=70))
    machinery.serve_due(world, "keeper")
    async with serving(answering()) as server:
        allow(world, server)
        await once(world, server.url)
        assert server.received == []
        schedules.pause(world, "hourly")
        await once(world, server.url)
    assert len(server.received) == 1
    assert "no heartbeat: 1 expected runs are missing" in caplog.text


async def test_a_heartbeat_keeps_to_the_rules_of_the_house(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(answering()) as server:
        with caplog.at_level(logging.WARNING):
            await once(world, server.url)
    assert server.received == []
    assert "the heartbeat was not delivered" in caplog.text


async def test_a_monitor_that_refuses_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(answering(500)) as server:
        allow(world, server)
        await once(world, server.url)
    assert "answered 500" in caplog.text
    assert "/hook" not in caplog.text, "the path is the key of the monitor"


def test_what_cannot_work_is_refused_when_it_is_set() -> None:
    app: Any = Horae("sqlite://")
    with pytest.raises(AddressRefused):
        beat(app, "no url")
    with refused(InvalidInput, "heartbeat_too_often"):
        beat(app, "https://monitor.example/ping", every=1)
    app.close()
