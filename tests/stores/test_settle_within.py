"""Endings that share a transaction with something else, and claimed jobs that go back without a run."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.core.audit.entries import Entry
from horae.core.jobs.job import Ending, Job, Outcome, Run, Settlement, settlement
from horae.ports.claims import PutBack
from horae.ports.store import Tx
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import attempts, end, lease_of, lose, put, read_job, take

LATER = NOON + timedelta(hours=1)
ENDINGS: tuple[Ending, ...] = ("succeeded", "failed", "timed_out", "snoozed", "cancelled", "released", "skipped")


class Undone(Exception):
    """Rolls a transaction back."""


def ending_of(job: Job, ending: Ending, **fields: Any) -> Settlement:
    return settlement(job, Outcome(ending, **fields), now=NOON, roll=0.5)


def an_entry(object_id: str) -> Entry:
    return Entry(NOON, "tester", "verified", "fact", object_id, "system", None, {}, {}, ())


def same(job: Job | Run, first: int) -> Any:
    """A job or run as it would be, were it of the first batch."""
    return replace(job, number=first) if isinstance(job, Job) else replace(job, job_number=first)


def test_a_batch_of_every_ending_ends_as_it_does_alone(store: SqlStore) -> None:
    """The same jobs twice: once through the store's own verb, once inside a transaction."""
    tries = [1 if ending == "timed_out" else 3 for ending in ENDINGS]
    new = [a_new_job(unique=f"{turn}{i}", max_attempts=tries[i]) for turn in "ab" for i in range(len(ENDINGS))]
    numbers = put(store, *new)
    jobs = {job.number: job for job in take(store)}
    firsts, seconds = numbers[: len(ENDINGS)], numbers[len(ENDINGS) :]
    ended = [ending_of(jobs[n], ENDINGS[i % len(ENDINGS)], error="no") for i, n in enumerate(numbers)]

    assert store.settle(ended[: len(ENDINGS)], now=NOON) == set()
    assert store.transact(lambda tx: tx.jobs.settle(ended[len(ENDINGS) :], NOON)) == set()

    for first, second in zip(firsts, seconds, strict=True):
        alone, shared = read_job(store, first), read_job(store, second)
        assert same(replace(shared, unique=alone.unique), first) == alone
        assert [same(run, first) for run in attempts(store, second)] == attempts(store, first)
    assert store.read(lambda tx: len(tx.audit.find(object_id=None, limit=10, before=None))) == 2, "two deaths"


def test_an_ending_and_what_it_is_about_are_undone_together(store: SqlStore) -> None:
    put(store, a_new_job())
    [job] = take(store)

    def write(tx: Tx) -> None:
        assert tx.jobs.settle([ending_of(job, "succeeded")], NOON) == set()
        tx.audit.append(an_entry("o1"))
        raise Undone

    with pytest.raises(Undone):
        store.transact(write)

    assert (read_job(store, job.number).state, attempts(store, job.number)[-1].outcome) == ("running", "running")
    assert store.read(lambda tx: tx.audit.find(object_id="o1", limit=1, before=None)) == []
    assert end(store, job)


def test_a_stale_token_is_refused_and_the_rest_of_the_batch_is_not(store: SqlStore) -> None:
    put(store, a_new_job(), a_new_job())
    zombie, mine = take(store)
    lose_one = [replace(ending_of(zombie, "lost"), expired_before=None)]
    store.settle(lose_one, now=NOON)

    batch = [ending_of(zombie, "succeeded"), ending_of(mine, "succeeded"), ending_of(mine, "failed")]
    assert store.transact(lambda tx: tx.jobs.settle(batch, NOON)) == {zombie.number}

    assert (read_job(store, zombie.number).state, read_job(store, mine.number).state) == ("queued", "succeeded")
    assert store.transact(lambda tx: tx.jobs.settle(batch, NOON)) == {zombie.number, mine.number}
    assert store.transact(lambda tx: tx.jobs.settle([], NOON)) == set()


def test_sleepers_are_woken_after_the_commit_and_not_before(store: SqlStore) -> None:
    put(store, a_new_job(concurrency_key="k"), a_new_job(concurrency_key="k", queue="other"))
    [job] = take(store)
    assert take(store, queue="other") == [], "the only place is taken"
    heard: list[str] = []
    unsubscribe = store.subscribe(heard.append)

    def write(tx: Tx) -> list[str]:
        tx.jobs.settle([ending_of(job, "succeeded")], NOON)
        return [queue for queue in heard if queue == "other"]

    assert store.transact(write) == []
    assert "other" in heard
    unsubscribe()
    assert len(take(store, queue="other")) == 1


# -- put back ----------------------------------------------------------------------------------------------------


def back(job: Job, **fields: Any) -> PutBack:
    return replace(PutBack(job.number, job.token, LATER), **fields)


def put_back(store: SqlStore, *returned: PutBack) -> set[int]:
    return store.transact(lambda tx: tx.jobs.put_back(returned))


def test_a_job_that_is_put_back_has_neither_run_nor_attempt_and_a_higher_token(store: SqlStore) -> None:
    put(store, a_new_job(), a_new_job())
    job, other = take(store)

    assert put_back(store, back(job, reason="the budget is empty"), back(other)) == set()

    kept = read_job(store, job.number)
    assert (kept.state, kept.run_at, kept.attempt, kept.token) == ("queued", LATER, 0, job.token + 1)
    assert (kept.worker_id, kept.leased_until, kept.started_at) == (None, None, None)
    assert (kept.last_error, read_job(store, other.number).last_error) == ("the budget is empty", None)
    assert attempts(store, job.number) == []
    assert take(store) == []
    assert not end(store, job), "its old holder can write no more"
    assert [each.number for each in take(store, now=LATER)] == [job.number, other.number]


def test_what_is_no_longer_held_or_to_be_cancelled_is_not_put_back(store: SqlStore) -> None:
    put(store, *(a_new_job() for _ in range(3)))
    lost, unwanted, held = take(store)
    store.transact(lambda tx: tx.jobs.ask_to_cancel(unwanted, reason="changed my mind"))
    store.settle([replace(ending_of(lost, "lost"), expired_before=None)], now=NOON)

    assert put_back(store, back(lost), back(unwanted), back(held)) == {lost.number, unwanted.number}

    assert read_job(store, unwanted.number).state == "running"
    assert read_job(store, lost.number).run_at == NOON
    assert put_back(store, back(held)) == {held.number}, "it was put back once"


def test_a_job_that_is_put_back_frees_its_place(store: SqlStore) -> None:
    put(store, a_new_job(concurrency_key="k"), a_new_job(concurrency_key="k"))
    [first] = take(store)

    put_back(store, back(first))

    [second] = take(store)
    assert second.number != first.number


def test_a_held_job_cannot_change_hands_while_it_is_locked(
    store: SqlStore, open_another: Callable[[], SqlStore]
) -> None:
    """The reaper of another process skips it, and takes it once the transaction has ended."""
    put(store, a_new_job(), a_new_job())
    job, other = take(store)
    end(store, other)
    other_process, past = open_another(), NOON + 2 * LEASE

    def write(tx: Tx) -> set[int]:
        held = tx.jobs.lock_held([lease_of(job), lease_of(other), replace(lease_of(job), job_number=99)])
        if store.dialect.locking:  # SQLite has one writer at a time
            assert lose(other_process, past) == set()
        return held

    assert store.transact(write) == {job.number}
    assert lose(other_process, past) == {job.number}
