"""Batches through all four senders: made, listed, waited for, cancelled, within the caller's reach."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from horae.actions.jobs import claims, endings
from horae.actions.jobs.requests import Request
from horae.api.jobs.batch import JobBatch
from horae.errors import InvalidInput, NotFound, WaitTimeout
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served


def end_all(served: Served, queue: str) -> None:
    for job in claims.pull(served.world, worker_id="w", queues=[queue]):
        endings.ack(served.world, job.id, job.token, result={"n": 1})


def test_a_batch_is_made_waited_for_and_its_callback_reads_the_results(rooms: Sent, served: Served) -> None:
    jobs = [Request("work", {"n": n}, queue="batched") for n in range(2)]
    made: JobBatch = rooms.house.batches.create(
        jobs, name="import", on_success=Request("report", queue="reports"), on_failure=Request("page", queue="reports")
    )
    assert (made.state, made.total, made.open, made.progress) == ("open", 2, 2, 0.0)
    with refused(WaitTimeout, "batch_not_ended_in_time", id=made.id, open=2):
        rooms.house.batches.wait(made.id, timeout=0)

    with ThreadPoolExecutor(1) as beside:
        beside.submit(end_all, served, "batched")
        ended = rooms.house.batches.wait(made.id, timeout="1m")

    assert (ended.state, ended.succeeded, ended.progress) == ("succeeded", 2, 1.0)
    results = rooms.house.jobs.parents(made.on_success)
    assert [each.result for each in results] == [{"n": 1}] * 2
    assert rooms.house.jobs.related(made.on_success).batch == made.id
    assert rooms.house.jobs.get(made.on_failure).state == "cancelled"
    end_all(served, "reports")


def test_a_tenant_sees_its_own_batches_only(rooms: Sent) -> None:
    ours = rooms.house.batches.create([Request("work", queue="ours")])
    hers = rooms.alice.batches.create([Request("work", queue="hers")], key=f"once-{ours.id}")
    again = rooms.alice.batches.create([Request("work", queue="hers")], key=f"once-{ours.id}")

    assert again.id == hers.id
    assert hers.owner == "alice"
    with refused(NotFound, "batch_unknown", id=ours.id):
        rooms.alice.batches.get(ours.id)
    with refused(InvalidInput, "batch_empty"):
        rooms.alice.batches.create([])
    cancelled = rooms.alice.batches.cancel(hers.id, reason="no")
    assert (cancelled.state, cancelled.failed) == ("failed", 1)
    rooms.house.batches.cancel(ours.id)


def test_a_batch_says_in_the_audit_why_it_was_made(rooms: Sent, served: Served) -> None:
    made = rooms.house.batches.create([Request("work", queue="why")], reason="the quarter has ended")
    rooms.house.batches.cancel(made.id)
    written = served.world.store.read(lambda tx: tx.audit.find(object_id=made.id, limit=10, before=None))

    assert ("create_batch", "the quarter has ended") in [(entry.verb, entry.reason) for _, entry in written]


def test_batches_and_their_jobs_are_listed(rooms: Sent) -> None:
    made = rooms.house.batches.create([Request("work", queue="listed")] * 3)

    newest = rooms.house.batches.list(state="open", limit=1)
    jobs = rooms.house.batches.jobs(made.id, state="open")

    assert [each.id for each in listed(newest)] == [made.id]
    assert len(listed(jobs)) == 3
    assert listed(rooms.house.batches.jobs(made.id, state="failed")) == []
    rooms.house.batches.cancel(made.id)


def listed(found: Any) -> list[Any]:
    rows: list[Any] = list(found)
    return rows
