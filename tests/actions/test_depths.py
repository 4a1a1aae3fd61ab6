"""Many live jobs are counted by a chore, few by each reader; and the look says which repairs may be needed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.actions.metrics import count_live, survey
from horae.clock import SystemDice
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.jobs import depths
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import at_once

HOUR = timedelta(hours=1)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


@pytest.fixture
def many(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A store with more jobs than a reader counts: five are due, two are not, one is dead."""
    monkeypatch.setattr(depths, "MOST", 3)
    jobs.enqueue_many(world, [Request("send", queue="mail")] * 3 + [Request("send")] * 3)
    jobs.enqueue_many(world, [Request("send", queue="mail", delay=HOUR)] * 2)
    [job] = claims.pull(world, worker_id="w", limit=1)
    endings.fail(world, job.id, job.token, "no", final=True)
    return world


def test_few_jobs_are_counted_as_they_are(world: World) -> None:
    jobs.enqueue_many(world, [Request("send")] * 3)

    assert not count_live(world)
    jobs.enqueue_many(world, [Request("send")])

    assert jobs.counts(world)["default"]["queued"] == 4
    assert survey(world).depths == {("default", "queued"): 4}


def test_many_jobs_are_as_the_chore_counted_them(many: World) -> None:
    assert count_live(many)
    jobs.enqueue_many(many, [Request("send")] * 10)  # not counted yet

    counted = jobs.counts(many)
    assert (counted["default"]["queued"], counted["default"]["dead"], counted["mail"]["queued"]) == (2, 1, 5)
    found = survey(many)
    assert {queue: each.count for queue, each in found.waiting.items()} == {"default": 2, "mail": 3}
    assert (found.five["jobs_due_count"], found.five["dead_letter_count"]) == (5, 1)

    assert count_live(many)
    assert jobs.counts(many)["default"]["queued"] == 12


def test_counting_many_jobs_waits_for_no_writer(many: World) -> None:
    now = many.clock.now()

    def count_beside(_: Tx) -> int:
        counted = at_once(1, lambda _: many.store.read(lambda tx: tx.metrics.count_many(now)))[0]
        return sum(depth.jobs for depth in counted.values())

    assert many.store.transact(count_beside) == 8


def test_a_sample_goes_when_few_jobs_are_left(many: World) -> None:
    count_live(many)
    for job in claims.pull(many, worker_id="w", queues=["mail", "default"], limit=10):
        endings.ack(many, job.id, job.token)

    assert not count_live(many)

    assert jobs.counts(many)["mail"] == {"queued": 2, "running": 0, "dead": 0, "succeeded": 3, "cancelled": 0}


def test_before_the_first_sample_a_reader_counts_no_further_than_its_bound(many: World) -> None:
    assert sum(sum(each.values()) for each in jobs.counts(many).values()) == 3


def test_the_look_names_what_a_repair_has_to_look_after(world: World) -> None:
    quiet = claims.peek(world, [])
    assert quiet.open <= {"slots"}  # MariaDB cannot tell
    [parent] = jobs.enqueue_many(world, [Request("send")])
    jobs.enqueue_many(world, [Request("send", after=(parent.id,))])

    assert "needs" in claims.peek(world, []).open

    [job] = claims.pull(world, worker_id="w", limit=1)
    endings.ack(world, job.id, job.token)
    jobs.settle_children(world)
    assert "needs" not in claims.peek(world, []).open


def test_a_job_that_waits_for_a_slot_is_looked_after(world: World) -> None:
    jobs.enqueue_many(world, [Request("send", concurrency_key="one")] * 2)
    claims.pull(world, worker_id="w", limit=2)

    assert "slots" in claims.peek(world, []).open
