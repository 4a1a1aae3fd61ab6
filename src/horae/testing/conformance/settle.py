"""What every store must do when an attempt ends: obey only the current token, write once, keep what matters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horae.core.jobs.job import Ending, Outcome, settlement
from horae.core.jobs.payloads import encode
from horae.errors import LeaseLost
from horae.ports.store import Store
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import (
    HOSTILE,
    at_once,
    attempts,
    end,
    lease_of,
    lose,
    numbers,
    put,
    read_job,
    take,
)

SECOND = timedelta(seconds=1)
LATER = NOON + 2 * LEASE


class SettleConformance:
    """Endings: fenced by token (I3), written once (I4), counted (I5), isolated from their neighbours."""

    def test_a_success_ends_the_job_with_its_result(self, store: Store) -> None:
        """S0-14, S0-15, S0-16."""
        put(store, a_new_job({"a": 1}, tags=("t",), key="k", trace_id="trace"))
        [job] = take(store)
        verdicts: dict[str, Any] = {"result": '{"b":2}', "next_action_at": NOON + SECOND, "audit_event_id": "aud_1"}

        end(store, job, now=NOON + SECOND, **verdicts)

        done = read_job(store, job.number)
        assert (done.state, done.result, done.finished_at, done.payload) == (
            "succeeded", {"b": 2}, NOON + SECOND, {"a": 1},
        )  # fmt: skip
        assert (done.tags, done.key, done.trace_id, done.token, done.attempt) == (("t",), "k", "trace", 1, 0)
        [run] = attempts(store, job.number)
        assert (run.outcome, run.next_action_at, run.audit_event_id, run.worker_id, run.started_at, run.error) == (
            "succeeded", NOON + SECOND, "aud_1", "w1", NOON, None,
        )  # fmt: skip

    def test_hostile_results_come_back_unchanged(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in HOSTILE))
        taken = take(store)
        written = [
            settlement(job, Outcome("succeeded", result=encode(value)), now=NOON, roll=0.5)
            for job, value in zip(taken, HOSTILE, strict=True)
        ]

        store.settle(written, now=NOON)

        assert [encode(read_job(store, job.number).result) for job in taken] == [encode(value) for value in HOSTILE]

    @pytest.mark.parametrize("most", [1, 3], ids=["dead", "tried again"])
    def test_hostile_errors_come_back_unchanged(self, store: Store, most: int) -> None:
        texts = [value for value in HOSTILE if isinstance(value, str)]
        put(store, *(a_new_job(max_attempts=most) for _ in texts))
        taken = take(store)
        written = [
            settlement(job, Outcome("failed", error=text), now=NOON, roll=0.5)
            for job, text in zip(taken, texts, strict=True)
        ]

        store.settle(written, now=NOON)

        assert [read_job(store, job.number).last_error for job in taken] == texts
        assert [attempts(store, job.number)[0].error for job in taken] == texts

    def test_a_failure_is_tried_again_later(self, store: Store) -> None:
        """S0-18, S0-19."""
        put(store, a_new_job(retry='{"kind":"fixed","delay":60}'))
        [job] = take(store)

        end(store, job, "failed", error="no", now=NOON + SECOND)

        again = read_job(store, job.number)
        assert (again.state, again.attempt, again.last_error, again.run_at) == (
            "queued", 1, "no", NOON + timedelta(seconds=61),
        )  # fmt: skip
        assert (again.worker_id, again.leased_until, again.started_at, again.planned_at) == (None, None, None, NOON)
        assert again.token > job.token

    def test_the_last_failure_leaves_a_dead_job_that_blocks_nobody(self, store: Store) -> None:
        """S0-20, S0-24."""
        put(store, a_new_job(max_attempts=1))
        [job] = take(store)
        end(store, job, "failed", error="no", now=NOON + SECOND)
        [neighbour] = put(store, a_new_job())

        dead = read_job(store, job.number)

        assert (dead.state, dead.attempt, dead.last_error, dead.finished_at) == ("dead", 1, "no", NOON + SECOND)
        assert numbers(take(store, now=LATER)) == [neighbour]

    def test_a_death_writes_its_audit_entry(self, store: Store) -> None:
        put(store, a_new_job(max_attempts=1))
        [job] = take(store)

        end(store, job, "failed", error="no")

        [(_, entry)] = store.read(lambda tx: tx.audit.find(object_id=job.id, limit=10, before=None))
        assert (entry.verb, entry.reason, entry.evidence) == ("dead", "no", (f"run:{job.run_id}",))

    @pytest.mark.parametrize(("ending", "due"), [("snoozed", NOON + 9 * SECOND), ("released", NOON)])
    def test_what_is_put_back_costs_no_attempt(self, store: Store, ending: Any, due: Any) -> None:
        put(store, a_new_job())
        [job] = take(store)

        end(store, job, ending, delay=9 * SECOND)

        again = read_job(store, job.number)
        assert (again.state, again.attempt, again.run_at) == ("queued", 0, due)

    def test_every_attempt_leaves_one_run(self, store: Store) -> None:
        put(store, a_new_job(retry='{"kind":"fixed","delay":0}'))
        endings: tuple[Ending, ...] = ("failed", "snoozed", "timed_out")
        for ending in endings:
            end(store, take(store)[0], ending, error=ending)

        [job] = take(store)

        verdicts = [run.outcome for run in attempts(store, job.number)]
        assert verdicts == ["failed", "snoozed", "timed_out", "running"]

    def test_a_large_batch_of_every_ending_is_settled_at_once(self, store: Store) -> None:
        put(store, *(a_new_job(max_attempts=1 if index % 2 else 3) for index in range(1000)))
        endings: tuple[Ending, ...] = ("succeeded", "failed", "snoozed", "cancelled", "released")
        taken = take(store, 1000)
        written = [settlement(job, Outcome(endings[index % 5]), now=NOON, roll=0.5) for index, job in enumerate(taken)]

        assert store.settle(written, now=NOON) == set()

        counts = store.read(lambda tx: tx.jobs.counts(None, None, now=NOON))
        verdicts = {state: counts.get(("default", state), 0) for state in ("succeeded", "cancelled", "dead", "queued")}
        assert verdicts == {"succeeded": 200, "cancelled": 200, "dead": 100, "queued": 500}

    def test_nothing_to_settle_is_no_trouble(self, store: Store) -> None:
        assert store.settle([], now=NOON) == set()

    # -- fencing: C-9, I3 ------------------------------------------------------------------------------------------

    def test_a_second_ending_is_refused(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)
        end(store, job, result="1")

        assert not end(store, job, result="2")
        assert read_job(store, job.number).result == 1

    @pytest.mark.parametrize("ending", ["succeeded", "failed", "snoozed", "released", "cancelled"])
    def test_a_stale_token_changes_nothing(self, store: Store, ending: Any) -> None:
        put(store, a_new_job())
        [zombie] = take(store, worker="zombie")
        lose(store, LATER)
        [owner] = take(store, worker="owner", now=LATER)

        accepted = end(store, zombie, ending, now=LATER, error="stale", result="1")

        assert not accepted
        assert read_job(store, owner.number) == owner

    def test_a_job_that_waits_again_cannot_be_ended_by_its_old_holder(self, store: Store) -> None:
        put(store, a_new_job())
        [zombie] = take(store)
        lose(store, LATER)

        assert not end(store, zombie)
        assert read_job(store, zombie.number).state == "queued"

    @pytest.mark.parametrize("ending", ["succeeded", "failed"])
    def test_a_rejected_ending_does_not_fail_its_neighbours(self, store: Store, ending: Any) -> None:
        put(store, *(a_new_job() for _ in range(3)))
        first, second, third = take(store)
        end(store, second)

        written = [settlement(job, Outcome(ending), now=NOON, roll=0.5) for job in (first, second, third)]

        assert store.settle(written, now=NOON) == {second.number}
        assert len(attempts(store, first.number)) == len(attempts(store, third.number)) == 1

    @pytest.mark.parametrize("ending", ["succeeded", "failed"])
    def test_an_ending_told_twice_in_one_batch_counts_once(self, store: Store, ending: Any) -> None:
        put(store, a_new_job(), a_new_job())
        first, second = take(store)
        written = [settlement(job, Outcome(ending), now=NOON, roll=0.5) for job in (first, second, first)]

        store.settle(written, now=NOON)

        assert len(attempts(store, first.number)) == len(attempts(store, second.number)) == 1

    def test_two_threads_that_end_one_job_are_told_apart(self, store: Store) -> None:
        """I4: one final state, written once."""
        put(store, *(a_new_job() for _ in range(10)))
        taken = take(store)

        accepted = at_once(4, lambda index: [end(store, job, result=str(index)) for job in taken])

        assert [sum(verdicts) for verdicts in zip(*accepted, strict=True)] == [1] * 10

    # -- lost leases: C-24 -----------------------------------------------------------------------------------------

    def test_a_lost_job_is_queued_again_and_the_attempt_counts(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)

        lose(store, LATER)

        again = read_job(store, job.number)
        assert (again.state, again.attempt, again.run_at) == ("queued", 1, LATER)
        assert [run.outcome for run in attempts(store, job.number)] == ["lost"]

    def test_a_lost_job_keeps_its_progress_and_checkpoint(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)
        store.note(lease_of(job), progress='{"done":5}', now=NOON)
        store.note(lease_of(job), checkpoint='"page 6"', now=NOON)
        lose(store, LATER)

        [again] = take(store, now=LATER)

        assert (again.progress, again.checkpoint) == ({"done": 5}, "page 6")

    def test_a_lease_that_has_not_run_out_is_not_lost(self, store: Store) -> None:
        put(store, a_new_job())
        take(store)

        assert lose(store, NOON + LEASE) == set()

    def test_a_renewal_in_between_wins_against_the_reaper(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)
        silent = store.find_expired(now=LATER, limit=10)
        store.renew([lease_of(job)], until=LATER + LEASE)

        written = [settlement(each, Outcome("lost"), now=LATER, roll=0.5) for each in silent]

        assert store.settle(written, now=LATER) == {job.number}
        assert end(store, job, now=LATER)

    def test_two_reapers_lose_a_job_once(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in range(20)))
        take(store)

        lost = at_once(4, lambda _: lose(store, LATER))

        assert sum(map(len, lost)) == 20
        assert all(len(attempts(store, number)) == 1 for number in set().union(*lost))

    def test_a_job_that_kills_its_workers_dies(self, store: Store) -> None:
        """I5; with one attempt allowed, three losses are forgiven all the same."""
        [number] = put(store, a_new_job(max_attempts=1))
        now = NOON
        for _ in range(3):
            take(store, now=now)
            now += 2 * LEASE
            lose(store, now)

        dead = read_job(store, number)

        assert (dead.state, dead.attempt) == ("dead", 3)
        assert (dead.last_error or "").startswith("worker_died_3_times")

    # -- the ledger: C-35 ------------------------------------------------------------------------------------------

    def test_the_ledger_remembers_a_step(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)

        def write(tx: Any) -> None:
            tx.ledger.begin(job.number, job.token)
            tx.ledger.put(job.number, "charge", '"receipt"', NOON)

        store.transact(write)

        verdicts = store.read(lambda tx: [tx.ledger.get(job.number, step) for step in ("charge", "Charge")])
        assert verdicts == ['"receipt"', None]

    def test_a_stale_token_cannot_write_to_the_ledger(self, store: Store) -> None:
        put(store, a_new_job())
        [zombie] = take(store)
        lose(store, LATER)
        take(store, now=LATER)

        with pytest.raises(LeaseLost):
            store.transact(lambda tx: tx.ledger.begin(zombie.number, zombie.token))
