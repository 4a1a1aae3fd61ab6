"""The doctor asks real NATS servers whether they keep what they acknowledge."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import pytest

from horae import Horae
from horae.actions import bus
from horae.actions.jobs import jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock
from horae.doctor.findings import Finding, Installation
from horae.doctor.message_bus import bus_flush, bus_streams
from horae.doctor.work import dispatch, message_bus
from horae.ports.definitions import StoredDefinition
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from tests.bus.dispatching import relay, relays
from tests.bus.test_cluster import database_of, make_cluster
from tests.support.kinds import HOST, NatsServer, free_port, nats_cluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.server
OwnServer = Callable[..., Any]
ALWAYS = "jetstream { sync_interval: always }\n"
SYSTEM = 'accounts { $SYS { users = [ { user: "sys", password: "secret" } ] } }\n'


def monitored(config: str = "") -> tuple[type[NatsServer], str]:
    port = free_port()
    kind = type("MonitoredNats", (NatsServer,), {"more": ("-m", str(port)), "config": config})
    return kind, f"http://{HOST}:{port}"


def asked(check: Any, settings: Settings) -> list[Finding]:
    return list(check(Installation(settings, {}, SystemClock())))


def flush(**settings: Any) -> tuple[str, str]:
    (found,) = asked(bus_flush, Settings(**settings))
    return found.level, found.why.reason


def test_without_a_bus_nothing_is_asked() -> None:
    assert asked(bus_flush, Settings()) == asked(bus_streams, Settings()) == []


def test_a_server_that_flushes_late_is_refused_unless_told_otherwise(own_server: OwnServer) -> None:
    kind, address = monitored()
    server = own_server(kind)
    known: dict[str, Any] = {"nats": (server.url,), "nats_monitor": (address,)}

    (found,) = asked(bus_flush, Settings(**known))
    assert (found.level, found.why.reason) == ("problem", "bus_flush_late")
    assert "every 120 s" in found.text
    assert flush(**known, nats_flush="always") == ("problem", "bus_flush_late")  # the server knows better
    assert flush(**known, nats_flush="interval") == ("ok", "bus_flush_accepted")


def test_a_server_that_flushes_always_is_found_by_its_monitoring_or_the_system_account(own_server: OwnServer) -> None:
    kind, address = monitored(ALWAYS + SYSTEM)
    server = own_server(kind)
    system = server.url.replace("nats://", "nats://sys:secret@")

    for monitor in (address, system):
        assert flush(nats=(server.url,), nats_monitor=(monitor,)) == ("ok", "bus_flush_well")


def test_what_no_server_says_is_unknown_and_can_be_vouched_for(own_server: OwnServer) -> None:
    kind, address = monitored(SYSTEM)
    server = own_server(kind)

    assert flush(nats=(server.url,)) == ("warning", "bus_flush_unknown")
    assert flush(nats=(server.url,), nats_flush="always") == ("ok", "bus_flush_vouched")
    silent = Settings(nats=(server.url,), nats_monitor=(server.url, f"http://{HOST}:{free_port()}"))
    reasons = [each.why.reason for each in asked(bus_flush, silent)]
    assert reasons == ["bus_monitor_away", "bus_monitor_away", "bus_flush_unknown"]
    assert address


async def test_a_relay_that_is_missing_is_a_problem(sqlite_database_url: str, nats_url: str, prefix: str) -> None:
    with Horae(sqlite_database_url) as app:
        here = Installation(Settings(nats_dispatch=True), {}, SystemClock(), world=app.world)

        def reasons() -> list[str]:
            return [each.why.reason for each in dispatch(here)]

        assert reasons() == ["dispatch_missing"]
        async with relay(app, nats_url, prefix):
            await eventually(lambda: reasons() == ["dispatch_well"], "a relay is there")
        assert reasons() == ["dispatch_missing"]
        assert list(dispatch(replace(here, settings=Settings()))) == []


def test_no_password_is_shown(own_server: OwnServer) -> None:
    server = own_server(NatsServer)
    settings = Settings(nats=(server.url,), nats_monitor=("nats://sys:secret@127.0.0.1:1",))

    assert not any("secret" in each.text for each in asked(bus_flush, settings))


def test_servers_that_are_away_are_a_problem() -> None:
    settings = Settings(nats=(f"nats://{HOST}:{free_port()}",))

    (found,) = asked(bus_streams, settings)
    assert (found.level, found.why.reason) == ("problem", "bus_servers_away")


async def test_replicas_and_duplicate_windows_are_asked_for(own_server: OwnServer) -> None:
    nodes = [own_server(kind) for kind in nats_cluster()]
    settings = Settings(nats=tuple(node.url for node in nodes), nats_stream="SHOP")

    def reasons() -> list[str]:
        return [each.why.reason for each in asked(bus_streams, settings)]

    await eventually(lambda: reasons() == ["bus_streams_none"], "the cluster has elected a leader")

    client = await nats.connect(list(settings.nats))
    streams = client.jetstream(timeout=5)

    async def made() -> bool:  # the servers may still be electing a leader
        try:
            await streams.add_stream(name="SHOP", subjects=["shop.>"], num_replicas=1, duplicate_window=5)
            await streams.add_stream(name="SHOP_JOBS", subjects=["shop_work.to.>"], num_replicas=3, duplicate_window=60)
        except nats.js.errors.APIError:
            return False
        return True

    await eventually(made, "the cluster makes streams")
    few, short = asked(bus_streams, settings)
    assert (few.why.reason, short.why.reason) == ("bus_replicas_few", "bus_window_short")
    assert "SHOP (1)" in few.text
    assert "SHOP_JOBS" not in few.text + short.text

    await streams.update_stream(name="SHOP", subjects=["shop.>"], num_replicas=3, duplicate_window=3600)
    await client.close()
    assert reasons() == ["bus_streams_well"]


async def test_every_database_of_a_cluster_is_looked_at(tmp_path: Path, nats_url: str, prefix: str) -> None:
    urls = make_cluster([f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(2)])
    with Horae(urls[0]) as near:
        here = Installation(Settings(nats_dispatch=True), {}, SystemClock(), world=near.world)

        def found(at: Installation = here) -> list[tuple[str, str]]:
            return [(each.why.reason, str(each.why.facts.get("name", ""))) for each in message_bus(at)]

        missing = [("cluster_dispatch_missing", "first"), ("cluster_dispatch_missing", "db-2")]
        assert found() == missing
        async with relays(near, nats_url, prefix):
            await eventually(lambda: found() == [("cluster_bus_well", "")], "a relay of each database")
        assert found() == missing
        events = replace(here, settings=Settings())
        assert found(events) == []
        bus.switch_on(near.world.shards()[1])
        assert found(events) == [("cluster_bus_incomplete", "first")]
        bus.ask_everywhere(near.world, bus.switch_on)
        assert found(events) == [("cluster_bus_well", "")]
        owner = next(f"o{index}" for index in range(100) if database_of(near, f"o{index}") == 2)
        store_definitions(near.world, [StoredDefinition("send", "mail", tenants=True)])
        jobs.enqueue(near.world, Request("send", {}, queue="mail", owner=owner))
        later = VirtualClock(near.world.clock.now() + timedelta(minutes=6))
        assert found(replace(events, world=replace(near.world, clock=later))) == [("cluster_bus_behind", "db-2")]
