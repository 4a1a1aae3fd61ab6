"""Batches: counts, callbacks exactly once whatever crashes, cancels, keys, and results that reach the next job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.jobs import batch, claims, endings, jobs
from horae.actions.jobs.batch import BatchRequest
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.core.jobs.batch import Batch, Callback
from horae.core.jobs.job import Job, Outcome, settlement
from horae.core.jobs.parents import MOST_PARENTS
from horae.core.jobs.retry import Retry
from horae.errors import InvalidInput, KeyConflict, LeaseLost, NotAllowed, NotFound, QuotaExceeded
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.conformance.support import at_once
from tests.support.refusals import refused

CALLBACKS: dict[Callback, Request] = {
    "on_end": Request("ended", queue="after"),
    "on_success": Request("well", queue="after"),
    "on_failure": Request("badly", queue="after"),
}
ONCE = Retry.none()


@pytest.fixture
def each_world(database_url: str, clock: VirtualClock) -> Iterator[World]:
    """A world on each database in turn, for what their transactions decide."""
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield World(store, clock, LoadedDice())
    store.close()


def make(world: World, count: int = 2, **options: Any) -> Batch:
    asked = [Request("work", {"n": n}, retry=ONCE) for n in range(count)]
    return batch.create(world, BatchRequest(asked, callbacks=CALLBACKS, **options))[0]


def pull(world: World, queue: str = "default") -> list[Job]:
    return claims.pull(world, worker_id="w", queues=[queue])


def end(world: World, job: Job, *, fails: bool = False) -> None:
    if fails:
        endings.fail(world, job.id, job.token, "no")
    else:
        endings.ack(world, job.id, job.token, result=job.payload)


def follows(world: World) -> list[str]:
    """Run the callbacks that may run now, and return their handlers."""
    found = pull(world, "after")
    for job in found:
        end(world, job)
    return sorted(job.handler for job in found)


def counts(world: World, made: Batch) -> tuple[str, int, int, int]:
    seen = batch.get(world, made.id)
    return seen.state, seen.open, seen.succeeded, seen.failed


def test_callbacks_wait_for_the_last_job_and_each_outcome_has_its_own(world: World) -> None:
    for fails, state, wanted in ((False, "succeeded", ["ended", "well"]), (True, "failed", ["badly", "ended"])):
        made = make(world)
        first, last = pull(world)
        end(world, first, fails=fails)

        assert counts(world, made) == ("open", 1, int(not fails), int(fails))
        assert follows(world) == []
        assert why(world, jobs.get(world, f"job_{made.on_end}"))[0].facts == {"batch": made.id, "open": 1, "total": 2}

        end(world, last)
        assert counts(world, made)[:2] == (state, 0)
        assert follows(world) == wanted
        never = made.on_failure if state == "succeeded" else made.on_success
        assert jobs.get(world, f"job_{never}").cancel_reason == f"{made.id} has {state}"
    assert follows(world) == []


def test_the_last_jobs_that_end_at_the_same_moment_end_the_batch_once(each_world: World) -> None:
    world = each_world
    for _ in range(5):
        made = make(world, 4)
        held = pull(world)

        at_once(4, lambda index, held=held: end(world, held[index], fails=index == 3))  # type: ignore[misc]

        assert counts(world, made) == ("failed", 0, 3, 1)
        assert follows(world) == ["badly", "ended"]


def test_an_ending_whose_transaction_is_lost_leaves_the_batch_as_it_was_and_its_repetition_ends_it_once(
    each_world: World,
) -> None:
    world = each_world
    made = make(world, 1)
    (job,) = pull(world)
    done = settlement(job, Outcome("succeeded"), now=world.clock.now(), roll=0.5)

    def die(tx: Tx) -> None:
        assert tx.jobs.settle([done], world.clock.now()) == set()
        raise ConnectionAbortedError("killed before the commit")

    with suppress(ConnectionAbortedError):
        world.route().store.transact(die)
    assert counts(world, made) == ("open", 1, 0, 0)
    assert follows(world) == []

    end(world, job)
    with pytest.raises(LeaseLost):
        end(world, job)
    assert follows(world) == ["ended", "well"]


def test_a_job_whose_worker_died_ends_the_batch_when_it_is_lost_for_good(world: World, clock: VirtualClock) -> None:
    made = make(world, 1)
    for _ in range(3):
        assert len(pull(world)) == 1
        clock.advance(timedelta(minutes=5))
        endings.lose_expired(world)

    assert counts(world, made) == ("failed", 0, 0, 1)
    assert follows(world) == ["badly", "ended"]


def test_a_job_that_is_revived_in_time_is_waited_for_again_and_later_changes_only_the_count(world: World) -> None:
    made = make(world)
    first, last = pull(world)
    end(world, first, fails=True)
    jobs.revive(world, first.id)
    end(world, last)
    assert counts(world, made) == ("open", 1, 1, 0)

    (again,) = pull(world)
    end(world, again, fails=True)
    assert follows(world) == ["badly", "ended"]

    jobs.revive(world, first.id)
    (again,) = pull(world)
    end(world, again)
    assert counts(world, made) == ("failed", 0, 2, 0)
    assert follows(world) == []


def test_jobs_that_are_cancelled_for_their_parents_count_as_failed(world: World) -> None:
    parent = jobs.enqueue(world, Request("parent", retry=ONCE))
    child, plain = Request("child", after=(parent.id,)), Request("work")
    made, _ = batch.create(world, BatchRequest([child, plain], callbacks=CALLBACKS))
    for job in pull(world):
        end(world, job, fails=job.handler == "parent")
    assert counts(world, made) == ("failed", 0, 1, 1)
    assert follows(world) == ["badly", "ended"]

    late, _ = batch.create(world, BatchRequest([child], callbacks=CALLBACKS))  # its parent is dead already
    assert counts(world, late) == ("failed", 0, 0, 1)
    assert follows(world) == ["badly", "ended"]


def test_a_cancelled_batch_ends_its_waiting_jobs_and_asks_the_running_ones_to_stop(world: World) -> None:
    made = make(world, 3)
    (running, *_) = claims.pull(world, worker_id="w", queues=["default"], limit=1)

    seen = batch.cancel(world, made.id, actor="ann", reason="not needed")
    assert (seen.state, seen.open, seen.failed, seen.cancel_reason) == ("open", 1, 2, "not needed")
    assert jobs.get(world, running.id).cancel_requested
    endings.settle(world, [(jobs.get(world, running.id), Outcome("cancelled"))])

    assert follows(world) == ["badly", "ended"]
    with refused(NotAllowed, "batch_has_ended", id=made.id, state="failed"):
        batch.cancel(world, made.id)
    seen_in_audit = world.route().store.read(lambda tx: tx.audit.find(object_id=made.id, limit=10, before=None))
    assert [entry.verb for _, entry in seen_in_audit] == ["cancel_batch", "create_batch"]


def test_what_a_dead_process_left_behind_is_mended(each_world: World) -> None:
    world = each_world
    made = make(world, 2)
    world.route().store.transact(lambda tx: tx.batches.cancel(made.number, "half way"))

    assert batch.mend(world) == 2
    assert counts(world, made) == ("failed", 0, 0, 2)
    assert batch.mend(world) == 0
    assert follows(world) == ["badly", "ended"]


def test_the_same_key_is_the_same_batch_also_at_the_same_moment(each_world: World) -> None:
    world = each_world
    made = at_once(3, lambda _: make(world, 2, key="import-7"))

    assert len({each.id for each in made}) == 1
    assert len(pull(world)) == 2
    with refused(KeyConflict, "key_taken", key="import-7"):
        make(world, 3, key="import-7")
    assert make(world, 2, key="import-7").id == made[0].id


def test_results_reach_the_child_and_the_callback_in_order_and_in_one_statement(each_world: World) -> None:
    world = each_world
    first, second = (jobs.enqueue(world, Request("work", {"n": n})) for n in (1, 2))
    child = jobs.enqueue(world, Request("sum", after=(second.id, first.id)))
    brave = jobs.enqueue(world, Request("sum", after=(first.id,), on_parent_dead="run"))
    for job in pull(world):
        end(world, job)

    found = jobs.parent_results(world, child.id)
    assert [(each.id, each.state, each.handler, each.result) for each in found] == [
        (second.id, "succeeded", "work", {"n": 2}),
        (first.id, "succeeded", "work", {"n": 1}),
    ]
    assert [each.id for each in jobs.parent_results(world, brave.id)] == [first.id]
    assert jobs.parent_results(world, first.id) == ()
    made = make(world, 2)
    members = [job for job in pull(world) if job.handler == "work"]
    end(world, members[0])
    end(world, members[1], fails=True)
    seen = jobs.parent_results(world, f"job_{made.on_failure}")
    assert [(each.state, each.result, each.error) for each in seen] == [
        ("succeeded", {"n": 0}, None), ("dead", None, "no")
    ]  # fmt: skip


def test_results_that_are_too_large_together_are_refused_and_not_read(each_world: World) -> None:
    world = each_world
    parents = [jobs.enqueue(world, Request("work")).id for _ in range(3)]
    child = jobs.enqueue(world, Request("sum", after=tuple(parents)))
    for job in pull(world):
        endings.ack(world, job.id, job.token, result="x" * 100)

    found, size = world.route().store.read(
        lambda tx: tx.jobs.parent_results(jobs.get(world, child.id).number, most_bytes=250)
    )
    assert ([each.result is None for each in found], size) == ([False, False, True], 306)
    with refused(InvalidInput, "too_many_parents", count=MOST_PARENTS + 1, most=MOST_PARENTS):
        jobs.enqueue(world, Request("sum", after=tuple(f"job_{n}" for n in range(MOST_PARENTS + 1))))


def test_what_cannot_be_a_batch_is_refused_and_stores_nothing(world: World) -> None:
    work = Request("work")
    for asked, reason in (
        (BatchRequest([]), "batch_empty"),
        (BatchRequest([work] * 10_001), "batch_too_large"),
        (BatchRequest([Request("work", key="k")]), "batch_job_named"),
        (BatchRequest([work], owner="alice"), "batch_owner_differs"),
        (BatchRequest([work], callbacks={"on_end": Request("a", after=("job_1",))}), "batch_callback_waits"),
    ):
        with refused(InvalidInput, reason):
            batch.create(world, asked)
    with pytest.raises(QuotaExceeded):
        batch.create(world, BatchRequest([work] * 3), allowed=2)
    with refused(NotFound, "batch_unknown", id="batch_9"):
        batch.get(world, "batch_9")
    assert (batch.find(world), pull(world)) == (([], None), [])


def test_batches_are_listed_and_forgotten_after_their_time(world: World, clock: VirtualClock) -> None:
    made = [make(world, 1) for _ in range(3)]
    for job in pull(world):
        end(world, job)
    page, further = batch.find(world, limit=2)
    assert ([each.id for each in page], further) == ([made[2].id, made[1].id], made[1].number)
    assert [each.id for each in batch.find(world, before=further)[0]] == [made[0].id]
    assert batch.find(world, states=["open"]) == ([], None)
    assert batch.members(world, made[0].id, state="succeeded")[0] == [1]

    follows(world)
    clock.advance(timedelta(days=60))
    while any(clean(world, Retention()).values()):
        pass
    assert batch.find(world) == ([], None)
