"""Rules take part in the endings of the jobs they concern: in one transaction, behind the same fence, on every door."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.admission import admit
from horae.actions.jobs.held_jobs import Ending as HeldEnding
from horae.actions.jobs.held_jobs import settle_held
from horae.actions.schedules import fires, schedules
from horae.actions.schedules.exclusive import start_exclusively
from horae.core.audit.entries import Entry
from horae.core.jobs.job import Ending, Job, Lease, Outcome
from horae.errors import InvalidInput, LeaseLost
from horae.ports.claims import Claim, JobEnding, PutBack
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job, a_request, a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import attempts, put, read_job
from tests.stores.test_statements import counting

LATER = NOON + timedelta(hours=4)
A_MINUTE = timedelta(minutes=1)
CREATE = "CREATE TABLE test_book (rule VARCHAR(20), job INTEGER, token INTEGER, line VARCHAR(100))"


@dataclass
class Book:
    """A rule that writes one line for each beginning and each ending of a job that names an object."""

    name: str = "book"
    replaces: Mapping[str, Outcome] = field(default_factory=dict)  # by the ending that is replaced
    refuses: Callable[[Job], bool] = lambda _: False
    fails: Callable[[Job], bool] = lambda _: False
    plans: bool = False  # each success plans a job

    def concerns(self, job: Job) -> bool:
        return job.object_id is not None or job.handler == "governed"

    def admit(self, tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
        for job in jobs:
            self._fail(job)
            self._write(tx, job, "refused" if self.refuses(job) else "admitted")
        return [PutBack(job.number, job.token, LATER, "not now") for job in jobs if self.refuses(job)]

    def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
        for each in endings:
            self._fail(each.job)
            kind = "put back" if each.put_back else each.outcome.ending
            self._write(tx, each.job, f"{kind} → {each.change.state}")
            tx.audit.append(Entry(now, self.name, kind, "memory", each.job.id, "system", None, {}, {}, ()))
            if self.plans:
                tx.jobs.insert([a_new_job(queue="planned")], now)
                tx.wake(["planned"])
        kinds = {each.job.number: each.outcome.ending for each in endings}
        return {number: self.replaces[kind] for number, kind in kinds.items() if kind in self.replaces}

    def _fail(self, job: Job) -> None:
        if self.fails(job):
            raise RuntimeError("a bug")

    def _write(self, tx: Tx, job: Job, line: str) -> None:
        values = {"rule": self.name, "job": job.number, "token": job.token, "line": line}
        tx.connection.execute(text("INSERT INTO test_book VALUES (:rule, :job, :token, :line)"), values)


@pytest.fixture
def book(store: SqlStore) -> Iterator[Book]:
    with store.engine.begin() as connection:
        connection.execute(text(CREATE))
    yield Book()
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE test_book"))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store: SqlStore, clock: VirtualClock, book: Book) -> World:
    return World(store, clock, LoadedDice(), rules=(book,))


def lines(world: World, *, rule: str = "book", skip: str = "admitted") -> list[tuple[int, str]]:
    query = text("SELECT job, line FROM test_book WHERE rule = :rule AND line <> :skip ORDER BY job, line")
    with world.store.engine.connect() as connection:  # type: ignore[attr-defined]
        return [(job, line) for job, line in connection.execute(query, {"rule": rule, "skip": skip})]


def governed(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {"object_type": "memory", "object_id": f"o{number}", **fields}


def hold(world: World, count: int = 1, *, plain: int = 0, **fields: Any) -> list[Job]:
    """Jobs that run: those that the rule concerns, then plain ones."""
    numbers = put(world.store, *(a_new_job(**governed(n, **fields)) for n in range(count)))
    numbers += put(world.store, *(a_new_job() for _ in range(plain)))
    held = {job.number: job for job in claims.claim(world, "default", len(numbers), worker_id="w", lease=LEASE)}
    return [held[number] for number in numbers]


def entries(world: World, job: Job) -> list[str]:
    found = world.store.read(lambda tx: tx.audit.find(object_id=job.id, limit=9, before=None, object_type="memory"))
    return [entry.verb for _, entry in found]


# -- every ending ---------------------------------------------------------------------------------------------------

FOLLOWS: dict[Ending, str] = {
    "succeeded": "succeeded", "failed": "queued", "timed_out": "queued", "snoozed": "queued",
    "cancelled": "cancelled", "released": "queued", "skipped": "cancelled",
}  # fmt: skip


def test_every_ending_is_written_together_with_what_the_rule_writes(world: World) -> None:
    held = hold(world, len(FOLLOWS), plain=2)
    batch = [(job, Outcome(ending, error="no")) for job, ending in zip(held, FOLLOWS, strict=False)]
    batch += [(job, Outcome("succeeded")) for job in held[-2:]]

    changes = endings.settle(world, batch)

    assert [change and change.state for change in changes.values()] == ["succeeded", "succeeded", *FOLLOWS.values()]
    for (job, outcome), state in zip(batch, FOLLOWS.values(), strict=False):
        assert (job.number, f"{outcome.ending} → {state}") in lines(world)
        assert entries(world, job) == [outcome.ending]
        assert [run.outcome for run in attempts(world.store, job.number)][-1] == outcome.ending
    assert len(lines(world)) == len(FOLLOWS)


def test_a_dead_letter_and_a_lost_attempt_reach_the_rule(world: World, clock: VirtualClock) -> None:
    dying, silent = hold(world, 2, max_attempts=1)

    endings.fail(world, dying.id, dying.token, "no")
    clock.advance(2 * LEASE)
    assert [job.id for job, _ in endings.lose_expired(world)] == [silent.id]

    assert lines(world) == [(dying.number, "failed → dead"), (silent.number, "lost → queued")]


def test_an_attempt_whose_holder_died_before_it_was_admitted_is_lost_like_any_other(
    world: World, clock: VirtualClock
) -> None:
    put(world.store, a_new_job(**governed()))
    [job] = world.store.claim(Claim("default", 1, "w", LEASE), now=NOON)
    clock.advance(2 * LEASE)

    endings.lose_expired(world)

    assert lines(world, skip="") == [(job.number, "lost → queued")]
    [again] = claims.claim(world, "default", 1, worker_id="w2", lease=LEASE)
    assert endings.ack(world, again.id, again.token).state == "succeeded"


@pytest.mark.parametrize("kind", ["ack", "fail", "release", "operator", "held", "close"])
def test_every_door_asks_the_rule(world: World, kind: str) -> None:
    [job] = hold(world)
    doors: dict[str, Callable[[], object]] = {
        "ack": lambda: endings.ack(world, job.id, job.token),
        "fail": lambda: endings.fail(world, job.id, job.token, "no"),
        "release": lambda: endings.release(world, job.id, job.token),
        "operator": lambda: endings.release(world, job.id, actor="tom", reason="needed"),
        "held": lambda: settle_held(world, [HeldEnding(job.id, job.token, "snoozed")]),
        "close": lambda: endings.close(world, job, Outcome("lost", error="stale", final=True)),
    }

    doors[kind]()

    assert len(lines(world)) == 1
    assert read_job(world.store, job.number).state != "running"


# -- what a rule may do ---------------------------------------------------------------------------------------------


def test_a_rule_can_send_a_success_back(world: World, book: Book) -> None:
    book.replaces = {"succeeded": Outcome("snoozed", error="a gate blocks", delay=LATER - NOON)}
    [job] = hold(world)

    change = endings.settle(world, [(job, Outcome("succeeded", result='"done"'))])[job.id]

    assert change is not None
    again = read_job(world.store, job.number)
    assert (change.state, again.state, again.run_at, again.attempt) == ("queued", "queued", LATER, 0)
    [run] = attempts(world.store, job.number)
    assert (run.outcome, run.result, run.error) == ("snoozed", None, "a gate blocks")


def test_a_rule_can_add_to_an_ending(world: World, book: Book) -> None:
    book.replaces = {"succeeded": Outcome("succeeded", result="1", next_action_at=LATER, audit_event_id="e1")}
    [job] = hold(world)

    endings.ack(world, job.id, job.token, result=1)

    [run] = attempts(world.store, job.number)
    assert (run.outcome, run.result, run.next_action_at, run.audit_event_id) == ("succeeded", 1, LATER, "e1")


def test_an_operators_entry_stays_when_the_ending_is_replaced(world: World, book: Book) -> None:
    book.replaces = {"released": Outcome("snoozed", delay=LATER - NOON)}
    [job] = hold(world)

    endings.release(world, job.id, actor="tom", reason="needed")

    found = world.store.read(lambda tx: tx.audit.find(object_id=job.id, limit=9, before=None, object_type="job"))
    assert [(entry.actor, entry.verb) for _, entry in found] == [("tom", "release")]


def test_a_rule_can_plan_a_job_in_the_same_transaction_and_wake_its_queue(world: World, book: Book) -> None:
    book.plans = True
    [job] = hold(world)
    heard: list[str] = []
    unsubscribe = world.store.subscribe(heard.append)

    endings.ack(world, job.id, job.token)

    unsubscribe()
    assert "planned" in heard
    assert len(claims.claim(world, "planned", 9, worker_id="w", lease=LEASE)) == 1


# -- late, twice ----------------------------------------------------------------------------------------------------


def test_a_late_holder_leaves_nothing_and_costs_its_neighbours_nothing(world: World, clock: VirtualClock) -> None:
    late, mine = hold(world, 2)
    world.store.renew([Lease(mine.number, mine.token)], until=NOON + timedelta(days=1))
    clock.advance(2 * LEASE)
    endings.lose_expired(world)

    changes = endings.settle(world, [(late, Outcome("succeeded")), (mine, Outcome("succeeded"))])

    assert (changes[late.id], changes[mine.id] is not None) == (None, True)
    assert lines(world) == [(late.number, "lost → queued"), (mine.number, "succeeded → succeeded")]
    assert entries(world, late) == ["lost"]
    with pytest.raises(LeaseLost):
        endings.ack(world, late.id, late.token)


def test_what_the_rule_wrote_for_a_refused_ending_is_rolled_back(world: World, clock: VirtualClock) -> None:
    """Its token is current, so that the rule is asked; then the store finds that the lease has been renewed."""
    renewed, silent = hold(world, 2)
    clock.advance(2 * LEASE)
    world.store.renew([Lease(renewed.number, renewed.token)], until=NOON + timedelta(days=1))

    assert [job.id for job, _ in endings.lose(world, [renewed, silent])] == [silent.id]

    assert lines(world) == [(silent.number, "lost → queued")]
    assert entries(world, renewed) == []


def test_a_job_that_changes_hands_while_its_rule_writes_leaves_nothing(
    store: SqlStore, world: World, book: Book, open_another: Callable[[], SqlStore]
) -> None:
    if not store.dialect.locking:
        pytest.skip("where one transaction writes at a time, none comes in between")
    late, mine = hold(world, 2)
    other = replace(world, store=open_another(), rules=())
    book.fails = lambda job: job is late and not endings.close(other, late, Outcome("lost", error="stale")) and False

    changes = endings.settle(world, [(late, Outcome("succeeded")), (mine, Outcome("succeeded"))])

    assert (changes[late.id], changes[mine.id] is not None) == (None, True)
    assert lines(world) == [(mine.number, "succeeded → succeeded")]


def test_an_ending_that_comes_twice_counts_once(world: World) -> None:
    [job] = hold(world)
    twice = [(job, Outcome("succeeded")), (job, Outcome("failed", error="no"))]

    endings.settle(world, twice)
    assert endings.settle(world, twice) == {job.id: None}

    assert lines(world) == [(job.number, "succeeded → succeeded")]


def test_an_outcome_of_an_earlier_attempt_in_the_same_batch_is_refused(world: World) -> None:
    [first] = hold(world)
    endings.release(world, first.id, first.token)
    [second] = claims.claim(world, "default", 1, worker_id="w", lease=LEASE)

    endings.settle(world, [(first, Outcome("failed", error="no")), (second, Outcome("succeeded"))])

    assert lines(world)[-1] == (first.number, "succeeded → succeeded")
    assert read_job(world.store, first.number).state == "succeeded"


# -- a rule that fails ----------------------------------------------------------------------------------------------


def test_a_rule_that_fails_at_an_ending_costs_plain_jobs_nothing(world: World, book: Book) -> None:
    [ruled, plain] = hold(world, 1, plain=1)
    book.fails = lambda job: True

    changes = endings.settle(world, [(ruled, Outcome("succeeded")), (plain, Outcome("succeeded"))])

    assert list(changes) == [plain.id], "the other one is to be written again"
    assert read_job(world.store, ruled.number).state == "running"
    with pytest.raises(RuntimeError):
        endings.settle(world, [(ruled, Outcome("succeeded"))])


def test_a_worker_without_a_database_is_told_to_send_an_ending_again(world: World, book: Book) -> None:
    ruled, plain = hold(world, 1, plain=1)
    book.fails = lambda job: True
    both = [HeldEnding(job.id, job.token, "succeeded") for job in (ruled, plain)]

    answers = settle_held(world, both)

    assert [(each.accepted, each.state) for each in answers] == [(False, "running"), (True, "succeeded")]


def test_a_rule_that_fails_keeps_no_other_lost_attempt_waiting(
    world: World, book: Book, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, silent, plain = hold(world, 2, plain=1)
    book.fails = lambda job: job.number == stuck.number
    clock.advance(2 * LEASE)

    assert {job.id for job, _ in endings.lose_expired(world)} == {silent.id, plain.id}

    assert f"the lost attempt at {stuck.id} cannot be ended now" in caplog.text
    book.fails = lambda _: False
    assert [job.id for job, _ in endings.lose_expired(world)] == [stuck.id]


def test_one_job_that_a_rule_fails_at_does_not_keep_others_from_starting(world: World, book: Book) -> None:
    book.fails = lambda job: job.object_id == "o1"
    numbers = put(world.store, *(a_new_job(**governed(n)) for n in range(3)))

    started = claims.claim(world, "default", 3, worker_id="w", lease=LEASE)

    assert [job.number for job in started] == [numbers[0], numbers[2]]


# -- several rules --------------------------------------------------------------------------------------------------


@pytest.fixture
def second(book: Book) -> Book:
    return Book("second")


@pytest.fixture
def both(world: World, book: Book, second: Book) -> World:
    return replace(world, rules=(book, second))


def test_a_later_rule_is_asked_only_about_what_earlier_ones_admitted(both: World, book: Book) -> None:
    book.refuses = lambda job: job.object_id == "o0"
    one, two = put(both.store, *(a_new_job(**governed(n)) for n in range(2)))

    assert [job.number for job in claims.claim(both, "default", 2, worker_id="w", lease=LEASE)] == [two]

    assert lines(both, skip="") == [(one, "refused"), (two, "admitted")]
    assert lines(both, rule="second", skip="") == [(two, "admitted")]


def test_a_rule_learns_that_a_later_one_put_the_job_back(both: World, second: Book) -> None:
    second.refuses = lambda _: True
    [number] = put(both.store, a_new_job(**governed()))

    assert claims.claim(both, "default", 1, worker_id="w", lease=LEASE) == []

    assert lines(both, skip="") == [(number, "admitted"), (number, "put back → queued")]
    assert lines(both, rule="second", skip="") == [(number, "refused")]
    job = read_job(both.store, number)
    assert (job.state, job.run_at, job.attempt, job.token, attempts(both.store, number)) == ("queued", LATER, 0, 2, [])


def test_a_later_rule_sees_the_ending_as_an_earlier_one_replaced_it(both: World, book: Book) -> None:
    book.replaces = {"succeeded": Outcome("snoozed")}
    [job] = hold(both)

    endings.ack(both, job.id, job.token)

    assert lines(both) == [(job.number, "succeeded → succeeded")]
    assert lines(both, rule="second") == [(job.number, "snoozed → queued")]


def test_what_was_to_be_put_back_and_is_to_be_cancelled_ends_with_its_rules(both: World, second: Book) -> None:
    second.refuses = lambda _: True
    [number] = put(both.store, a_new_job(**governed()))
    taken = both.store.claim(Claim("default", 1, "w", LEASE), now=NOON)
    jobs.cancel(both, f"job_{number}", reason="changed my mind")

    assert admit(both, taken) == []

    assert lines(both, skip="") == [(number, "cancelled → cancelled")]
    assert read_job(both.store, number).state == "cancelled"


# -- jobs that somebody else ends -----------------------------------------------------------------------------------


@pytest.fixture
def silent(world: World, clock: VirtualClock) -> Job:
    """A running job of a schedule that has fallen silent for longer than its definition allows."""
    schedules.create(world, a_schedule(handler="governed", stale_timeout=A_MINUTE / 2))
    clock.advance(A_MINUTE)
    fires.fire_due(world)
    [job] = claims.claim(world, "default", 1, worker_id="w", lease=timedelta(hours=1))
    clock.advance(A_MINUTE)
    return job


def test_a_silent_job_is_ended_with_its_rules_before_the_next_fire(world: World, silent: Job) -> None:
    [(_, made)] = fires.fire_due(world)

    assert len(made) == 1
    assert lines(world) == [(silent.number, "lost → cancelled")]


def test_a_rule_that_fails_does_not_keep_a_schedule_from_firing(world: World, book: Book, silent: Job) -> None:
    book.fails = lambda _: True

    [(_, made)] = fires.fire_due(world)

    assert len(made) == 1
    assert read_job(world.store, silent.number).state == "cancelled"
    assert lines(world) == []


def test_one_that_is_taken_over_ends_with_its_rules(world: World, clock: VirtualClock) -> None:
    request = a_request(handler="governed", concurrency_key="sync")
    start_exclusively(world, request, stale_timeout=A_MINUTE)
    [job] = claims.claim(world, "default", 1, worker_id="w", lease=timedelta(hours=1))
    clock.advance(2 * A_MINUTE)

    start_exclusively(world, request, stale_timeout=A_MINUTE)

    assert lines(world) == [(job.number, "lost → cancelled")]


# -- plain jobs -----------------------------------------------------------------------------------------------------


def test_endings_of_plain_jobs_cost_the_same_statements_with_rules_and_without(store: SqlStore, world: World) -> None:
    counts = []
    for each in (world, replace(world, rules=())):
        for _ in range(8):  # drivers prepare what they have seen a few times
            [job] = hold(each, 0, plain=1)
            endings.settle(each, [(job, Outcome("succeeded"))])
        held = hold(each, 0, plain=10)
        with counting(store) as statements:
            changes = endings.settle(each, [(job, Outcome("succeeded")) for job in held])
            counts.append(statements())
        assert all(change is not None for change in changes.values())

    assert counts[0] == counts[1]


def test_a_rule_may_refuse_what_its_holder_reports(world: World, book: Book) -> None:
    """A verdict that cannot be read is the caller's mistake: the job stays with its holder, who may report again."""
    [job] = hold(world)

    class Strict(Book):
        def settle(self, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> dict[int, Outcome]:
            super().settle(tx, endings, now)
            raise InvalidInput("choice_unknown", name="verdict", value="perhaps", choices=["confirmed"])

    with pytest.raises(InvalidInput):
        endings.ack(replace(world, rules=(Strict(),)), job.id, job.token)

    assert lines(world) == []
    assert endings.ack(world, job.id, job.token).state == "succeeded"
