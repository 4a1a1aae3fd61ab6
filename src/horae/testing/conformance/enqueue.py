"""What every store must do with new jobs: keep them exactly, know their keys, join transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.core.cluster.numbers import job_id
from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.payloads import encode
from horae.errors import InvalidPayload, KeyConflict
from horae.ports.jobs import Placed
from horae.ports.store import Store
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import HOSTILE, at_once, end, put, read_job, take


class RuleBroken(Exception):
    """Raised by a test to make a transaction fail."""


class EnqueueConformance:
    """New jobs: exact, in order, deduplicated by key and unique name, inside the caller's transaction."""

    def test_a_stored_job_is_what_was_asked_for(self, store: Store) -> None:
        """S0-5: every field, and the defaults of the rest."""
        new = a_new_job(
            {"to": "you"}, priority="low", run_at=NOON + timedelta(microseconds=1), planned_at=NOON, tags=("a", "b"),
            handler="mail", queue="mail", owner="ann", max_attempts=7, retry='{"kind":"fixed","delay":9.5}',
            timeout=timedelta(seconds=5), key="k", unique="u", concurrency_key="c", concurrency_limit=3, trace_id="t",
            object_type="memory", object_id="o", action="verify", request_hash="h",
        )  # fmt: skip

        job = read_job(store, put(store, new)[0])

        verdicts = (
            job.handler,
            job.queue,
            job.owner,
            job.priority,
            job.payload,
            job.tags,
            job.max_attempts,
            job.timeout,
        )
        assert verdicts == ("mail", "mail", "ann", "low", {"to": "you"}, ("a", "b"), 7, timedelta(seconds=5))
        assert (job.run_at, job.planned_at, job.created_at) == (NOON + timedelta(microseconds=1), NOON, NOON)
        assert (job.key, job.unique, job.concurrency_key, job.trace_id) == ("k", "u", "c", "t")
        assert (job.object_type, job.object_id, job.action) == ("memory", "o", "verify")
        assert (job.state, job.attempt, job.token, job.last_error, job.worker_id) == ("queued", 0, 0, None, None)
        assert job.retry.wait(1, 0.5) == timedelta(seconds=9.5)

    @pytest.mark.parametrize("key", [None, "k"], ids=["plain", "keyed"])
    def test_hostile_payloads_come_back_unchanged(self, store: Store, key: str | None) -> None:
        given = put(
            store, *(a_new_job({"v": value}, key=key and f"{key}{index}") for index, value in enumerate(HOSTILE))
        )

        assert [encode(read_job(store, number).payload) for number in given] == [
            encode({"v": value}) for value in HOSTILE
        ]

    def test_the_deepest_allowed_payload_is_stored(self, store: Store) -> None:
        value: Any = 1
        for _ in range(99):
            value = [value]

        [number] = put(store, a_new_job({"value": value}))

        assert read_job(store, number).payload == {"value": value}

    def test_a_payload_of_a_mebibyte_is_stored(self, store: Store) -> None:
        text = "ü" * (512 * 1024 - 10)

        [number] = put(store, a_new_job({"t": text}))

        assert read_job(store, number).payload == {"t": text}

    def test_jobs_of_a_batch_are_numbered_in_their_order(self, store: Store) -> None:
        given = put(store, *(a_new_job({"place": index}) for index in range(2500)))

        taken = take(store, 1000) + take(store, 1000) + take(store, 1000)
        assert given == sorted(given)
        assert [(job.number, job.payload["place"]) for job in taken] == list(zip(given, range(2500), strict=True))

    def test_jobs_of_a_keyed_batch_are_numbered_in_their_order(self, store: Store) -> None:
        given = put(store, *(a_new_job({"place": index}, key=f"k{index}") for index in range(1200)))

        taken = take(store, 1000) + take(store, 1000)
        assert [(job.number, job.payload["place"]) for job in taken] == list(zip(given, range(1200), strict=True))

    def test_jobs_that_share_all_but_their_payloads_are_numbered_in_their_order(self, store: Store) -> None:
        shared = a_new_job(priority="low", owner="ann", tags=("a",), timeout=timedelta(seconds=5), concurrency_key="c")

        given = store.insert(AlikeJobs(shared, [encode({"place": place}) for place in range(2500)]), now=NOON)

        numbers = [where.number for where in given]
        first, last = read_job(store, numbers[0]), read_job(store, numbers[-1])
        assert numbers == sorted(numbers)
        assert [read_job(store, number).payload["place"] for number in numbers[::100]] == list(range(0, 2500, 100))
        assert replace(last, number=first.number, payload=first.payload) == first
        assert first == replace(read_job(store, put(store, shared)[0]), number=first.number, payload={"place": 0})

    def test_payloads_that_are_still_to_come_are_stored_in_their_order_or_not_at_all(self, store: Store) -> None:
        """A bulk enqueue is checked while its first jobs are written: one that is refused takes all with it."""

        def to_come(bad: int | None) -> Iterator[str]:
            for place in range(1, 2500):
                if place == bad:
                    raise InvalidPayload("not_json", what="payload", problem="of this test")
                yield encode({"place": place})

        with pytest.raises(InvalidPayload):
            store.insert(AlikeJobs(a_new_job(), [encode({"place": 0})], to_come(2200)), now=NOON)
        assert take(store, 10) == []
        given = store.insert(AlikeJobs(a_new_job(), [encode({"place": 0})], to_come(None)), now=NOON)

        numbers = [where.number for where in given]
        assert [read_job(store, number).payload["place"] for number in numbers[::100]] == list(range(0, 2500, 100))

    def test_hostile_payloads_of_jobs_alike_come_back_unchanged(self, store: Store) -> None:
        payloads = [encode({"v": value}) for value in HOSTILE]

        given = store.insert(AlikeJobs(a_new_job(), payloads), now=NOON)

        assert [encode(read_job(store, where.number).payload) for where in given] == payloads

    def test_no_jobs_are_no_trouble(self, store: Store) -> None:
        assert store.insert([], now=NOON) == []

    # -- idempotency keys: S0-8, I6 --------------------------------------------------------------------------------

    def test_the_same_key_and_request_is_the_same_job(self, store: Store) -> None:
        [first] = store.insert([a_new_job(key="k", request_hash="h")], now=NOON)

        [again] = store.insert([a_new_job(key="k", request_hash="h")], now=NOON + timedelta(hours=1))

        assert again == Placed(first.number, deduplicated=True, request_hash="h")

    def test_the_same_key_with_another_request_is_refused_and_names_the_job(self, store: Store) -> None:
        [number] = put(store, a_new_job(key="k", request_hash="h"))

        with pytest.raises(KeyConflict) as refusal:
            put(store, a_new_job(key="k", request_hash="other"))

        assert refusal.value.job_id == job_id(number)

    def test_a_refused_key_stores_nothing_of_its_batch(self, store: Store) -> None:
        put(store, a_new_job(key="k", request_hash="h"))

        with pytest.raises(KeyConflict):
            put(store, a_new_job(), a_new_job(key="new"), a_new_job(key="k", request_hash="other"))

        assert len(take(store)) == 1

    def test_a_key_twice_in_one_batch_is_one_job(self, store: Store) -> None:
        placed = store.insert([a_new_job(key="k", request_hash="h"), a_new_job(key="k", request_hash="h")], now=NOON)

        assert placed[0].number == placed[1].number
        assert [where.deduplicated for where in placed] == [False, True]
        assert len(take(store)) == 1

    def test_a_key_twice_in_one_batch_for_two_requests_stores_nothing(self, store: Store) -> None:
        """Also when the caller swallows the refusal and commits its own transaction."""
        batch = [a_new_job(), a_new_job(key="k", request_hash="h"), a_new_job(key="k", request_hash="other")]

        def swallow(tx: Any) -> None:
            with pytest.raises(KeyConflict):
                store.insert_on(tx.connection, batch, now=NOON)

        store.transact(swallow)

        assert take(store) == []

    def test_keys_tell_upper_from_lower_case_and_accents_apart(self, store: Store) -> None:
        names = ("key", "Key", "KEY", "kéy", "ke\u0301y")

        assert len(set(put(store, *(a_new_job(key=name, request_hash=name) for name in names)))) == len(names)

    def test_a_default_key_gives_way_to_a_typed_one_that_is_known_and_to_another_type(self, store: Store) -> None:
        """S0-6, S0-8: keys of earlier versions named the type; two types may share an id."""
        memory = a_new_job(key="o:verify", typed_key="memory:o:verify", object_type="memory", request_hash="m")
        other = a_new_job(key="o:verify", typed_key="cognition:o:verify", object_type="cognition", request_hash="c")
        [older] = put(store, a_new_job(key="memory:o:verify", object_type="memory", request_hash="m"))

        placed = store.insert([memory, other, other], now=NOON)

        assert [where.deduplicated for where in placed] == [True, False, True]
        assert (placed[0].number, placed[1].key) == (older, None)
        assert store.insert([other], now=NOON)[0].number == placed[1].number

    def test_two_types_that_ask_for_one_default_key_at_once_are_two_jobs(self, store: Store) -> None:
        def ask(index: int) -> Placed:
            kind = ("memory", "cognition")[index % 2]
            new = a_new_job(key="o:verify", typed_key=f"{kind}:o:verify", object_type=kind, request_hash=kind)
            return store.insert([new], now=NOON)[0]

        placed = at_once(20, ask)

        assert len({where.number for where in placed}) == 2
        assert sum(not where.deduplicated for where in placed) == 2

    def test_each_owner_has_keys_of_its_own(self, store: Store) -> None:
        jobs = [a_new_job(key="k", owner=owner, request_hash=owner) for owner in ("ann", "bob", "Ann")]

        assert len(set(put(store, *jobs))) == 3

    def test_a_key_outlives_its_job(self, store: Store) -> None:
        [number] = put(store, a_new_job(key="k", request_hash="h"))
        end(store, take(store)[0])

        [again] = store.insert([a_new_job(key="k", request_hash="h")], now=NOON)

        assert (again.number, again.deduplicated) == (number, True)

    def test_fifty_parallel_enqueues_of_one_key_are_one_job(self, store: Store) -> None:
        """Issue 2, point 7."""

        def enqueue(_: int) -> Placed:
            return store.insert([a_new_job(key="k", request_hash="h")], now=NOON)[0]

        placed = at_once(50, enqueue)

        assert len({where.number for where in placed}) == 1
        assert sum(not where.deduplicated for where in placed) == 1
        assert len(take(store)) == 1

    def test_parallel_batches_with_crossing_keys_are_one_job_for_each_key(self, store: Store) -> None:
        names = [f"k{index}" for index in range(20)]

        def enqueue(index: int) -> list[int]:
            mine = names if index % 2 else names[::-1]
            return put(store, *(a_new_job(key=name, request_hash=name) for name in mine))

        answers = at_once(6, enqueue)

        assert len({number for answer in answers for number in answer}) == len(names)
        assert len(take(store)) == len(names)

    # -- unique names ----------------------------------------------------------------------------------------------

    def test_a_unique_name_holds_while_its_job_is_live(self, store: Store) -> None:
        [number] = put(store, a_new_job(unique="u"))

        [waiting] = store.insert([a_new_job(unique="u")], now=NOON)
        take(store)
        [running] = store.insert([a_new_job(unique="u")], now=NOON)

        assert waiting == running == Placed(number, deduplicated=True)

    @pytest.mark.parametrize("ending", ["succeeded", "cancelled", "skipped"])
    def test_a_unique_name_is_free_after_the_end(self, store: Store, ending: Any) -> None:
        [number] = put(store, a_new_job(unique="u"))
        end(store, take(store)[0], ending)

        assert put(store, a_new_job(unique="u")) != [number]

    def test_a_dead_job_frees_its_unique_name(self, store: Store) -> None:
        [number] = put(store, a_new_job(unique="u", max_attempts=1))
        end(store, take(store)[0], "failed")

        assert put(store, a_new_job(unique="u")) != [number]

    @pytest.mark.parametrize("ending", ["failed", "snoozed", "released"])
    def test_a_job_that_goes_back_to_the_queue_keeps_its_unique_name(self, store: Store, ending: Any) -> None:
        [number] = put(store, a_new_job(unique="u"))
        end(store, take(store)[0], ending)

        assert put(store, a_new_job(unique="u")) == [number]

    # -- whose transaction -----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", [None, "k"])
    def test_a_job_in_a_transaction_that_fails_never_existed(self, store: Store, key: str | None) -> None:
        placed: list[Placed] = []

        def fail(tx: Any) -> None:
            placed.extend(store.insert_on(tx.connection, [a_new_job(key=key)], now=NOON))
            raise RuleBroken

        with pytest.raises(RuleBroken):
            store.transact(fail)

        assert store.read(lambda tx: tx.jobs.get(placed[0].number)) is None
        assert put(store, a_new_job(key=key)) == [job.number for job in take(store)]

    @pytest.mark.parametrize("key", [None, "k"])
    def test_a_job_in_a_transaction_that_commits_exists(self, store: Store, key: str | None) -> None:
        jobs = [a_new_job({"place": index}, key=key and f"{key}{index}") for index in range(3)]

        placed = store.transact(lambda tx: store.insert_on(tx.connection, jobs, now=NOON))

        assert [(job.number, job.payload["place"]) for job in take(store)] == [
            (where.number, index) for index, where in enumerate(placed)
        ]
