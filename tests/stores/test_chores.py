"""Whose turn a chore is: one process at a time, and the next when it dies."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

from horae.actions.roll_up import keep_up
from horae.core.audit.chain import Head, Seal
from horae.core.audit.entries import Entry
from horae.core.jobs.job import Outcome, settlement
from horae.ports.chores import ChoreTurn
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import put, take

LEASE, EVERY = timedelta(seconds=30), timedelta(hours=1)
MOMENT = timedelta(microseconds=1)


def asks(store: SqlStore, token: str, now: datetime = NOON, name: str = "seal") -> ChoreTurn:
    return store.take_chore(name, token=token, holder="h:1", every=EVERY, lease=LEASE, now=now)


def test_a_chore_is_had_by_one_process_until_it_is_done_and_due_again(store: SqlStore) -> None:
    assert asks(store, "a") == ChoreTurn(True, NOON + LEASE)
    assert asks(store, "b") == ChoreTurn(False, NOON + LEASE)
    assert asks(store, "c", name="clean").is_taken, "another chore is another matter"

    assert store.end_chore("seal", "a", due_at=NOON + EVERY, done_at=NOON)
    assert asks(store, "b", NOON + EVERY - MOMENT) == ChoreTurn(False, NOON + EVERY)
    assert asks(store, "b", NOON + EVERY).is_taken


def test_what_a_dead_process_held_is_taken_over_and_its_late_words_are_refused(store: SqlStore) -> None:
    asks(store, "dead")
    later = NOON + LEASE

    assert not asks(store, "heir", later - MOMENT).is_taken
    assert asks(store, "heir", later).is_taken

    assert not store.extend_chore("seal", "dead", until=later + LEASE, now=later)
    assert not store.end_chore("seal", "dead", due_at=later + EVERY, done_at=later)
    assert store.extend_chore("seal", "heir", until=later + 2 * LEASE, now=later)
    assert asks(store, "third", later + LEASE) == ChoreTurn(False, later + 2 * LEASE)


def test_a_lease_that_ran_out_cannot_be_extended_although_no_process_took_over(store: SqlStore) -> None:
    asks(store, "frozen")

    assert not store.extend_chore("seal", "frozen", until=NOON + 3 * LEASE, now=NOON + LEASE)
    assert asks(store, "heir", NOON + LEASE).is_taken


def test_a_chore_that_a_restored_copy_has_put_off_for_years_is_due(store: SqlStore) -> None:
    asks(store, "a", NOON + timedelta(days=1000))
    store.end_chore("seal", "a", due_at=NOON + timedelta(days=1000), done_at=None)

    assert asks(store, "b").is_taken


def test_of_many_who_ask_at_once_one_gets_it(store: SqlStore, open_another: Callable[[], SqlStore]) -> None:
    stores = [store, *(open_another() for _ in range(3))]
    for turn in range(5):
        barrier = Barrier(len(stores))

        def ask(index: int, turn: int = turn, barrier: Barrier = barrier) -> bool:
            barrier.wait(20)
            return asks(stores[index], f"{turn}-{index}", NOON + turn * EVERY).is_taken

        with ThreadPoolExecutor(len(stores)) as pool:
            assert sum(pool.map(ask, range(len(stores)))) == 1


# -- what a look says is to be done ------------------------------------------------------------------------------


def test_a_look_says_whether_audit_entries_are_unsealed(store: SqlStore) -> None:
    assert not store.peek([]).unsealed
    entry = Entry(NOON, "tester", "verified", "fact", "o1", "system", None, {}, {}, ())
    store.transact(lambda tx: tx.audit.append(entry))
    assert store.peek([]).unsealed

    [(number, _)] = store.read(lambda tx: tx.audit.open_entries(1))
    store.transact(lambda tx: tx.audit.seal([Seal(number, 1, "0" * 64)], [Head("system", 1, "0" * 64)]))
    assert not store.peek([]).unsealed


def test_a_look_says_whether_children_wait_to_hear_of_an_ended_job(store: SqlStore) -> None:
    [parent] = put(store, a_new_job(max_attempts=1))
    put(store, *(a_new_job(after=(parent,), held="needs") for _ in range(150)))
    [job] = take(store)
    assert not store.peek([]).unsettled

    store.settle([settlement(job, Outcome("failed", error="no"), now=NOON, roll=0.5)], now=NOON)
    assert store.peek([]).unsettled, "the ending itself settles a hundred"

    while store.settle_children(now=NOON, limit=100):
        continue
    assert not store.peek([]).unsettled


def test_a_look_says_whether_endings_are_not_in_the_statistics_yet(store: SqlStore) -> None:
    assert not store.peek([]).unrolled
    put(store, a_new_job())
    [job] = take(store)
    store.settle([settlement(job, Outcome("succeeded"), now=NOON, roll=0.5)], now=NOON)
    assert store.peek([]).unrolled

    world = World(store, VirtualClock(NOON + timedelta(hours=1)), LoadedDice())
    keep_up(world)
    assert not store.peek([]).unrolled
