"""Over a cluster: every database publishes its own events, and one relay hands out the jobs of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from horae import Horae
from horae.actions import bus
from horae.actions import cluster as verbs
from horae.actions.jobs import jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.ports.definitions import StoredDefinition
from horae.stores.cluster.addresses import public_address
from tests.bus.dispatching import far_app, relay, working
from tests.support.waiting import eventually

OWNERS = 12


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """The addresses of three databases that are a cluster."""
    first, *others = made = [f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(3)]
    with Horae(first) as app:
        verbs.init(app.world, name="first", address=public_address(first, first))
    for index, url in enumerate(others, 2):
        with Horae(url) as other, Horae(first) as app:
            verbs.add(app.world, other.world, name=f"db-{index}", address=public_address(url, first))
    return made


def test_the_bus_is_switched_on_in_every_database_and_each_names_its_own_events(urls: list[str]) -> None:
    with Horae(urls[0]) as app:
        found, away = bus.ask_everywhere(app.world, bus.switch_on)
        assert (found.enabled, found.missing, away) == (True, (), ())
        store_definitions(app.world, [StoredDefinition("send", "mail", tenants=True)])
        for index in range(OWNERS):
            jobs.enqueue(app.world, Request("send", {}, queue="mail", owner=f"owner-{index}"))
        shards = app.world.shards()
        told = [bus.next_messages(shard, limit=100) for shard in shards]
        assert sum(map(len, told)) == OWNERS
        assert all(told)
        ids = [message.headers["Nats-Msg-Id"] for each in told for message in each]
        assert len(set(ids)) == OWNERS
        assert len({each.partition(":")[0] for each in ids}) == 3
        assert bus.ask_everywhere(app.world, bus.status)[0].waiting == OWNERS
        bus.switch_off(shards[1])
        found, _ = bus.ask_everywhere(app.world, bus.status)
        assert (found.enabled, found.missing) == (True, ("all of db-2",))
        bus.ask_everywhere(app.world, bus.switch_off)
        assert not bus.ask_everywhere(app.world, bus.status)[0].enabled


@pytest.mark.server
@pytest.mark.slow
async def test_a_worker_on_the_bus_runs_jobs_of_every_database_once(
    urls: list[str], nats_url: str, prefix: str
) -> None:  # fmt: skip
    far, ran = far_app(nats_url, prefix), list[str]()

    @far.job("send", queue="mail", tenants=True)
    def send(to: str) -> None:
        ran.append(to)

    with Horae(urls[0], name="near") as near:
        store_definitions(near.world, [StoredDefinition("send", "mail", tenants=True)])
        async with relay(near, nats_url, prefix), working(far):
            wanted = [f"owner-{index}" for index in range(OWNERS)]
            asked = [Request("send", {"to": owner}, queue="mail", owner=owner) for owner in wanted]
            made = [jobs.enqueue(near.world, each) for each in asked]
            await eventually(lambda: len(ran) >= OWNERS, "every job", within=60)
            ended = lambda: {near.jobs.get(each.id).state for each in made} == {"succeeded"}  # noqa: E731
            await eventually(ended, "every ending", within=60)
        assert sorted(ran) == sorted(wanted)
