"""A catch-all with more rows than can be moved under a lock is emptied beside the work, whoever dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.actions.partitions import history_states, keep_partitions
from horae.clock import SystemDice
from horae.core.partitions import DAY, Partition, partition_name, start_of_day
from horae.core.time.instants import micros
from horae.doctor.findings import Installation
from horae.doctor.work import history
from horae.ports.world import World
from horae.settings import Settings
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.support.copied import postgres_database_url as postgres_database_url
from tests.support.killing import die_before
from tests.support.partitioned import RUNS, opened, store_of
from tests.support.partitioned import url as url

COLUMNS = "job_id, token, outcome, state, attempt, queue, handler, owner, finished_at"
MOST_DEATHS = 80


@pytest.fixture
def world(url: str) -> Iterator[World]:
    """A world for which no day was made for weeks, with more rows beside the days than are moved under a lock."""
    with opened(url, later=20 * DAY) as world:
        fill(world, history_states(world)[0].moved_at_most + 1)
        assert [state.is_overfull for state in history_states(world)] == [True, False]
        yield world


def fill(world: World, rows: int, *, at: int | None = None) -> None:
    begin = micros(world.clock.now()) - 10**9 if at is None else at
    values = f"1000000000 + {{0}}, 1, 'succeeded', 'succeeded', 0, 'q', 'h', 'system', {begin} + {{0}} * 1000"
    with store_of(world).engine.begin() as connection:
        made = {
            "postgresql": f"SELECT {values.format('i')} FROM generate_series(1, {rows}) i",
            "mysql": f"SELECT {values.format('seq')} FROM seq_1_to_{rows}",
        }[connection.dialect.name]
        connection.exec_driver_sql(f"INSERT INTO {RUNS} ({COLUMNS}) {made}")


def count(world: World) -> int:
    with store_of(world).engine.connect() as connection:
        return int(connection.execute(text(f"SELECT COUNT(*) FROM {RUNS}")).scalar_one())


def aside(world: World) -> int:
    return world.store.read(lambda tx: tx.partitions.count_aside(RUNS, most=10**6))


def end_a_job(world: World) -> None:
    jobs.enqueue(world, Request("h", queue="q"))
    [job] = claims.pull(world, queues=["q"], worker_id="w")
    endings.ack(world, job.id, job.token)


def empty(world: World) -> None:
    """Do what the chore does, which goes on while there is something to do."""
    while keep_partitions(world):
        continue


def findings(world: World) -> list[tuple[str, str]]:
    installation = Installation(Settings.read({}), {}, world.clock, world=world)
    return [(each.level, each.text) for each in history(installation)]


@pytest.mark.slow
def test_any_number_of_rows_gets_a_partition_without_a_quiet_hour(world: World) -> None:
    rows = count(world)
    assert any(level == "problem" and "beside the work" in found for level, found in findings(world))

    empty(world)

    assert [(state.catch_all, state.days_ahead) for state in history_states(world)] == [(0, 14), (0, 14)]
    assert (count(world), aside(world)) == (rows, 0)
    assert [level for level, _ in findings(world)] == ["ok"]


@pytest.mark.slow
def test_whoever_is_killed_while_it_is_emptied_no_row_is_lost_or_doubled(world: World, url: str) -> None:
    store_of(world).engine.dispose()  # a child must not share a connection
    rows = count(world)
    deaths = 0
    while not die_before(deaths, url, lambda engine: empty(replace(world, store=open_store(engine)))):
        deaths += 1
        assert deaths < MOST_DEATHS
        end_a_job(world)
        rows += 1
        assert count(world) + aside(world) == rows
        store_of(world).engine.dispose()

    assert deaths > 10
    empty(world)
    assert [(state.catch_all, state.days_ahead) for state in history_states(world)] == [(0, 14), (0, 14)]
    assert (count(world), aside(world)) == (rows, 0)


@pytest.mark.slow
def test_an_ending_that_a_death_in_the_middle_would_refuse_takes_the_bound_away(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    store = open_store(engine)
    partitions = store.read(lambda tx: tx.partitions.all(RUNS))
    low = partitions[-2].high
    assert low is not None
    world = World(store, VirtualClock(low + 20 * DAY), SystemDice())
    high = start_of_day(world.clock.now()) + 3 * DAY
    call = "SELECT horae_partition('bound', 'horae_runs', :name, :low, :high, '1s')"
    with engine.begin() as connection:
        given = {"name": partition_name(high), "low": micros(low), "high": micros(high)}
        assert connection.execute(text(call), given).scalar()

    end_a_job(world)
    assert isinstance(world.clock, VirtualClock)
    world.clock.advance(timedelta(days=30))  # and no process has kept the store since
    end_a_job(world)

    assert count(world) == 2
    with engine.connect() as connection:
        bound = text("SELECT 1 FROM pg_constraint WHERE conname = 'horae_range'")
        assert connection.execute(bound).first() is None
    store.close()


@pytest.mark.slow
def test_rows_of_the_future_leave_a_full_catch_all_to_a_quiet_hour(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    store = open_store(engine)
    low = store.read(lambda tx: tx.partitions.all(RUNS))[-2].high
    assert low is not None
    world = World(store, VirtualClock(low + 20 * DAY), SystemDice())
    fill(world, 5, at=micros(world.clock.now() + 300 * DAY))
    high = start_of_day(world.clock.now()) + 3 * DAY

    assert not store.empty_catch_all(Partition(RUNS, partition_name(high), low, high))

    end_a_job(world)
    assert count(world) == 6
    assert keep_partitions(world, patient=True)
    assert history_states(world)[0].catch_all == 5
    store.close()
