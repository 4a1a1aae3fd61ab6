"""Any sequence of verbs, on each database, against a model of plain dictionaries: I1 to I6 hold after each step."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from horae.core.jobs.job import Ending, Filter, Job, Outcome, settlement
from horae.errors import KeyConflict
from horae.ports.queues import Queue
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job
from horae.testing.clock import NOON
from horae.testing.conformance.support import attempts, end, lease_of, put, read_job, take
from tests.stores.conftest import empty, opened

QUEUES = ("a", "b")
STEPS = st.sampled_from([timedelta(0), timedelta(seconds=1), timedelta(seconds=31), timedelta(hours=1)])


@dataclass
class Known:
    """What the model knows about one job."""

    queue: str
    band: int
    run_at: datetime
    max_attempts: int
    state: str = "queued"
    attempt: int = 0
    token: int = 0
    leased_until: datetime | None = None
    runs: list[str] = field(default_factory=list)


class Stories(RuleBasedStateMachine):
    """One store, one model, the verbs in any order."""

    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.store: SqlStore = opened(self.url)
        empty(self.store)
        self.now = NOON
        self.known: dict[int, Known] = {}
        self.keys: dict[str, tuple[int, str]] = {}
        self.paused: set[str] = set()
        self.held: dict[int, Job] = {}
        self.stale: list[Job] = []

    def teardown(self) -> None:
        self.store.close()

    # -- rules -----------------------------------------------------------------------------------------------------

    @initialize()
    def begin_with_something(self) -> None:
        self.enqueue("a", 1, timedelta(0), 3)

    @rule(queue=st.sampled_from(QUEUES), band=st.integers(0, 2), delay=STEPS, max_attempts=st.integers(1, 4))
    def enqueue(self, queue: str, band: int, delay: timedelta, max_attempts: int) -> None:
        [number] = put(self.store, self._new(queue, band, delay, max_attempts), now=self.now)
        self._remember(number, queue, band, delay, max_attempts)

    @rule(queue=st.sampled_from(QUEUES), key=st.sampled_from("xyz"), request=st.sampled_from(["one", "two"]))
    def enqueue_with_a_key(self, queue: str, key: str, request: str) -> None:
        new = self._new(queue, 1, timedelta(0), 3, key=key, request_hash=request)
        if key in self.keys and self.keys[key][1] != request:
            with pytest.raises(KeyConflict):
                put(self.store, new, now=self.now)
            return
        [number] = put(self.store, new, now=self.now)
        if key in self.keys:
            assert number == self.keys[key][0]  # I6
        else:
            self.keys[key] = (number, request)
            self._remember(number, queue, 1, timedelta(0), 3)

    @rule(queue=st.sampled_from(QUEUES), limit=st.integers(1, 4), by_time=st.booleans())
    def claim(self, queue: str, limit: int, by_time: bool) -> None:
        def place(item: tuple[int, Known]) -> tuple[Any, ...]:
            number, job = item
            return (job.run_at, job.band, number) if by_time else (job.band, job.run_at, number)

        waiting = [
            (number, job)
            for number, job in self.known.items()
            if job.state == "queued" and job.queue == queue and job.run_at <= self.now
        ]
        expected = [] if queue in self.paused else [number for number, _ in sorted(waiting, key=place)[:limit]]

        taken = take(self.store, limit, now=self.now, queue=queue, order="run_at" if by_time else "priority")

        assert [job.number for job in taken] == expected
        for job in taken:
            known = self.known[job.number]
            assert job.token > known.token  # I5
            known.state, known.token, known.leased_until = "running", job.token, job.leased_until
            self.held[job.number] = job

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ending=st.sampled_from(["succeeded", "failed", "snoozed", "released", "cancelled"]))
    def settle(self, data: st.DataObject, ending: Ending) -> None:
        job = data.draw(st.sampled_from(sorted(self.held.values(), key=lambda job: job.number)))
        outcome = Outcome(ending, delay=data.draw(STEPS))
        done = settlement(job, outcome, now=self.now, roll=0.5)

        assert self.store.settle([done], now=self.now) == set()

        self._ended(job, ending, done.change.state, done.change.attempt, done.change.run_at)

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), ending=st.sampled_from(["succeeded", "failed", "released"]))
    def settle_with_a_stale_token(self, data: st.DataObject, ending: Ending) -> None:
        """I3: the old holder's word changes nothing; the invariant compares every job."""
        job = data.draw(st.sampled_from(self.stale))

        assert not end(self.store, job, ending, now=self.now)
        assert self.store.renew([lease_of(job)], until=self.now + timedelta(days=1)).held == frozenset()
        assert not self.store.note(lease_of(job), progress="1", now=self.now)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.held.values(), key=lambda job: job.number)))
        until = self.now + timedelta(seconds=30)

        assert self.store.renew([lease_of(job)], until=until).held == {job.number}

        self.known[job.number].leased_until = until

    @rule()
    def lose_what_has_expired(self) -> None:
        silent = self.store.find_expired(now=self.now, limit=100)
        expired = {n for n, job in self.known.items() if job.leased_until is not None and job.leased_until < self.now}
        assert {job.number for job in silent} == expired
        done = [settlement(job, Outcome("lost"), now=self.now, roll=0.5) for job in silent]

        assert self.store.settle(done, now=self.now) == set()

        for job, answer in zip(silent, done, strict=True):
            assert answer.change.attempt == self.known[job.number].attempt + 1  # I5: a lost lease costs an attempt
            self._ended(self.held[job.number], "lost", answer.change.state, answer.change.attempt, answer.change.run_at)

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "reschedule", "revive"]), step=STEPS)
    def act_by_hand(self, data: st.DataObject, verb: str, step: timedelta) -> None:
        state = "dead" if verb == "revive" else "queued"
        numbers = sorted(number for number, job in self.known.items() if job.state == state)
        if not numbers:
            return
        job = read_job(self.store, data.draw(st.sampled_from(numbers)))
        known = self.known[job.number]
        if verb == "cancel":
            assert self.store.transact(lambda tx: tx.jobs.end_waiting(job, reason="", now=self.now))
            known.state = "cancelled"
            known.runs.append("cancelled")
            return
        attempt, run_at = (0 if verb == "revive" else job.attempt), self.now + step
        assert self.store.transact(
            lambda tx: tx.jobs.requeue(job, run_at=run_at, attempt=attempt, band=None, now=self.now)
        )
        known.state, known.attempt, known.run_at = "queued", attempt, run_at

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        self.paused ^= {queue}
        paused_at = self.now if queue in self.paused else None
        self.store.transact(lambda tx: tx.queues.put(Queue(queue, paused_at=paused_at)))

    @rule(step=STEPS)
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    @rule()
    def open_the_store_again(self) -> None:
        if not getattr(self.store, "in_memory", False):
            self.store.close()
            self.store = opened(self.url)

    # -- the model -------------------------------------------------------------------------------------------------

    def _new(self, queue: str, band: int, delay: timedelta, max_attempts: int, **fields: Any) -> Any:
        priority = ("high", "medium", "low")[band]
        answer = fields | {"queue": queue, "max_attempts": max_attempts, "run_at": self.now + delay}
        return a_new_job(None, priority=priority, **answer)  # type: ignore[arg-type]

    def _remember(self, number: int, queue: str, band: int, delay: timedelta, max_attempts: int) -> None:
        assert number not in self.known
        self.known[number] = Known(queue, band, self.now + delay, max_attempts)

    def _ended(self, job: Job, ending: str, state: str, attempt: int, run_at: datetime) -> None:
        known = self.known[job.number]
        known.state, known.attempt, known.leased_until = state, attempt, None
        known.runs.append(ending)
        if state == "queued":
            known.run_at = run_at
        del self.held[job.number]
        self.stale.append(job)

    # -- what always holds -------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_and_everything_is_as_the_model_says(self) -> None:
        """I1, I3, I4: each job ever accepted is there, once, in the state that the story gave it."""
        found = self.store.read(lambda tx: tx.jobs.find(Filter(), limit=1000, before=None))
        assert [job.number for job in found] == sorted(self.known, reverse=True)
        for job in found:
            known = self.known[job.number]
            assert (job.state, job.attempt, job.queue) == (known.state, known.attempt, known.queue)
            assert job.leased_until == known.leased_until  # I2: one lease, the one that the model knows
            assert job.state != "queued" or job.run_at == known.run_at

    @invariant()
    def attempts_stay_within_their_cap(self) -> None:
        """I5."""
        assert all(job.attempt <= max(job.max_attempts, 3) for job in self.known.values())

    @invariant()
    def every_ended_attempt_left_one_run(self) -> None:
        """I4."""
        for number, known in list(self.known.items())[-2:]:
            answer = [run.outcome for run in attempts(self.store, number) if run.outcome != "running"]
            assert answer == known.runs


def play(url: str, examples: int) -> None:
    run_state_machine_as_test(
        type("StoriesHere", (Stories,), {"url": url}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_story_in_memory() -> None:
    play("sqlite://", 40)


def test_any_story_in_a_file(sqlite_database_url: str) -> None:
    play(sqlite_database_url, 15)


def test_any_story_on_postgres(shared_postgres_url: str) -> None:
    play(shared_postgres_url, 10)


def test_any_story_on_mysql(shared_mysql_url: str) -> None:
    play(shared_mysql_url, 8)
