"""A parent ends while the ask about it arrives: whoever comes second sees what the first did. PostgreSQL."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions import messages
from horae.actions.jobs import endings
from horae.core.cluster.messages import Message
from horae.core.jobs.job import Job, Outcome, settlement
from horae.ports.store import Tx
from horae.ports.world import World
from tests.cluster.conftest import Clusters
from tests.cluster.mail import deliver, ids, put, take
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.server, pytest.mark.parametrize("clusters", ["postgres"], indirect=True)]
LIMIT = 30.0
BLOCKED = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.datname = current_database() WHERE NOT l.granted"


@contextmanager
def open_while(world: World, write: Callable[[Tx], Any]) -> Iterator[None]:
    """Hold a transaction open in a thread after *write*, until the block ends."""
    written, ends = threading.Event(), threading.Event()

    def work(tx: Tx) -> None:
        write(tx)
        written.set()
        assert ends.wait(LIMIT)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(world.store.transact, work)
        try:
            assert written.wait(LIMIT)
            yield
        finally:
            ends.set()
            done.result(LIMIT)


def is_blocked(world: World, other: Future[Any]) -> bool:
    assert not other.done(), other.result()
    return bool(world.store.read(lambda tx: tx.connection.execute(text(BLOCKED)).scalar_one()))


def ready(clusters: Clusters) -> tuple[World, World, Any, Any, Job, list[Message]]:
    world, _ = clusters.make(2)
    parent = put(world, 1)
    [(_, held)] = take(world)
    child = put(world, 2, parent)
    first, second = world.databases()
    return world, first, parent, child, held, messages.take(second, range(4096))


def test_an_ask_that_arrives_while_its_parent_ends_is_answered(clusters: Clusters) -> None:
    world, first, _, child, held, asks = ready(clusters)
    now = first.clock.now()
    ending = settlement(held, Outcome("succeeded"), now=now, roll=0.5)
    with ThreadPoolExecutor(1) as pool:
        with open_while(first, lambda tx: tx.jobs.settle([ending], now)):
            handing = pool.submit(messages.hand_over, world, 1, asks)
            wait_until(lambda: is_blocked(first, handing), "the ask waits for the ending")
        assert handing.result(LIMIT).delivered == asks
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_a_parent_that_ends_while_the_ask_is_being_kept_answers_it(clusters: Clusters) -> None:
    world, first, _, child, held, [ask] = ready(clusters)
    now = first.clock.now()

    def keep(tx: Tx) -> None:
        tx.enter({ask.vshard}, 1000)
        assert tx.messages.receive(ask, now=now)

    with ThreadPoolExecutor(1) as pool:
        with open_while(first, keep):
            ending = pool.submit(endings.settle, first, [(held, Outcome("succeeded", result="8"))])
            wait_until(lambda: is_blocked(first, ending), "the ending waits for the ask")
        assert ending.result(LIMIT)[held.id] is not None
    deliver(world)
    assert ids(take(world)) == [child.id]


def test_two_parents_that_are_told_of_at_once_start_their_child_once(clusters: Clusters) -> None:
    world, _ = clusters.make(3)
    parents = [put(world, 1), put(world, 3)]
    child = put(world, 2, *parents)
    deliver(world)
    for shard, job in take(world):
        endings.settle(shard, [(job, Outcome("succeeded"))])
    first, second, third = world.databases()
    [one], [other] = (messages.take(each, range(4096)) for each in (first, third))
    now = second.clock.now()
    with ThreadPoolExecutor(1) as pool:
        with open_while(second, lambda tx: tx.messages.receive(one, now=now)):
            handing = pool.submit(messages.hand_over, world, 2, [other])
            wait_until(lambda: is_blocked(second, handing), "the second answer waits for the first")
        assert handing.result(LIMIT).delivered == [other]
    assert ids(take(world)) == [child.id]
