"""Jobs of a caller's transaction arrive once, whoever is killed, and whichever process looks after them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from horae.actions import messages
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Enqueued
from horae.clock import SystemClock
from horae.ports.world import World
from horae.runtime.chores.outboxes import Outboxes, outboxes
from tests.cluster.conftest import Clusters, die_in_cluster
from tests.cluster.mail import deliver, run, state, waiting
from tests.cluster.test_outbox import GUEST, far, joined, send
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("clusters", ["sqlite"], indirect=True)


@pytest.mark.parametrize("name", ["key", "unique"])
def test_a_job_arrives_once_whoever_is_killed_before_any_statement(clusters: Clusters, name: str) -> None:
    world, urls = clusters.make(2, guest=True)
    for round_ in range(200):
        first, second = (send(world, GUEST, **{name: far(world, f"{name}{round_}")}) for _ in range(2))
        ended = die_in_cluster(round_, clusters, urls[0], deliver)
        clusters.clock.advance(2 * messages.HELD)
        deliver(world)
        run(world, first)
        assert [state(world, each)[0] for each in (first, second)] == ["succeeded", "cancelled"]
        assert [len(jobs.runs(world, each.id)) for each in (first, second)] == [1, 1]
        assert waiting(world) == 0
        if ended:
            break
    assert round_ > 5


def test_a_caller_killed_before_any_statement_sends_all_or_nothing(clusters: Clusters) -> None:
    world, urls = clusters.make(2, guest=True)
    for round_ in range(100):
        key = far(world, f"k{round_}")
        ended = die_in_cluster(round_, clusters, urls[0], partial(send, database=GUEST, key=key), before=join_guest)
        sent = deliver(world)
        assert sent == int(ended)
        if ended:
            break
    assert round_ > 2


def join_guest(world: World) -> None:
    """Open the guest's database, before statements are counted."""
    joined(world, GUEST, lambda _: None)


def held(world: World, job: Enqueued) -> str:
    return state(world, job)[1]


@asynccontextmanager
async def keeping(*loops: Outboxes) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in loops]
    try:
        yield
    finally:
        for each in loops:
            each.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)


async def test_any_process_delivers_from_databases_without_shards(clusters: Clusters) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, _ = clusters.make(2, guest=True)
    [make] = outboxes(world)
    loops = [make(world, name) for name in ("one", "two")]
    async with keeping(*(each for each in loops if isinstance(each, Outboxes))):
        for _ in range(3):
            job = send(world, GUEST)
            await eventually(lambda job=job: held(world, job) == "", "the job arrives")  # type: ignore[misc]
    assert waiting(world) == 0


async def test_more_databases_without_shards_than_a_process_takes_by_choice_are_all_served(clusters: Clusters) -> None:
    clusters.clock = SystemClock()  # type: ignore[assignment]
    world, urls = clusters.make(2, guest=True)
    for number, url in enumerate(clusters.urls(8)[3:], GUEST + 1):
        clusters.add(world, url, f"guest-{number}", urls[0], takes_shards=False)
    loop = Outboxes(world, "one")
    async with keeping(loop):
        sent = [send(world, number) for number in range(GUEST, GUEST + 6)]
        await eventually(lambda: all(held(world, job) == "" for job in sent), "every job arrives", within=60)


async def test_a_single_database_has_no_such_loop(clusters: Clusters) -> None:
    [url] = clusters.urls(1)
    assert outboxes(clusters.open(url)) == ()
