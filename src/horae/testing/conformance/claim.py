"""What every store must do when a worker asks for work: only due jobs, in order, within every limit, once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.core.jobs.job import Ending
from horae.ports.store import Store
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, configure, declare, end, lose, numbers, put, read_job, take

SECOND = timedelta(seconds=1)


class ClaimConformance:
    """Claims: due only, ordered, exact, exclusive, within pauses, limits and concurrency keys."""

    def test_a_claim_leases_the_job_to_the_worker(self, store: Store) -> None:
        """S0-12, C-9."""
        put(store, a_new_job())

        [job] = take(store, worker="w7", now=NOON + SECOND)

        assert (job.state, job.token, job.worker_id, job.attempt) == ("running", 1, "w7", 0)
        assert (job.started_at, job.leased_until) == (NOON + SECOND, NOON + SECOND + LEASE)

    def test_a_claim_answers_with_what_is_stored(self, store: Store) -> None:
        put(store, a_new_job({"a": 1}, tags=("t",), key="k"), a_new_job(concurrency_key="c"))

        taken = take(store)

        assert taken == [read_job(store, job.number) for job in taken]

    def test_what_is_not_due_is_never_claimed(self, store: Store) -> None:
        """S0-11, S0-21, I9."""
        put(store, *(a_new_job(run_at=NOON + timedelta(microseconds=1), priority=band) for band in ("high", "low")))

        assert take(store) == []

    def test_a_job_is_due_at_its_very_instant(self, store: Store) -> None:
        put(store, a_new_job(run_at=NOON))

        assert len(take(store, now=NOON)) == 1

    def test_the_second_claim_finds_nothing(self, store: Store) -> None:
        put(store, a_new_job())
        take(store)

        assert take(store) == []

    def test_only_the_queue_asked_for_is_served(self, store: Store) -> None:
        put(store, a_new_job(queue="mail"), a_new_job(queue="Mail"))

        assert [job.queue for job in take(store, queue="mail")] == ["mail"]

    @pytest.mark.parametrize("limit", [1, 2, 4, 7, 8, 100])
    def test_a_limit_is_exact_over_all_bands(self, store: Store, limit: int) -> None:
        put(store, *(a_new_job(priority=band) for band in ("high", "medium", "low", "high", "low", "medium", "low")))

        assert len(take(store, limit)) == min(limit, 7)

    def test_a_tenants_claim_takes_only_what_is_the_tenants(self, store: Store) -> None:
        """I10, C-31."""
        declare(store)
        put(store, *(a_new_job(owner=owner) for owner in ("alice", "bob", "Alice", "system", "alice")))

        assert [job.owner for job in take(store, owner="alice")] == ["alice", "alice"]
        assert [job.owner for job in take(store)] == ["bob", "Alice", "system"]

    def test_a_tenants_claim_keeps_the_order_and_every_limit(self, store: Store) -> None:
        configure(store, max_running=2)
        put(store, *(a_new_job(owner="alice", priority=band) for band in ("low", "high", "medium")))

        assert [job.priority for job in take(store, owner="alice", order="run_at")] == ["high", "medium"]

    # -- order: S0-11, S0-22, C-19 -------------------------------------------------------------------------------

    def test_bands_come_first_then_due_time_then_number(self, store: Store) -> None:
        late, early = NOON, NOON - SECOND
        low, late1, late2, high, early1 = put(
            store,
            a_new_job(priority="low", run_at=NOON - timedelta(days=9)),
            a_new_job(run_at=late),
            a_new_job(run_at=late),
            a_new_job(priority="high", run_at=late),
            a_new_job(run_at=early),
        )

        assert numbers(take(store)) == [high, early1, late1, late2, low]

    @pytest.mark.parametrize("from_queue", [True, False], ids=["as the queue says", "as the claim says"])
    def test_due_time_comes_first_where_that_is_the_order(self, store: Store, from_queue: bool) -> None:
        high, low, medium, older = put(
            store,
            a_new_job(priority="high"),
            a_new_job(priority="low"),
            a_new_job(),
            a_new_job(priority="low", run_at=NOON - SECOND),
        )
        if from_queue:
            configure(store, order="run_at")

        assert numbers(take(store, order=None if from_queue else "run_at")) == [older, high, medium, low]

    def test_claims_one_by_one_keep_the_order(self, store: Store) -> None:
        low, high, medium = put(store, *(a_new_job(priority=band) for band in ("low", "high", "medium")))

        assert [take(store, 1)[0].number for _ in range(3)] == [high, medium, low]

    def test_one_by_one_in_order_of_due_time(self, store: Store) -> None:
        first, second, third = put(
            store,
            a_new_job(priority="low", run_at=NOON - 3 * SECOND),
            a_new_job(priority="high", run_at=NOON - 2 * SECOND),
            a_new_job(run_at=NOON - SECOND),
        )

        assert [take(store, 1, order="run_at")[0].number for _ in range(3)] == [first, second, third]

    def test_jobs_with_and_without_concurrency_keys_come_in_one_order(self, store: Store) -> None:
        given = put(store, *(a_new_job(concurrency_key=f"c{index}" if index % 2 else None) for index in range(6)))

        assert numbers(take(store)) == given

    # -- exclusion ------------------------------------------------------------------------------------------------

    def test_threads_that_claim_at_once_never_share_a_job(self, store: Store) -> None:
        """S0-39, I2."""
        given = put(store, *(a_new_job() for _ in range(240)))

        def drain(index: int) -> list[int]:
            mine: list[int] = []
            while got := take(store, 7, worker=f"w{index}"):
                mine += numbers(got)
            return mine

        taken = [number for mine in at_once(6, drain) for number in mine]

        assert sorted(taken) == given

    # -- pause and limits ------------------------------------------------------------------------------------------

    def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self, store: Store) -> None:
        put(store, a_new_job())
        configure(store, paused_at=NOON)

        paused = take(store)
        configure(store, paused_at=None)

        assert (paused, len(take(store))) == ([], 1)

    def test_quiet_hours_that_began_close_a_queue_before_anyone_paused_it(self, store: Store) -> None:
        put(store, a_new_job(), a_new_job())
        configure(store, quiet_at=NOON + timedelta(hours=1))

        before = take(store, 1)
        configure(store, quiet_at=NOON)

        assert (len(before), take(store), take(store, order="run_at")) == (1, [], [])

    def test_a_queue_never_runs_more_than_its_limit(self, store: Store) -> None:
        """I11."""
        put(store, *(a_new_job() for _ in range(5)))
        configure(store, max_running=2)

        first, second = take(store), take(store)
        end(store, first[0])

        assert (len(first), len(second), len(take(store))) == (2, 0, 1)

    def test_threads_together_keep_the_limit_of_a_queue(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in range(30)))
        configure(store, max_running=5)

        taken = at_once(6, lambda index: take(store, 3, worker=f"w{index}"))

        assert sum(map(len, taken)) == 5

    # -- concurrency keys: C-20, I11 -------------------------------------------------------------------------------

    @pytest.mark.parametrize("limit", [1, 3])
    def test_no_more_jobs_of_a_key_run_than_its_limit(self, store: Store, limit: int) -> None:
        put(store, *(a_new_job(concurrency_key="c", concurrency_limit=limit) for _ in range(5)))

        assert (len(take(store)), len(take(store))) == (limit, 0)

    def test_threads_together_keep_the_limit_of_a_key(self, store: Store) -> None:
        put(store, *(a_new_job(concurrency_key="c", concurrency_limit=2) for _ in range(20)))

        taken = at_once(6, lambda index: take(store, 3, worker=f"w{index}"))

        assert sum(map(len, taken)) == 2

    def test_a_job_obeys_the_limit_it_was_enqueued_with(self, store: Store) -> None:
        put(store, a_new_job(concurrency_key="c", concurrency_limit=5))
        [strict] = put(store, a_new_job(concurrency_key="c", concurrency_limit=1))
        put(store, a_new_job(concurrency_key="c", concurrency_limit=5))

        assert strict not in numbers(take(store))

    @pytest.mark.parametrize("ending", ["succeeded", "failed", "snoozed", "released", "cancelled"])
    def test_whoever_ends_hands_the_slot_to_the_next(self, store: Store, ending: Ending) -> None:
        first, second, _third = put(store, *(a_new_job(concurrency_key="c") for _ in range(3)))
        [job] = take(store)
        end(store, job, ending, delay=timedelta(hours=1))

        left = numbers(take(store))

        assert left == ([first] if ending == "released" else [second])

    def test_a_lost_job_hands_its_slot_on(self, store: Store) -> None:
        put(store, *(a_new_job(concurrency_key="c") for _ in range(2)))
        take(store)
        after = NOON + 2 * LEASE

        lose(store, after)

        assert len(take(store, now=after)) == 1

    @pytest.mark.parametrize("size", [1, 50], ids=["one at a time", "fifty at a time"])
    def test_hundreds_of_held_jobs_do_not_block_their_queue(self, store: Store, size: int) -> None:
        put(store, *(a_new_job(priority="high", concurrency_key="c") for _ in range(300)))
        [plain] = put(store, a_new_job(priority="low"))
        take(store, 1)

        assert numbers(take(store, size)) == [plain]

    def test_every_held_job_gets_its_turn(self, store: Store) -> None:
        given = put(store, *(a_new_job(concurrency_key="c", concurrency_limit=2) for _ in range(30)))
        done: list[int] = []

        while batch := take(store):
            assert len(batch) <= 2
            for job in batch:
                end(store, job)
            done += numbers(batch)

        assert sorted(done) == given

    def test_cancelling_the_next_in_line_lets_the_one_behind_it_run(self, store: Store) -> None:
        _, second, third = put(store, *(a_new_job(concurrency_key="c") for _ in range(3)))
        [running] = take(store)
        end(store, running)

        job = read_job(store, second)
        store.transact(lambda tx: tx.jobs.end_waiting(job, reason="", now=NOON))

        assert numbers(take(store)) == [third]

    @pytest.mark.parametrize("when", ["while it is held", "when it is next"])
    def test_moving_a_job_away_lets_the_one_behind_it_run(self, store: Store, when: str) -> None:
        _, second, third = put(store, *(a_new_job(concurrency_key="c") for _ in range(3)))
        [running] = take(store)
        take(store)
        if when == "when it is next":
            end(store, running)
        job = read_job(store, second)
        store.transact(lambda tx: tx.jobs.requeue(job, run_at=NOON + timedelta(days=1), attempt=0, band=0, now=NOON))
        if when == "while it is held":
            end(store, running)

        assert numbers(take(store)) == [third]

    def test_a_paused_queue_does_not_keep_the_slot_of_a_shared_key(self, store: Store) -> None:
        put(store, a_new_job(concurrency_key="c", queue="a"))
        put(store, a_new_job(concurrency_key="c", queue="b"))
        [third] = put(store, a_new_job(concurrency_key="c", queue="a"))
        [running] = take(store, queue="a")
        take(store, queue="a")
        take(store, queue="b")
        configure(store, "b", paused_at=NOON)

        end(store, running)

        assert numbers(take(store, queue="a")) == [third]
