"""Short words for the conformance suite: put, take, end, look, lose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from horae.core.jobs.job import Ending, Job, Lease, NewJob, Order, Outcome, Run, settlement
from horae.ports.claims import Claim
from horae.ports.definitions import StoredDefinition
from horae.ports.queues import Queue
from horae.ports.store import Store
from horae.testing.builders import LEASE
from horae.testing.clock import NOON

T = TypeVar("T")

# Text that has broken databases before. NUL and lone surrogates never reach a store.
HOSTILE: tuple[Any, ...] = (
    "",
    "'; DROP TABLE horae_jobs; --",
    'quotes " and \\ back\\\\slashes and \\u0041',
    "emoji 🦉👨\u200d👩\u200d👧 and 汉字",
    "right \u202eto\u202c left, שלום, مرحبا",
    "%s %(name)s :name ? $1 {} \n\r\t\x01\x7f",
    "\ufeff\uffff\U0010ffff",
    2**53 + 1,
    -(2**63) - 1,
    10**1000,
    1e-320,
    -0.0,
    [None, True, False, [], {}, [[[]]]],
    {"": 0, "é": 1, "e\u0301": 2, "A": 3, "a": 4, "ключ": {"nested": [1.5]}},
)


def put(store: Store, *jobs: NewJob, now: datetime = NOON) -> list[int]:
    return [where.number for where in store.insert(jobs, now=now)]


def take(
    store: Store,
    limit: int = 100,
    *,
    now: datetime = NOON,
    queue: str = "default",
    worker: str = "w1",
    lease: timedelta = LEASE,
    order: Order | None = None,
    owner: str | None = None,
) -> list[Job]:
    return store.claim(Claim(queue, limit, worker, lease, order, owner), now=now)


def end(store: Store, job: Job, ending: Ending = "succeeded", *, now: datetime = NOON, **verdicts: Any) -> bool:
    """Settle one job; true when its token was still current."""
    outcome = Outcome(ending, **verdicts)
    return not store.settle([settlement(job, outcome, now=now, roll=0.5)], now=now)


def lose(store: Store, now: datetime) -> set[int]:
    """Close what has expired; the numbers that were still expired when it was written."""
    silent = store.find_expired(now=now, limit=1000)
    written = [settlement(job, Outcome("lost"), now=now, roll=0.5) for job in silent]
    rejected = store.settle(written, now=now)
    return {job.number for job in silent} - rejected


def read_job(store: Store, number: int) -> Job:
    job = store.read(lambda tx: tx.jobs.get(number))
    assert job is not None, f"job {number} is gone"
    return job


def attempts(store: Store, number: int) -> list[Run]:
    return store.read(lambda tx: tx.jobs.runs(number))


def lease_of(job: Job) -> Lease:
    return Lease(job.number, job.token)


def configure(store: Store, queue: str = "default", **settings: Any) -> None:
    def write(tx: Any) -> None:
        tx.queues.put(replace(tx.queues.get(queue) or Queue(queue), **settings))
        if "max_running" in settings:
            tx.limits.apply(f"queue:{queue}", settings["max_running"])

    store.transact(write)


def declare(store: Store, name: str = "greet", *, tenants: bool = True) -> None:
    """Store a definition, as a worker of the house does, and release what was held for it."""

    def write(tx: Any) -> None:
        tx.definitions.lock()
        tx.definitions.put(StoredDefinition(name, "default", tenants, "shop", NOON, "system/start"))

    store.transact(write)
    while store.transact(lambda tx: tx.definitions.release(100))[0]:
        continue


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Call ``work(0) … work(count - 1)`` in as many threads, all let go at the same moment."""
    gate = threading.Barrier(count)
    answers: dict[int, T] = {}
    problems: list[BaseException] = []

    def run(index: int) -> None:
        try:
            gate.wait(timeout=60)
            answers[index] = work(index)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    if problems:
        raise problems[0]
    assert len(answers) == count, "a thread is stuck"
    return [answers[index] for index in range(count)]


def numbers(jobs: Sequence[Job]) -> list[int]:
    return [job.number for job in jobs]
