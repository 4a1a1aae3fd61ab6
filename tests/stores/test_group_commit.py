"""Enqueues that share a commit: each has its own answer, and nobody waits for a commit that does not come."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from horae.core.jobs.job import NewJob
from horae.errors import KeyConflict, StoreBusy, StoreError
from horae.ports.jobs import Placed
from horae.ports.store import Store
from horae.stores.databases.group_commit import GroupCommit, Ticket, Turn
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import read_job


class Book:
    """Writes groups into memory, one at a time; *open* lets the first one end."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.begun, self.open = threading.Event(), threading.Event()
        self.turn = Turn(30.0, refuse)

    def write(self, group: list[Ticket]) -> None:
        self.begun.set()
        assert self.open.wait(30)
        self.groups.append([int(each.jobs[0].payload) for each in group])
        for each in group:
            each.numbers = [int(each.jobs[0].payload)]


def refuse(waits_for_itself: bool) -> StoreBusy:
    return StoreBusy("transaction_nested" if waits_for_itself else "sqlite_locked")


def ticket(number: int) -> Ticket:
    return Ticket([a_new_job(number)], NOON)


def test_a_lone_enqueue_is_written_at_once() -> None:
    book = Book()
    book.open.set()
    alone = ticket(1)

    GroupCommit(book.turn, book.write, most=10, is_exclusive=True).submit(alone)

    assert (alone.result(), book.groups) == ([1], [[1]])


def test_enqueues_that_arrive_during_a_commit_share_the_next_one_in_order() -> None:
    book = Book()
    line = GroupCommit(book.turn, book.write, most=10, is_exclusive=True)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(line.submit, ticket(1))
        assert book.begun.wait(30)
        rest = threads.submit(line.submit, *map(ticket, (2, 3, 4)))
        while len(line) < 3:
            assert not rest.done()
        book.open.set()
        first.result(30)
        rest.result(30)

    assert book.groups == [[1], [2, 3, 4]]


def test_a_group_has_an_end() -> None:
    book = Book()
    book.open.set()

    GroupCommit(book.turn, book.write, most=2, is_exclusive=True).submit(*map(ticket, (1, 2, 3, 4, 5)))

    assert book.groups == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("is_exclusive", [True, False])
def test_an_enqueue_whose_turn_does_not_come_is_refused_or_goes_alone(is_exclusive: bool) -> None:
    book = Book()
    book.open.set()
    turn, late = Turn(0.0, refuse), ticket(2)
    line = GroupCommit(turn, book.write, most=10, is_exclusive=is_exclusive)

    with ThreadPoolExecutor(1) as threads, turn:
        threads.submit(line.submit, late).result(30)

    assert isinstance(late.problem, StoreBusy) if is_exclusive else late.result() == [2]
    assert len(line) == 0


def test_a_thread_that_has_the_turn_is_refused_instead_of_waiting_for_itself() -> None:
    turn = Turn(30.0, refuse)

    with turn:
        with pytest.raises(StoreBusy) as refused, turn:
            pass
        assert not turn.take_at_once()

    assert refused.value.reason == "transaction_nested"
    assert turn.take_at_once()


# -- the three databases -------------------------------------------------------------------------------------------


def each(store: Store, *jobs: NewJob) -> list[Placed | Exception]:
    return store.insert_each([(job, NOON) for job in jobs])


def test_each_job_of_a_group_gets_its_own_number_in_order(store: Store) -> None:
    placed = each(store, *(a_new_job({"n": n}, handler=f"h{n}") for n in range(5)))

    numbers = [where.number for where in placed if isinstance(where, Placed)]
    assert numbers == sorted(set(numbers))
    assert [read_job(store, number).payload for number in numbers] == [{"n": n} for n in range(5)]


def test_a_key_that_stands_for_another_request_fails_alone(store: Store) -> None:
    known = a_new_job({"n": 1}, key="k", request_hash="one")
    [there] = each(store, known)
    other, fresh, plain = replace(known, request_hash="two"), a_new_job({"n": 2}, key="l"), a_new_job({"n": 3})

    refused, second, third, again = each(store, other, fresh, plain, known)

    assert isinstance(refused, KeyConflict)
    assert isinstance(there, Placed)
    assert isinstance(second, Placed)
    assert isinstance(third, Placed)
    assert isinstance(again, Placed)
    assert (again.number, again.deduplicated) == (there.number, True)
    assert read_job(store, second.number).payload == {"n": 2}
    assert read_job(store, third.number).payload == {"n": 3}


def test_the_same_key_twice_in_a_group_is_one_job(store: Store) -> None:
    job = a_new_job({"n": 1}, key="k", request_hash="one")

    first, second = each(store, job, job)

    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert (second.number, first.deduplicated, second.deduplicated) == (first.number, False, True)


def test_a_job_that_the_database_refuses_fails_alone(store: Store) -> None:
    bad = replace(a_new_job({"n": 1}), concurrency_limit=2**80)  # no column is so wide

    before, refused, after = each(store, a_new_job({"n": 0}), bad, a_new_job({"n": 2}))

    assert isinstance(refused, StoreError | OverflowError)
    assert isinstance(before, Placed)
    assert isinstance(after, Placed)
    assert read_job(store, after.number).payload == {"n": 2}


def test_threads_that_enqueue_at_once_lose_and_double_nothing(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        placed = list(threads.map(lambda n: store.insert([a_new_job({"n": n})], now=NOON)[0].number, range(80)))

    assert len(set(placed)) == 80
    assert [read_job(store, number).payload for number in placed] == [{"n": n} for n in range(80)]
