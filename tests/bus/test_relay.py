"""What was noted reaches a real NATS server: at least once, in order for each job, nothing lost on the way (S0-40)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest

from horae import Horae
from horae.actions import bus
from horae.actions.jobs.requests import Request
from horae.bus import publish
from horae.bus.nats import NatsPublisher
from horae.bus.relay import Relay
from horae.core.bus import BusMessage
from horae.errors import BusUnavailable
from horae.runtime.worker.settings import WorkerSettings
from tests.support.refusals import refused
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


@asynccontextmanager
async def relay_to(url: str, prefix: str) -> AsyncIterator[Relay]:
    relay = Relay(NatsPublisher([url], stream=prefix, prefix=prefix), prefix=prefix)
    try:
        yield relay
    finally:
        await relay.close()


async def stored(url: str, stream: str) -> list[Any]:
    """Return every message that a stream keeps, in its order."""
    client = await nats.connect(url)
    try:
        streams = client.jetstream()
        last = (await streams.stream_info(stream)).state.last_seq
        return [await streams.get_msg(stream, number) for number in range(1, last + 1)]
    finally:
        await client.close()


def types_of(messages: Sequence[Any]) -> list[str]:
    return [each.headers["ce-type"] for each in messages]


async def test_what_happens_to_a_job_arrives_in_its_order(app: Horae, nats_url: str, prefix: str) -> None:
    made = app.jobs.enqueue("send", queue="mail")
    worker = app.worker(WorkerSettings({"mail": 1}))
    running = asyncio.create_task(worker.run())
    await app.aio.jobs.wait(made.id)
    worker.stop()
    await running

    async with relay_to(nats_url, prefix) as relay:
        assert await relay.turn(app.world) == 2

    messages = await stored(nats_url, prefix)
    assert types_of(messages) == ["horae.job.enqueued", "horae.job.succeeded"]
    assert {json.loads(each.data)["job"] for each in messages} == {made.id}
    assert bus.status(app.world).waiting == 0


async def test_a_relay_that_died_before_it_removed_them_doubles_nothing(app: Horae, nats_url: str, prefix: str) -> None:
    app.enqueue_many([Request("send", queue="mail") for _ in range(20)])
    dying = NatsPublisher([nats_url], stream=prefix, prefix=prefix)
    await dying.publish(bus.next_messages(app.world, limit=100, prefix=prefix))
    await dying.close()

    async with relay_to(nats_url, prefix) as next_one:
        assert await next_one.turn(app.world) == 20

    messages = await stored(nats_url, prefix)
    assert len({each.headers["ce-id"] for each in messages}) == len(messages) == 20


async def test_two_relays_at_once_double_nothing(app: Horae, nats_url: str, prefix: str) -> None:
    app.enqueue_many([Request("send", queue="mail") for _ in range(200)])

    async with relay_to(nats_url, prefix) as one, relay_to(nats_url, prefix) as other:
        await asyncio.gather(one.turn(app.world), other.turn(app.world))

    assert len(await stored(nats_url, prefix)) == 200
    assert bus.status(app.world).waiting == 0


class Deaf:
    """A bus that acknowledges every message but one."""

    def __init__(self, deaf_to: int) -> None:
        self.deaf_to = deaf_to
        self.heard: list[int] = []

    async def publish(self, messages: Sequence[BusMessage]) -> list[int]:
        heard = [each.number for each in messages if each.number != self.deaf_to]
        self.heard += heard
        return heard

    async def close(self) -> None: ...


async def test_what_is_not_acknowledged_stays_and_nothing_of_its_job_overtakes_it(app: Horae) -> None:
    first = app.jobs.enqueue("send", queue="mail")
    app.jobs.enqueue("send", queue="mail")
    app.jobs.cancel(first.id)
    lost, other, later = (each.number for each in bus.next_messages(app.world, limit=10))
    deaf = Deaf(lost)

    await Relay(deaf).turn(app.world)

    assert deaf.heard == [other]
    assert [each.number for each in bus.next_messages(app.world, limit=10)] == [lost, later]


async def test_while_the_bus_is_away_events_wait(app: Horae, own_server: Any, prefix: str) -> None:
    server = own_server(NatsServer)
    app.jobs.enqueue("send", queue="mail")
    server.stop("immediate")

    async with relay_to(server.url, prefix) as relay:
        with refused(BusUnavailable, "bus_unreachable"):
            await relay.turn(app.world)
        assert bus.status(app.world).waiting == 1
        server.start()
        assert await relay.turn(app.world) == 1

    assert len(await stored(server.url, prefix)) == 1


async def test_a_worker_publishes_by_itself(app: Horae, nats_url: str, prefix: str) -> None:
    publish(app, nats_url, stream=prefix, prefix=prefix)
    worker = app.worker(WorkerSettings({"mail": 1}))
    running = asyncio.create_task(worker.run())
    try:
        made = app.jobs.enqueue("send", queue="mail")
        await app.aio.jobs.wait(made.id)
        await eventually(lambda: not bus.status(app.world).waiting, "all events are published")
    finally:
        worker.stop()
        await running

    assert types_of(await stored(nats_url, prefix)) == ["horae.job.enqueued", "horae.job.succeeded"]
