"""The history is made of days: made ahead, never in the way of an ending, dropped as a whole when they are over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, make_url, text

from horae.actions.alerts import Alerts, look_round
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.actions.metrics import history_families
from horae.actions.partitions import drop_old, empty_catch_all, history_states, keep_partitions
from horae.actions.retention import Retention, clean, set_retention
from horae.actions.roll_up import roll_up
from horae.clock import SystemDice
from horae.core.jobs.job import Outcome, Run, settlement
from horae.core.partitions import DAY, Partition, days_ahead
from horae.core.time.instants import micros
from horae.doctor.findings import Installation
from horae.doctor.work import history
from horae.errors import StoreBusy, StoreError
from horae.ports.world import World
from horae.settings import Settings
from horae.stores.databases.isolation import isolate
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.testing.clock import VirtualClock
from tests.support.copied import postgres_database_url as postgres_database_url
from tests.support.killing import die_before
from tests.support.partitioned import FIRES, RUNS, opened, store_of
from tests.support.partitioned import url as url
from tests.support.waiting import wait_until

MONTH = timedelta(days=31)


@pytest.fixture
def world(url: str) -> Iterator[World]:
    """A world on the day on which its partitions were made."""
    with opened(url) as world:
        yield world


def advance(world: World, span: timedelta) -> None:
    assert isinstance(world.clock, VirtualClock)
    world.clock.advance(span)


def finished(world: World, **options: Any) -> str:
    queue = options.setdefault("queue", "default")
    jobs.enqueue(world, Request("h", **options))
    [job] = claims.pull(world, queues=[queue], worker_id="w")
    endings.ack(world, job.id, job.token)
    return job.id


def partitions(world: World, table: str = RUNS) -> list[Partition]:
    return world.store.read(lambda tx: tx.partitions.all(table))


def days(world: World, table: str = RUNS) -> list[Partition]:
    return [each for each in partitions(world, table) if each.is_day]


def count(world: World, table: str = RUNS) -> int:
    with store_of(world).engine.connect() as connection:
        return int(connection.execute(text(f"SELECT COUNT(*) FROM {table}")).scalar_one())


def tally(world: World) -> int:
    return world.store.read(lambda tx: tx.schedules.handler_tallies(["h"]))["h"].run_count


# -- made ahead --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [RUNS, FIRES])
def test_migrating_makes_old_fourteen_days_and_a_catch_all(world: World, table: str) -> None:
    old, *between, rest = partitions(world, table)

    assert (old.is_old, rest.is_catch_all, len(between)) == (True, True, 14)
    assert all(before.high == after.low for before, after in zip([old, *between], between, strict=False))
    assert days_ahead(partitions(world, table), world.clock.now()) == 14


def test_every_day_one_more_is_made_for_each_table(world: World) -> None:
    advance(world, 3 * DAY)

    assert keep_partitions(world) == 6
    assert keep_partitions(world) == 0
    assert [state.days_ahead for state in history_states(world)] == [14, 14]


def test_two_processes_that_make_the_same_partition_agree(world: World, url: str) -> None:
    other = World(open_store(create_store_engine(url)), world.clock, world.dice)
    advance(world, DAY)
    end = days(world)[-1].high
    assert end is not None
    tomorrow = Partition(RUNS, f"p{end:%Y%m%d}", end, end + DAY)

    assert [each.store.alter_partitions("add", tomorrow) for each in (world, other)] == [True, False]
    other.store.close()


def findings(world: World) -> list[tuple[str, str]]:
    installation = Installation(Settings.read({}), {}, world.clock, world=world)
    return [(finding.level, finding.text) for finding in history(installation)]


def test_fewer_than_seven_days_ahead_are_an_alarm(world: World) -> None:
    """The doctor says so, a metric shows it, and the operator gets one alert a day for each table."""
    advance(world, 7 * DAY)
    assert [state.is_short for state in history_states(world)] == [False, False]
    assert findings(world) == [("ok", "its partitions are made for 7 more days")]

    advance(world, DAY)
    assert [state.is_short for state in history_states(world)] == [True, True]
    assert [level for level, _ in findings(world)] == ["problem", "problem"]
    ahead = next(each for each in history_families(world) if each.name == "horae_history_days_ahead")
    assert ahead.points == {(RUNS,): 6.0, (FIRES,): 6.0}
    assert [look_round(world, Alerts("https://ops.example/hook")) for _ in range(2)] == [2, 0]


# -- the catch-all -----------------------------------------------------------------------------------------------------


def test_an_ending_that_no_day_takes_is_not_refused_and_gets_a_day_later(world: World) -> None:
    """No process made a partition for three weeks."""
    advance(world, 20 * DAY)
    job_id = finished(world)
    advance(world, DAY)
    other = finished(world)
    assert [state.catch_all for state in history_states(world)] == [2, 0]
    assert any("2 rows of horae_runs lie in the catch-all" in finding for _, finding in findings(world))

    assert empty_catch_all(world) == 1
    assert keep_partitions(world) == 14 + 15

    assert [(state.catch_all, state.days_ahead) for state in history_states(world)] == [(0, 14), (0, 14)]
    assert [jobs.get(world, each).state for each in (job_id, other)] == ["succeeded"] * 2


def test_an_ending_in_the_future_stays_beside_and_keeps_none_from_its_day(world: World) -> None:
    """A clock was years ahead; the rows of today lie with it in the catch-all."""
    now = world.clock.now()
    assert isinstance(world.clock, VirtualClock)
    ahead = World(world.store, VirtualClock(now + 1000 * DAY), world.dice)
    finished(ahead)
    advance(world, 20 * DAY)
    finished(world)

    assert empty_catch_all(world) == 1
    keep_partitions(world)

    assert [state.catch_all for state in history_states(world)] == [1, 0]
    assert count(world) == 2


def test_rows_beside_the_days_are_deleted_in_steps_when_their_time_is_over(world: World) -> None:
    advance(world, 20 * DAY)
    finished(world)
    advance(world, Retention().runs + 3 * DAY)

    assert clean(world, Retention())[RUNS] == 1
    assert (count(world), tally(world)) == (0, 1)


@pytest.mark.slow
def test_a_migration_at_a_quiet_hour_moves_any_number_of_rows_at_once(world: World) -> None:
    """For roles that may not empty the catch-all beside the work; the doctor names the command."""
    advance(world, 20 * DAY)
    most = history_states(world)[0].moved_at_most
    with store_of(world).engine.begin() as connection:
        columns = "job_id, token, outcome, state, attempt, queue, handler, owner, finished_at"
        values = f"{{}}, 1, 'succeeded', 'succeeded', 0, 'q', 'h', 'system', {micros(world.clock.now())}"
        rows = {
            "postgresql": f"SELECT {values.format('i')} FROM generate_series(1, {most + 1}) i",
            "mysql": f"SELECT {values.format('seq')} FROM seq_1_to_{most + 1}",
        }[connection.dialect.name]
        connection.exec_driver_sql(f"INSERT INTO {RUNS} ({columns}) {rows}")

    assert [state.is_overfull for state in history_states(world)] == [True, False]
    assert any(
        level == "problem" and f"More than {most:,} rows of horae_runs" in found for level, found in findings(world)
    )
    keep_partitions(world, patient=True)

    assert [(state.catch_all, state.days_ahead) for state in history_states(world)] == [(0, 14), (0, 14)]
    assert count(world) == most + 1


# -- dropped -----------------------------------------------------------------------------------------------------------


def test_a_day_is_dropped_when_its_rows_are_over_and_its_runs_stay_counted(world: World) -> None:
    advance(world, DAY)
    for _ in range(3):
        finished(world)
    before = days(world)
    advance(world, Retention().runs)
    keep_partitions(world)
    assert drop_old(world) == 0  # the day has not ended so long ago

    advance(world, DAY)
    assert clean(world, Retention())[RUNS] == 0  # they are left for the drop
    assert drop_old(world) == 2  # one day of each table

    assert (count(world), tally(world)) == (0, 3)
    assert before[0].name not in [each.name for each in days(world)]


def test_counted_and_not_yet_dropped_is_counted_once(world: World) -> None:
    """The process died between the two transactions, or the drop waits for a reader."""
    advance(world, DAY)
    finished(world)
    finished(world)
    [first, *_] = days(world)
    world.store.transact(lambda tx: tx.partitions.count_runs(first))

    world.store.transact(lambda tx: tx.partitions.count_runs(first))
    assert tally(world) == 2
    advance(world, 100 * DAY)
    assert clean(world, Retention())[RUNS] == 0  # to delete its rows would count them twice
    drop_old(world)

    assert (tally(world), count(world)) == (2, 0)


@pytest.mark.slow
def test_whoever_is_killed_in_the_middle_of_a_drop_every_run_is_counted_once(world: World, url: str) -> None:
    advance(world, DAY)
    for _ in range(3):
        finished(world)
    advance(world, Retention().runs + DAY)
    keep_partitions(world)
    while roll_up(world):  # a day is dropped when its runs are in the statistics
        continue
    deaths = 0
    store_of(world).engine.dispose()
    while not die_before(deaths, url, lambda engine: drop_old(replace(world, store=open_store(engine)))):
        deaths += 1
        assert deaths < 200
        assert tally(world) == 3
        store_of(world).engine.dispose()

    assert deaths > 10
    assert (count(world), tally(world)) == (0, 3)


def test_where_it_cannot_be_dropped_rows_are_deleted_in_steps(world: World) -> None:
    """History must not grow because a role may not drop tables."""
    advance(world, DAY)
    finished(world)
    advance(world, Retention().runs + 4 * DAY)

    assert clean(world, Retention())[RUNS] == 1
    assert tally(world) == 1


def test_the_longest_retention_in_a_day_decides(world: World) -> None:
    """Of two days one has a run of the queue that is kept for a year; the other is dropped as if there were no rule."""
    set_retention(world, timedelta(days=365), queue="law")
    advance(world, DAY)
    finished(world)
    kept = finished(world, queue="law")
    advance(world, DAY)
    finished(world)
    first, second, *_ = [each.name for each in days(world)]
    advance(world, MONTH + DAY)
    keep_partitions(world)

    drop_old(world)

    names = [each.name for each in days(world)]
    assert (first in names, second in names) == (True, False)
    assert count(world) == 2
    advance(world, 2 * DAY)
    assert clean(world, Retention())[RUNS] == 1  # the other run of the first day, in steps
    assert jobs.get(world, kept).state == "succeeded"
    advance(world, timedelta(days=365))
    keep_partitions(world)
    drop_old(world)
    assert (count(world), tally(world)) == (0, 3)


def fire(world: World, fire_at: datetime, recorded_at: datetime) -> None:
    values = f"1, 'backfill', {micros(fire_at)}, 'ran', 1, {micros(recorded_at)}"
    with store_of(world).engine.begin() as connection:
        names = "schedule_id, kind, fire_at, verdict, fire_count, recorded_at"
        connection.execute(text(f"INSERT INTO {FIRES} ({names}) VALUES ({values})"))


def test_fires_of_a_backfill_are_kept_from_when_they_were_recorded(world: World) -> None:
    """Old fire times lie in a partition of their own, also those whose day was dropped before, and go in steps."""
    advance(world, 2 * DAY)
    start = world.clock.now()
    fire(world, start, start)
    advance(world, MONTH)
    keep_partitions(world)
    drop_old(world)
    assert count(world, FIRES) == 0
    now = world.clock.now()

    fire(world, now - 400 * DAY, now)
    fire(world, start, now)  # its day is gone
    fire(world, start + 2 * DAY, now)  # its day is there
    assert [state.catch_all for state in history_states(world)] == [0, 0]
    advance(world, 20 * DAY)
    keep_partitions(world)
    drop_old(world)
    clean(world, Retention())
    assert count(world, FIRES) == 3

    advance(world, 11 * DAY)
    drop_old(world)
    clean(world, Retention())
    advance(world, 3 * DAY)
    drop_old(world)
    clean(world, Retention())
    assert count(world, FIRES) == 0


# -- in nobody's way ---------------------------------------------------------------------------------------------------


def waits_for_the_table(engine: Engine) -> bool:
    sql = {
        "postgresql": "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'horae_runs'::regclass",
        "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%'",
    }[engine.dialect.name]
    with engine.connect() as connection:
        return int(connection.execute(text(sql)).scalar_one()) > 0


def test_a_drop_that_meets_a_long_reader_gives_way_and_no_settle_waits_for_it(world: World) -> None:
    advance(world, DAY)
    finished(world)
    [first, *_] = days(world)
    advance(world, MONTH + DAY)
    jobs.enqueue(world, Request("h"))
    [job] = claims.pull(world, worker_id="w")
    problems: list[Exception] = []

    def drop() -> None:
        try:
            world.store.alter_partitions("drop", first)
        except StoreBusy as problem:
            problems.append(problem)

    engine = store_of(world).engine
    with engine.connect() as reader:
        reader.execute(text("SELECT COUNT(*) FROM horae_runs")).scalar_one()
        dropping = Thread(target=drop)
        dropping.start()
        wait_until(lambda: waits_for_the_table(engine) or not dropping.is_alive())
        endings.ack(world, job.id, job.token)  # behind the drop, while the reader stays
        dropping.join(60)
        reader.rollback()

    assert [type(problem) for problem in problems] == [StoreBusy]
    assert jobs.get(world, job.id).state == "succeeded"
    assert drop_old(world) > 0  # and again, when the reader has gone
    assert first.name not in [each.name for each in days(world)]


# -- rights ------------------------------------------------------------------------------------------------------------


def as_role(world: World, url: str, rights: str) -> str:
    """Return the same database, for a role that may only use its tables and what *rights* add."""
    parsed = make_url(url)
    database, role = parsed.database, f"plain_{parsed.database}"[:30]
    statements = {
        "postgresql": (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT USAGE ON SCHEMA public TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}",
        ),
        "mysql": (
            f"CREATE USER {role}@'%'",
            f"GRANT SELECT, INSERT, UPDATE, DELETE{rights} ON {database}.* TO {role}@'%'",
        ),
    }[store_of(world).dialect.name]
    with store_of(world).engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement.replace("%", "%%"))
    return parsed.set(username=role, password=None).render_as_string(hide_password=False)


def test_a_role_that_may_not_alter_tables_makes_and_drops_partitions_through_a_routine(world: World, url: str) -> None:
    plain = World(open_store(create_store_engine(as_role(world, url, ", EXECUTE"))), world.clock, world.dice)
    advance(world, DAY)
    finished(plain)
    first = days(plain)[0].name
    advance(world, MONTH)

    assert keep_partitions(plain) > 0
    assert drop_old(plain) > 0

    assert first not in [each.name for each in days(plain)]
    assert (count(plain), tally(plain)) == (0, 1)
    plain.store.close()


def test_a_role_that_may_do_neither_is_told_and_loses_no_ending(mysql_database_url: str) -> None:
    engine = create_store_engine(mysql_database_url)
    migrate(engine)
    store = open_store(engine)
    world = World(store, VirtualClock(store.read_time() or VirtualClock().now()), SystemDice())
    plain = World(open_store(create_store_engine(as_role(world, mysql_database_url, ""))), world.clock, world.dice)
    advance(world, MONTH)

    with pytest.raises(StoreError):
        keep_partitions(plain)

    job_id = finished(plain)
    assert jobs.get(plain, job_id).state == "succeeded"
    assert [state.is_short for state in history_states(plain)] == [True, True]
    plain.store.close()
    store.close()


def test_a_partition_is_no_way_past_the_wall_between_tenants(postgres_database_url: str) -> None:
    """Those that were there when the wall was raised, and those that were made later."""
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    isolate(engine)
    store = open_store(engine)
    world = World(store, VirtualClock(store.read_time() or VirtualClock().now()), SystemDice())
    advance(world, DAY)
    keep_partitions(world)
    with engine.connect() as connection:
        sql = (
            "SELECT c.relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relkind = 'r' AND NOT "
            "(relrowsecurity AND relforcerowsecurity AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid))"
        )
        assert connection.exec_driver_sql(sql).scalars().all() == []
    store.close()


# -- plans -------------------------------------------------------------------------------------------------------------

READS = {
    "one job": "SELECT * FROM horae_runs WHERE job_id = 7 AND state IS NOT NULL",
    "the newest": "SELECT job_id FROM horae_runs WHERE state IS NOT NULL ORDER BY job_id DESC LIMIT 50",
    "of a schedule": "SELECT job_id FROM horae_runs WHERE schedule_id = 3 ORDER BY job_id DESC LIMIT 50",
    "the last number": "SELECT max(job_id) FROM horae_runs",
    "since": "SELECT count(*) FROM horae_runs WHERE finished_at >= {hour} AND finished_at < {hour} + 1000",
    "the oldest": "SELECT job_id FROM horae_runs WHERE finished_at < {hour} ORDER BY finished_at LIMIT 200",
    "an occurrence": "SELECT 1 FROM horae_fires WHERE schedule_id = 3 AND kind = 'schedule' AND fire_at = {hour}",
}


@pytest.mark.parametrize("read", READS)
def test_postgresql_reads_the_history_by_indexes_and_only_the_days_it_must(
    postgres_database_url: str, read: str
) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    store = open_store(engine)
    now = store.read_time()
    assert now is not None
    with engine.begin() as connection:
        columns = "job_id, token, outcome, state, attempt, queue, handler, owner, finished_at, schedule_id"
        ends = f"{micros(now)} + i + i % 10 * 86400000000::bigint"
        values = f"i, 1, 'succeeded', 'succeeded', 0, 'q', 'h', 'system', {ends}, i / 10 % 5"
        connection.execute(text(f"INSERT INTO horae_runs ({columns}) SELECT {values} FROM generate_series(1, 40000) i"))
        connection.exec_driver_sql("ANALYZE horae_runs")
        sql = READS[read].format(hour=micros(now + 5 * DAY))
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {sql}").scalars())
    store.close()

    full = [line for line in plan.splitlines() if "Seq Scan" in line and not re.search("rows=[01] ", line)]
    assert (full, "->  Sort" in plan) == ([], False), plan
    if read in ("since", "the oldest", "an occurrence"):  # pruned: days on the other side of the instant are not read
        assert len(re.findall("_p[0-9]{8}_", plan)) < 14


# -- the key -----------------------------------------------------------------------------------------------------------


def test_the_fence_forbids_a_second_ending_although_the_end_belongs_to_the_key(store: SqlStore) -> None:
    clock = VirtualClock(store.read_time() or VirtualClock().now())
    world = World(store, clock, SystemDice())
    jobs.enqueue(world, Request("h"))
    [job] = claims.pull(world, worker_id="w")
    for outcome in (Outcome("succeeded"), Outcome("failed", error="late")):
        clock.advance(DAY)  # another partition, and another key
        done = settlement(job, outcome, now=clock.now(), roll=0.0)
        store.settle([done], now=clock.now())

    runs: list[Run] = store.read(lambda tx: tx.jobs.runs(job.number))
    assert [run.outcome for run in runs] == ["succeeded"]
