"""The roll-up equals a recount: after late endings, repeated steps, two keepers, and gaps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert

from horae.actions import roll_up as module
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.actions.roll_up import is_behind, roll_up
from horae.actions.statistics import add_up as all_time
from horae.clock import SystemDice
from horae.core.statistics import DAY, ENDS, HOUR, MINUTE, RollUp, Statistic, limit_names, merge
from horae.core.time.instants import micros
from horae.ports.store import Store, Tx
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.tables.audit import audit
from horae.stores.tables.jobs import runs
from horae.testing.clock import VirtualClock
from tests.support.recount import recount, rolled_up

SECOND = timedelta(seconds=1)
numbers = iter(range(1_000_000, 2_000_000))


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


@pytest.fixture
def near(sqlite_database_url: str) -> Iterator[World]:
    engine = create_store_engine(sqlite_database_url)
    migrate(engine)
    store: Store = open_store(engine)
    yield World(store, VirtualClock(), SystemDice())
    store.close()


def advance(world: World, span: timedelta) -> None:
    assert isinstance(world.clock, VirtualClock)
    world.clock.advance(span)


def ended(world: World, at: datetime, **values: Any) -> None:
    """Write the row of one attempt as if its transaction had committed only now."""
    number, end = next(numbers), micros(at)
    row: dict[str, Any] = {
        "job_id": number, "token": 1, "outcome": "succeeded", "state": "succeeded", "attempt": 0, "queue": "default",
        "handler": "h", "owner": "system", "started_at": end - 1_500_000, "run_at": end - 2_000_000, "finished_at": end,
    }  # fmt: skip
    died = values.pop("died", False)
    row |= values

    def write(tx: Tx) -> None:
        tx.connection.execute(insert(runs), row)
        if died:
            entry = {
                "at": end, "actor": "worker/w", "verb": "dead", "object_type": "job", "object_id": f"job_{number}",
                "owner": row["owner"], "state_before": "{}", "state_after": "{}", "evidence": "[]",
            }  # fmt: skip
            tx.connection.execute(insert(audit), entry)

    world.store.transact(write)


def failed(world: World, at: datetime, error: str = "ValueError: no", **values: Any) -> None:
    ended(world, at, outcome="failed", state=None, run_at=None, error=error, **values)


def catch_up(world: World) -> RollUp:
    for _ in range(10_000):
        if not roll_up(world):
            break
    state = world.store.read(lambda tx: tx.statistics.state())
    assert state is not None
    return state


def assert_equals_recount(world: World) -> None:
    state = catch_up(world)
    for grain, begin in (("minute", state.minutes_from), ("hour", state.hours_from), ("day", state.days_from)):
        expected = recount(world.store, grain, until=state.rolled_until)
        assert rolled_up(world.store, grain) == {key: each for key, each in expected.items() if key[0] >= begin}


def test_what_workers_end_is_counted_when_its_minute_is_over(world: World) -> None:
    jobs.enqueue_many(world, [Request("h", owner="ann", queue="mail") for _ in range(4)])
    taken = claims.pull(world, worker_id="w", queues=["mail"], limit=4, owner="ann")
    advance(world, SECOND)
    endings.ack(world, taken[0].id, taken[0].token)
    endings.fail(world, taken[1].id, taken[1].token, "ValueError: no")
    endings.fail(world, taken[2].id, taken[2].token, "ValueError: no", final=True)
    jobs.cancel(world, taken[3].id)
    endings.release(world, taken[3].id, taken[3].token)

    assert not is_behind(world)
    advance(world, timedelta(minutes=3))
    assert is_behind(world)
    assert_equals_recount(world)
    assert not is_behind(world)

    minute = rolled_up(world.store, "minute")
    [owner] = [figures for (_, scope, name), figures in minute.items() if (scope, name) == ("owner", "ann")]
    assert (owner.runs, owner.succeeded, owner.failed, owner.retried, owner.dead) == (4, 1, 2, 1, 1)
    assert (owner.cancelled, owner.lost) == (1, 0)
    assert owner.mean_duration == SECOND


def test_hours_and_days_are_added_up_when_they_are_over(world: World) -> None:
    start = world.clock.now().replace(hour=0, minute=0, second=30, microsecond=0)
    for hours in (0, 0, 1, 5, 24, 30):
        ended(world, start + timedelta(hours=hours), handler=f"h{hours}")
    advance(world, timedelta(days=1, hours=20))

    assert_equals_recount(world)

    assert len({at for at, _, _ in rolled_up(world.store, "hour")}) == 5
    assert len({at for at, _, _ in rolled_up(world.store, "day")}) == 2


def test_a_late_ending_is_counted_by_the_next_step(world: World) -> None:
    begin = world.clock.now()
    ended(world, begin)
    advance(world, timedelta(hours=30))
    assert_equals_recount(world)

    ended(world, begin, died=True, outcome="failed", state=None, run_at=None)
    ended(world, begin + timedelta(hours=3))
    ended(world, begin - timedelta(days=20))
    ended(world, begin - timedelta(days=300))
    advance(world, timedelta(days=1))

    assert is_behind(world)
    assert_equals_recount(world)


def test_a_late_ending_is_found_however_late_while_much_has_ended_since(
    near: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECENT_ROWS", 0)
    begin = near.clock.now()
    ended(near, begin)
    for _ in range(7):
        advance(near, timedelta(hours=1))
        ended(near, near.clock.now())
        catch_up(near)
    ended(near, begin)

    for _ in range(5 * 60):  # half as old again: it is noticed at the latest 3.5 hours later
        advance(near, timedelta(minutes=1))
        if is_behind(near):
            catch_up(near)

    assert_equals_recount(near)


def test_history_that_was_removed_stays_counted(world: World) -> None:
    for _ in range(3):
        ended(world, world.clock.now())
    advance(world, timedelta(minutes=10))
    catch_up(world)
    before = rolled_up(world.store, "minute")

    world.store.transact(lambda tx: tx.connection.execute(delete(runs).where(runs.c.job_id > 1)))
    advance(world, timedelta(minutes=10))
    catch_up(world)

    assert rolled_up(world.store, "minute") == before


OUTCOMES: tuple[dict[str, Any], ...] = (
    {},
    {"outcome": "lost", "state": None},
    {"outcome": "failed", "state": "cancelled"},
)


def test_what_a_scrape_reads_is_what_the_minutes_say_added_up(world: World) -> None:
    begin, dice = world.clock.now(), random.Random(7)
    for _ in range(60):
        at = begin + timedelta(seconds=dice.randrange(240))
        spans = {
            "started_at": micros(at) - dice.randrange(1, 10**8),
            "run_at": micros(at) - 10**8 - dice.randrange(10**8),
        }
        names = {"queue": dice.choice("ab"), "handler": dice.choice("hij")}
        ended(world, at, **spans, **names, **dice.choice(OUTCOMES))
    advance(world, timedelta(minutes=6))
    rolled = catch_up(world).rolled_until
    start = micros(begin) - micros(begin) % MINUTE

    read = world.store.read
    minutes = merge(read(lambda tx: tx.statistics.marginals("minute", start, rolled)))
    recent = read(lambda tx: tx.statistics.recent(start, rolled))
    assert set(recent) == {("queue", "a"), ("queue", "b"), ("handler", "h"), ("handler", "i"), ("handler", "j")}
    for (scope, name), figures in recent.items():
        of, whole = ("delay" if scope == "queue" else "duration"), minutes[scope, name]
        for field in ("runs", "succeeded", "failed", "lost", f"{of}_sum", f"{of}s"):
            assert getattr(figures, field) == getattr(whole, field), (scope, name, field)

    windows = [("minute", start, start + 2 * MINUTE), ("minute", start + 2 * MINUTE, rolled)]
    totals = all_time(read(lambda tx: tx.statistics.totals([(window, "queue", None) for window in windows])))
    first = {
        name: min(at for at, scope, each in rolled_up(world.store, "minute") if (scope, each) == ("queue", name))
        for name in "ab"
    }
    for name in "ab":
        assert totals[name][0] == first[name]
        assert all(getattr(totals[name][1], each) == getattr(minutes["queue", name], each) for each in ENDS)
    one = all_time(read(lambda tx: tx.statistics.totals([(window, "queue", "b") for window in windows])))
    assert one == {"b": totals["b"]}


def test_of_two_steps_that_looked_at_the_same_time_one_counts(world: World) -> None:
    ended(world, world.clock.now())
    advance(world, timedelta(minutes=3))
    now = micros(world.clock.now())
    first, second = (world.store.read(lambda tx: module.compute_step(tx, now)) for _ in range(2))

    ended(world, world.clock.now() - timedelta(minutes=3))
    assert not world.store.transact(lambda tx: module.write_step(tx, first, now))
    catch_up(world)
    kept = rolled_up(world.store, "minute")

    assert world.store.transact(lambda tx: module.write_step(tx, second, now))
    assert rolled_up(world.store, "minute") == kept
    assert_equals_recount(world)


def test_a_long_backlog_is_counted_in_bounded_steps(near: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    for minute in range(30):
        for _ in range(2):
            ended(near, near.clock.now() + timedelta(minutes=minute))
    advance(near, timedelta(hours=1))

    steps = 1
    while roll_up(near):
        steps += 1

    assert steps >= 10
    assert_equals_recount(near)


def test_names_beyond_a_thousand_are_counted_as_other() -> None:
    marginals = {("handler", f"h{number:04}"): Statistic(runs=1) for number in range(1500)}
    marginals["handler", "other"] = Statistic(runs=7)

    limited = limit_names(marginals)

    assert len(limited) == 1000
    assert limited["handler", "other"].runs == 7 + 501
    assert sum(each.runs for each in limited.values()) == 1507


@pytest.mark.slow
def test_minutes_are_kept_for_two_days_and_hours_for_thirty_five(near: World) -> None:
    begin = near.clock.now().replace(hour=1, minute=0, second=0, microsecond=0)
    for days in range(0, 60, 3):
        advance(near, timedelta(days=3))
        ended(near, begin + timedelta(days=days))
        catch_up(near)
    for _ in range(200):
        advance(near, timedelta(minutes=2))
        catch_up(near)

    state = catch_up(near)
    now = micros(near.clock.now())
    assert now - state.minutes_from <= 2 * DAY + HOUR
    assert now - state.hours_from <= 36 * DAY
    assert {at for at, _, _ in rolled_up(near.store, "minute")} <= set(range(state.minutes_from, now, MINUTE))
    assert len({at for at, _, _ in rolled_up(near.store, "day")}) == 20


def test_the_depth_of_queues_is_sampled_and_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DEPTH", 3)
    jobs.enqueue_many(world, [Request("h", queue="mail") for _ in range(5)])
    jobs.enqueue(world, Request("h", queue="mail", delay=timedelta(days=1)))
    jobs.enqueue_many(world, [Request("h", queue="other", priority="high"), Request("h", queue="other")])
    jobs.enqueue(world, Request("h", queue="later", delay=timedelta(days=1)))

    roll_up(world)

    at = micros(world.clock.now()) // MINUTE * MINUTE
    depths = world.store.read(lambda tx: tx.statistics.depths("minute", 0, 2**62))
    assert depths == {"mail": {at: 3}, "other": {at: 2}}
    advance(world, timedelta(minutes=2))
    assert is_behind(world)  # as long as jobs wait, their number is sampled


def test_depths_that_share_a_bound_name_every_queue_and_leave_out_what_is_skipped(world: World) -> None:
    for queue, count in (("a", 4), ("b", 5), ("c", 2), ("d", 1)):
        jobs.enqueue_many(world, [Request("greet", {}, queue=queue) for _ in range(count)])
    now = micros(world.clock.now())

    def ask(**how: Any) -> dict[str, int]:
        return world.store.read(lambda tx: tx.statistics.due_depths(now, 6, 100, **how))

    assert ask() == {"a": 4, "b": 5, "c": 2, "d": 1}
    assert ask(in_all=True) == {"a": 4, "b": 2, "c": 1, "d": 1}
    assert ask(in_all=True, skip=("a",)) == {"b": 5, "c": 1, "d": 1}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_any_history_equals_its_recount(world: World, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(40):
        now = world.clock.now()
        for _ in range(dice.randrange(6)):
            at = now - timedelta(seconds=dice.choice((0, 1, 59, 61, 300, 4000, 90_000, 250_000, 3_500_000)))
            labels = {
                "queue": dice.choice(("default", "mail", "horae")),
                "handler": dice.choice(("a", "b", "Ä ö")),
                "owner": dice.choice(("system", "ann")),
            }
            kind = dice.randrange(5)
            if kind == 0:
                failed(world, at, died=dice.random() < 0.5, **labels)
            elif kind == 1:
                ended(world, at, outcome="cancelled", state="cancelled", started_at=None, **labels)
            elif kind == 2:
                ended(world, at, outcome="lost", state=None, run_at=None, **labels)
            elif kind == 3:
                ended(world, at, outcome="snoozed", state=None, run_at=None, **labels)
            else:
                took = dice.choice((0, 999, 1000, 1001, 2000, 64_000, 10**9))
                ended(world, at, started_at=micros(at) - took, **labels)
        advance(world, timedelta(seconds=dice.choice((1, 30, 61, 600, 4000, 40_000))))
        for _ in range(dice.randrange(3)):
            roll_up(world)
    advance(world, timedelta(days=1))

    assert_equals_recount(world)
