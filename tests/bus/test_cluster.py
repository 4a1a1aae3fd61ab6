"""Over a cluster: every database publishes its own events, and has a relay that hands out its jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from nats import connect
from nats.js.errors import APIError, NotFoundError

from horae import Context, Horae
from horae.actions import bus, moves
from horae.actions import cluster as verbs
from horae.actions.jobs import jobs
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.requests import Request
from horae.bus.cluster import ClusterDispatcher
from horae.core.dispatch import RELAY_OF_ONE
from horae.ports.definitions import StoredDefinition
from horae.stores.cluster.addresses import public_address
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from tests.bus.dispatching import LEASE, at, far_app, relay, relays, working
from tests.support.kinds import nats_cluster
from tests.support.servers import PostgresServer
from tests.support.waiting import eventually, pass_time

OWNERS = 12


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """The addresses of three databases that are a cluster."""
    return make_cluster([f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(3)])


def make_cluster(made: list[str]) -> list[str]:
    """Make one cluster of these databases."""
    first, *others = made
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
async def test_a_relay_that_serves_who_names_none_claims_from_every_database(
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


def database_of(near: Horae, owner: str) -> int:
    """Return the number of the database in which a tenant lives."""
    shard_map = near.world.shard_map
    assert shard_map is not None
    return shard_map.database_of(shard_map.vshard_of(owner=owner))


class Committing(PostgresServer):
    """A server that keeps what was committed when it is killed, though not in a power cut."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.settings = {"synchronous_commit": "on"}


class Mail:
    """Tenants of a cluster, and jobs for them that a worker on the bus runs."""

    def __init__(self, near: Horae, far: Horae) -> None:
        self.near, self.ran, self.made = near, list[str](), list[str]()
        store_definitions(near.world, [StoredDefinition("send", "mail", tenants=True)])
        far.job("send", queue="mail", tenants=True)(self._send)

    def _send(self, to: str) -> None:
        self.ran.append(to)

    def owners(self, number: int, count: int, word: str = "owner") -> list[str]:
        """Return names of tenants that live in a database."""
        here = (each for index in range(10_000) if database_of(self.near, each := f"{word}-{index}") == number)
        return [next(here) for _ in range(count)]

    async def send(self, owners: list[str]) -> None:
        for owner in owners:
            request = Request("send", {"to": owner}, queue="mail", owner=owner)
            self.made.append((await asyncio.to_thread(jobs.enqueue, self.near.world, request)).id)

    async def arrived(self, owners: list[str], within: float = 60) -> None:
        await eventually(lambda: set(owners) <= set(self.ran), "the jobs", within=within)

    async def ended(self) -> None:
        def all_ended() -> bool:
            return {self.near.jobs.get(each).state for each in self.made} == {"succeeded"}

        await eventually(lambda: asyncio.to_thread(all_ended), "every ending", within=60)


@pytest.mark.server
@pytest.mark.slow
async def test_each_database_has_a_relay_and_one_slot_is_soon_wherever_a_job_is_due(
    urls: list[str], nats_url: str, prefix: str
) -> None:
    far = far_app(nats_url, prefix)
    with Horae(urls[0], name="near") as near:
        mail = Mail(near, far)
        async with relays(near, nats_url, prefix), working(far, queues={"mail": 1}, lease=timedelta(seconds=30)):
            await _are_served(near)
            await mail.send(early := [each for number in (1, 2, 3) for each in mail.owners(number, 2, "early")])
            await mail.arrived(early)
            took = list[float]()
            for number in (3, 1, 2, 3, 2, 1):
                owner = mail.owners(number, 1, f"due-{len(took)}")
                await mail.send(owner)
                began = near.world.clock.monotonic()
                await mail.arrived(owner)
                took.append(near.world.clock.monotonic() - began)
            await mail.ended()
        assert sorted(mail.ran) == sorted(set(mail.ran))  # none twice
        assert sorted(took)[3] < 1.0, took


@pytest.mark.server
@pytest.mark.slow
async def test_relays_of_several_databases_claim_no_more_than_the_slots_of_a_worker(
    urls: list[str], nats_url: str, prefix: str
) -> None:
    far, go_on, begun = far_app(nats_url, prefix), asyncio.Event(), list[str]()

    @far.job("send", queue="mail", tenants=True)
    async def send(to: str) -> None:
        begun.append(to)
        await go_on.wait()

    with Horae(urls[0], name="near") as near:
        store_definitions(near.world, [StoredDefinition("send", "mail", tenants=True)])
        asked = [Request("send", {"to": f"o{index}"}, queue="mail", owner=f"o{index}") for index in range(OWNERS)]
        made = [jobs.enqueue(near.world, each).id for each in asked]
        async with relays(near, nats_url, prefix), working(far, queues={"mail": 2}):
            await eventually(lambda: len(begun) == 2, "both slots are in use")
            await pass_time(2)  # for relays that would claim what no slot is free for
            states = Counter(near.jobs.get(each).state for each in made)
            assert states == {"running": 2, "queued": OWNERS - 2}
            go_on.set()
            await eventually(lambda: {near.jobs.get(each).state for each in made} == {"succeeded"}, "all", within=60)
        assert sorted(begun) == sorted(each.owner for each in asked if each.owner)
        assert {run.outcome for each in made for run in near.jobs.runs(each)} == {"succeeded"}


@pytest.mark.server
@pytest.mark.slow
async def test_what_a_worker_on_the_bus_enqueues_is_spread_and_run_once(
    urls: list[str], nats_url: str, prefix: str
) -> None:
    far, ran = far_app(nats_url, prefix), list[int]()

    @far.job("child", queue="mail")
    def child(number: int) -> None:
        ran.append(number)

    @far.job("parent", queue="mail")
    def parent() -> list[str]:
        return [child.enqueue(number).id for number in range(OWNERS)]

    with Horae(urls[0], name="near") as near:
        async with relays(near, nats_url, prefix), working(far):
            await _are_served(near)
            asked = near.jobs.enqueue("parent", queue="mail")
            await eventually(lambda: near.jobs.get(asked.id).state == "succeeded", "it has enqueued")
            made: list[Any] = near.jobs.get(asked.id).result
            await eventually(lambda: {near.jobs.get(each).state for each in made} == {"succeeded"}, "all of them")
        assert sorted(ran) == list(range(OWNERS))
        assert len({near.world.within(id=each)[0].store for each in made}) > 1


@pytest.mark.server
@pytest.mark.slow
async def test_processes_share_the_databases_and_take_over_from_one_that_died(
    urls: list[str], nats_url: str, prefix: str
) -> None:
    far = far_app(nats_url, prefix)
    with Horae(urls[0], name="near") as near:
        mail = Mail(near, far)
        dying = asyncio.create_task(ClusterDispatcher(near.world, "dying", at(nats_url, prefix), lease=LEASE).run())
        async with relays(near, nats_url, prefix, "staying"), working(far, lease=timedelta(seconds=15)):
            await _are_served(near)
            assert {each for chores in _relaying(near) for each in chores} == {"dying", "staying"}
            await mail.send(early := [each for number in (1, 2, 3) for each in mail.owners(number, 3)])
            await mail.arrived(early)
            dying.cancel()
            await asyncio.wait([dying])
            await mail.send(late := [each for number in (1, 2, 3) for each in mail.owners(number, 3, "late")])
            await mail.arrived(late)
            await mail.ended()
            await eventually(lambda: _relaying(near) == [["staying"]] * 3, "one process has taken over")


@pytest.mark.server
@pytest.mark.slow
async def test_a_running_job_is_renewed_and_ended_after_its_shard_has_moved(
    urls: list[str], nats_url: str, prefix: str
) -> None:
    far, began, go_on = far_app(nats_url, prefix), asyncio.Event(), asyncio.Event()

    @far.job("send", queue="mail", tenants=True)
    async def send(ctx: Context, to: str) -> str:
        began.set()
        await go_on.wait()
        await ctx.progress_async({"moved": True})
        return to

    with Horae(urls[0], name="near") as near:
        store_definitions(near.world, [StoredDefinition("send", "mail", tenants=True)])
        shard_map = near.world.shard_map
        assert shard_map is not None
        async with relays(near, nats_url, prefix), working(far, lease=timedelta(seconds=6)):
            await _are_served(near)
            made = jobs.enqueue(near.world, Request("send", {"to": "ada"}, queue="mail", owner="ada"))
            await asyncio.wait_for(began.wait(), 30)
            vshard = shard_map.vshard_of(owner="ada")
            to = next(each.name for each in shard_map.members if each.number != shard_map.database_of(vshard))
            await asyncio.to_thread(moves.move, near.world, [vshard], to)
            await pass_time(7)  # longer than the lease: it has been renewed where it is now
            go_on.set()
            await eventually(lambda: near.jobs.get(made.id).state == "succeeded", "its end")
        job = near.jobs.get(made.id)
        assert (job.result, job.progress) == ("ada", {"moved": True})
        assert [run.outcome for run in near.jobs.runs(made.id)] == ["succeeded"]


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed", [0, 1], ids=["home", "second"])
async def test_a_killed_database_stops_no_dispatch_of_the_others_and_its_own_jobs_go_on_when_it_is_back(
    own_server: Callable[..., Any], prefix: str, killed: int
) -> None:
    hosts = [own_server(Committing) for _ in range(2)]
    nats = ",".join(own_server(kind).url for kind in nats_cluster())
    urls = [each.create_database() for each in hosts]
    for url in urls:
        engine = create_store_engine(url)
        migrate(engine)
        engine.dispose()
    make_cluster(urls)
    far = far_app(nats, prefix)
    with Horae(urls[0], name="near") as near:
        mail = Mail(near, far)
        async with relays(near, nats, prefix, replicas=3), working(far, lease=timedelta(seconds=15)):
            await _are_served(near)
            there, away = (2, 1) if killed == 0 else (1, 2)
            await mail.send(both := mail.owners(1, 5) + mail.owners(2, 5))
            await mail.arrived(both)
            await mail.send(left := mail.owners(away, 3, "left"))
            await asyncio.to_thread(hosts[killed].stop, "immediate")
            for index in range(5):
                await mail.send(more := mail.owners(there, 3, f"more-{index}"))
                await mail.arrived(more, within=20)
            await asyncio.to_thread(hosts[killed].start)
            await mail.arrived(left)
            await mail.send(last := mail.owners(1, 3, "last") + mail.owners(2, 3, "last"))
            await mail.arrived(last)
            await mail.ended()


@pytest.mark.server
@pytest.mark.slow
async def test_streams_of_one_database_become_those_of_its_cluster(tmp_path: Path, nats_url: str, prefix: str) -> None:
    urls = [f"sqlite:///{tmp_path / f'{index}.db'}" for index in range(2)]
    client = await connect(nats_url)
    streams = client.jetstream()

    async def filters() -> dict[str, str | None]:
        try:
            return {each.name: each.config.filter_subject for each in await streams.consumers_info(f"{prefix}_CALLS")}
        except NotFoundError:
            return {}

    with Horae(urls[0]) as alone:
        async with relay(alone, nats_url, prefix):
            await eventually(filters, "a relay of one database")
    assert await filters() == {"relay": f"{prefix}_work.call.>"}
    make_cluster(urls)
    far = far_app(nats_url, prefix)
    with Horae(urls[0], name="near") as near:
        mail = Mail(near, far)
        async with relays(near, nats_url, prefix), working(far):
            await _are_served(near)
            await mail.send(both := mail.owners(1, 2) + mail.owners(2, 2))
            await mail.arrived(both)
            await mail.ended()
    calls = f"{prefix}_work.call.*"
    assert await filters() == {"relay": calls, "relay-1": f"{calls}.1", "relay-2": f"{calls}.2"}
    with pytest.raises(APIError, match="unique"):  # a relay of the version before is refused
        await streams.add_consumer(
            f"{prefix}_CALLS", durable_name="relay", deliver_subject=f"{prefix}_work.relay", deliver_group="relay",
            filter_subject=f"{prefix}_work.call.>",
        )  # fmt: skip
    await client.close()


def _relaying(near: Horae) -> list[list[str]]:
    """Return who is the relay of each database."""
    return [
        [
            each.holder
            for each in shard.store.read(lambda tx: tx.health.chores())
            if each.name == RELAY_OF_ONE and each.leased_until > shard.clock.steady()
        ]
        for shard in near.world.shards()
    ]


async def _are_served(near: Horae) -> None:
    """Wait until each database has a relay."""
    await eventually(lambda: asyncio.to_thread(lambda: all(_relaying(near))), "a relay of each database")
