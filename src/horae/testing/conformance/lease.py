"""What every store must know about leases and sleepers: renew, note, expired, peek."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from horae.core.jobs.job import Lease
from horae.ports.store import Store
from horae.ports.workers import Node
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import at_once, configure, end, lease_of, lose, numbers, put, read_job, take

SECOND = timedelta(seconds=1)
LATER = NOON + 2 * LEASE
NODE = Node("n1", "host", 42, "0.1", NOON, NOON, {"default": 4})


class LeaseConformance:
    """Leases are extended and written to by their holder only; a peek tells when to wake."""

    def test_a_renewal_extends_the_lease(self, store: Store) -> None:
        """C-10."""
        put(store, a_new_job())
        [job] = take(store)

        renewed = store.renew([lease_of(job)], until=LATER)

        assert renewed.held == {job.number}
        assert read_job(store, job.number).leased_until == LATER

    def test_a_renewal_twice_to_the_same_instant_is_still_held(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)
        store.renew([lease_of(job)], until=LATER)

        assert store.renew([lease_of(job)], until=LATER).held == {job.number}

    def test_a_stale_lease_cannot_be_renewed(self, store: Store) -> None:
        """Fault 7: a zombie's heartbeat must not extend the new owner's lease."""
        put(store, a_new_job())
        [zombie] = take(store)
        lose(store, LATER)
        [owner] = take(store, now=LATER)

        renewed = store.renew([lease_of(zombie)], until=LATER + timedelta(days=1))

        assert renewed.held == frozenset()
        assert read_job(store, owner.number).leased_until == owner.leased_until

    def test_what_has_ended_or_never_was_cannot_be_renewed(self, store: Store) -> None:
        put(store, a_new_job(), a_new_job())
        done, held = take(store)
        end(store, done)

        renewed = store.renew([lease_of(done), lease_of(held), Lease(10**9, 1)], until=LATER)

        assert renewed.held == {held.number}

    def test_a_renewal_tells_who_should_stop(self, store: Store) -> None:
        put(store, a_new_job(), a_new_job())
        first, second = take(store)
        store.transact(lambda tx: tx.jobs.ask_to_cancel(first, reason="enough"))

        renewed = store.renew([lease_of(first), lease_of(second)], until=LATER)

        assert renewed.cancelled == {first.number}

    def test_hundreds_of_leases_are_renewed_together(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in range(700)))
        taken = take(store, 700)

        assert len(store.renew([lease_of(job) for job in taken], until=LATER).held) == 700
        assert store.find_expired(now=NOON + LEASE + SECOND, limit=10) == []

    def test_nothing_to_renew_is_no_trouble(self, store: Store) -> None:
        assert store.renew([], until=LATER).held == frozenset()

    # -- notes -----------------------------------------------------------------------------------------------------

    def test_a_note_is_kept_and_leaves_the_other_alone(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)

        assert store.note(lease_of(job), progress='{"n":1}', now=NOON)
        assert store.note(lease_of(job), checkpoint='"c"', now=NOON)
        assert store.note(lease_of(job), progress='{"n":1}', now=NOON)

        found = read_job(store, job.number)
        assert (found.progress, found.checkpoint) == ({"n": 1}, "c")

    def test_a_note_with_nothing_to_say_only_tells_whether_the_lease_holds(self, store: Store) -> None:
        put(store, a_new_job())
        [job] = take(store)

        held = store.note(lease_of(job), now=NOON)
        end(store, job)

        assert (held, store.note(lease_of(job), now=NOON)) == (True, False)

    def test_a_stale_token_cannot_note(self, store: Store) -> None:
        put(store, a_new_job())
        [zombie] = take(store)
        lose(store, LATER)
        [owner] = take(store, now=LATER)

        assert not store.note(lease_of(zombie), progress="1", checkpoint="1", now=NOON)
        assert read_job(store, owner.number) == owner

    # -- the reaper's question ---------------------------------------------------------------------------------------

    def test_expired_leases_come_oldest_first_up_to_the_limit(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in range(3)))
        [first] = take(store, 1, lease=3 * SECOND)
        [second] = take(store, 1, lease=2 * SECOND)
        take(store, 1, lease=timedelta(hours=1))

        assert numbers(store.find_expired(now=NOON + 3 * SECOND, limit=10)) == [second.number]
        assert numbers(store.find_expired(now=NOON + 4 * SECOND, limit=10)) == [second.number, first.number]
        assert numbers(store.find_expired(now=NOON + 4 * SECOND, limit=1)) == [second.number]

    # -- peek --------------------------------------------------------------------------------------------------------

    def test_an_empty_store_has_nothing_to_wake_for(self, store: Store) -> None:
        found = store.peek(["default"])

        assert (found.next_due_at, found.next_expiry_at) == (None, None)

    def test_a_glance_tells_the_first_due_time_of_the_queues_asked_for(self, store: Store) -> None:
        put(store, a_new_job(run_at=NOON + 9 * SECOND, priority="high"), a_new_job(run_at=NOON + 5 * SECOND))
        put(store, a_new_job(run_at=NOON + SECOND, queue="other"))

        def first(*queues: str) -> datetime | None:
            return store.peek(queues).next_due_at

        assert (first("default"), first("default", "other"), first()) == (NOON + 5 * SECOND, NOON + SECOND, None)

    def test_a_paused_queue_wakes_nobody(self, store: Store) -> None:
        put(store, a_new_job())
        configure(store, paused_at=NOON)

        assert store.peek(["default"]).next_due_at is None

    def test_held_jobs_wake_nobody(self, store: Store) -> None:
        put(store, *(a_new_job(concurrency_key="c") for _ in range(3)))
        take(store)

        assert store.peek(["default"]).next_due_at is None

    def test_a_glance_tells_the_first_lease_to_run_out(self, store: Store) -> None:
        put(store, a_new_job(), a_new_job())
        take(store, 1, lease=9 * SECOND)
        take(store, 1, lease=5 * SECOND)

        assert store.peek(["default"]).next_expiry_at == NOON + 5 * SECOND

    def test_a_glance_with_a_node_is_its_heartbeat(self, store: Store) -> None:
        store.peek(["default"], node=NODE)
        store.peek(["default"], node=replace(NODE, seen_at=LATER))

        assert store.read(lambda tx: tx.nodes.all()) == [replace(NODE, seen_at=LATER)]

    def test_a_heartbeat_says_how_full_a_worker_is_and_leaves_what_it_was_asked_to_do(self, store: Store) -> None:
        reported = replace(NODE, busy={"default": 3}, loop_lag=SECOND / 4, memory=50_000_000)
        asked = replace(reported, drain="leave", drain_at=NOON, drain_by="ann", drain_reason="repairs")
        store.peek(["default"], node=NODE, node_id="n1")
        store.transact(lambda tx: tx.nodes.set_drain(asked))

        seen = store.peek(["default"], node=reported, node_id="n1")

        assert seen.drain == "leave"
        assert store.peek([]).drain is None
        assert store.read(lambda tx: tx.nodes.get("n1")) == asked
        assert store.read(lambda tx: tx.nodes.get("n2")) is None

    def test_a_first_heartbeat_from_many_threads_is_one_node(self, store: Store) -> None:
        at_once(6, lambda _: store.peek(["default"], node=NODE))

        assert store.read(lambda tx: tx.nodes.all()) == [NODE]

    def test_a_glance_tells_a_worker_which_of_its_jobs_should_stop(self, store: Store) -> None:
        put(store, *(a_new_job() for _ in range(3)))
        mine, _ = take(store, 2, worker="n1")
        [theirs] = take(store, 1, worker="n2")
        store.transact(lambda tx: tx.jobs.ask_to_cancel(mine, reason=""))
        store.transact(lambda tx: tx.jobs.ask_to_cancel(theirs, reason=""))

        assert store.peek(["default"], worker_id="n1").cancelled == {mine.number}

    def test_a_silent_node_is_forgotten(self, store: Store) -> None:
        store.transact(lambda tx: tx.nodes.put(NODE))
        store.transact(lambda tx: tx.nodes.put(replace(NODE, node_id="n2", seen_at=LATER)))

        forgotten = store.transact(lambda tx: tx.nodes.forget_silent(LATER))

        assert forgotten == 1
        assert [node.node_id for node in store.read(lambda tx: tx.nodes.all())] == ["n2"]

    def test_a_node_can_leave(self, store: Store) -> None:
        store.transact(lambda tx: tx.nodes.put(NODE))

        store.transact(lambda tx: tx.nodes.remove("n1"))

        assert store.read(lambda tx: tx.nodes.all()) == []

    def test_the_store_tells_its_time_or_leaves_it_to_the_system(self, store: Store) -> None:
        """C-36: where several hosts share a store, its clock rules."""
        verdicts = store.read_time()

        assert verdicts is None or abs(verdicts - datetime.now(UTC)) < timedelta(minutes=1)
