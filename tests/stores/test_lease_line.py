"""SQLite: leases end on a line that nobody can set, whatever becomes of the clock on the wall."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from horae.actions.attention import inbox, lanes
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.clock import SystemClock, clock_of
from horae.core.jobs.job import Job, Lease
from horae.core.time.boots import Boot, LeaseLine
from horae.limits.locks import open_locks
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore
from horae.testing.clock import NOON, LoadedDice
from tests.stores.conftest import KINDS
from tests.support.templates import put_tables

HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
STEPS = pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])


class Host:
    """A machine whose clock somebody sets, and which can be restarted."""

    def __init__(self) -> None:
        self.wall, self.lasted, self.boot = NOON, timedelta(hours=5), "boot-1"

    def pass_time(self, span: timedelta) -> None:
        self.wall += span
        self.lasted += span

    def set_clock(self, step: timedelta) -> None:
        self.wall += step

    def restart(self) -> None:
        self.wall += timedelta(minutes=1)
        self.lasted, self.boot = timedelta(seconds=20), f"{self.boot}-again"


class Program:
    """One process on the host, with the database open."""

    def __init__(self, host: Host, store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
        class HostsTime(datetime):
            @classmethod
            def now(cls, _tz: Any = None) -> Any:
                return host.wall

        monkeypatch.setattr("horae.clock.datetime", HostsTime)  # the host's clock, as seen by our port
        clock = clock_of(store, boot=lambda: host.boot, uptime=lambda: host.lasted)
        self.world = World(store, clock, LoadedDice())

    def take(self) -> list[Job]:
        return claims.pull(self.world, worker_id="w", lease=LEASE)

    def renew(self, job: Job) -> bool:
        return job.number in claims.renew(self.world, [Lease(job.number, job.token)], lease=LEASE).held

    def lost(self) -> list[str]:
        return [job.id for job, _ in endings.lose_expired(self.world)]


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def start(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Start another process on the same file."""
    url, stores = put_tables(tmp_path / "horae.db"), list[SqlStore]()

    def another() -> Program:
        stores.append(open_store(create_store_engine(url)))
        return Program(host, stores[-1], monkeypatch)

    yield another
    for store in stores:
        store.close()


Start = Callable[[], Program]


@STEPS
def test_a_step_of_the_clock_right_after_a_claim_loses_no_lease(host: Host, start: Start, step: timedelta) -> None:
    holder = start()
    verbs.enqueue(holder.world, Request("a"))
    [job] = holder.take()
    host.set_clock(step)
    heir = start()  # opened after the step, and of the same mind

    assert (holder.lost(), heir.lost()) == ([], [])
    host.pass_time(LEASE - SECOND)
    assert (holder.lost(), heir.lost()) == ([], [])
    assert holder.renew(job)


@STEPS
def test_a_step_of_the_clock_between_renewals_loses_no_lease(host: Host, start: Start, step: timedelta) -> None:
    holder, heir = start(), start()
    verbs.enqueue(holder.world, Request("a"))
    [job] = holder.take()
    for _ in range(4):
        host.pass_time(LEASE / 3)
        assert holder.renew(job)
        host.set_clock(step)
        assert heir.lost() == []


@STEPS
def test_a_step_of_the_clock_in_the_middle_of_a_renewal_loses_no_lease(
    host: Host, start: Start, step: timedelta
) -> None:
    holder, heir = start(), start()
    verbs.enqueue(holder.world, Request("a"))
    [job] = holder.take()
    host.pass_time(LEASE / 3)
    holder.world = replace(holder.world, store=SetsTheClock(holder.world.store, lambda: host.set_clock(step)))

    assert holder.renew(job)
    host.pass_time(LEASE - SECOND)
    assert heir.lost() == []
    host.pass_time(2 * SECOND)
    assert heir.lost() == [job.id]


class SetsTheClock:
    """A store before whose renewals something happens: after the caller read its clocks."""

    def __init__(self, store: Any, happens: Callable[[], None]) -> None:
        self._store, self._happens = store, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def renew(self, *given: Any, **named: Any) -> Any:
        self._happens()
        return self._store.renew(*given, **named)


@STEPS
def test_the_job_of_a_dead_holder_is_handed_on_when_its_lease_has_passed(
    host: Host, start: Start, step: timedelta
) -> None:
    holder, heir = start(), start()
    placed = verbs.enqueue(holder.world, Request("a"))
    holder.take()
    host.set_clock(step)
    host.pass_time(LEASE + SECOND)

    assert heir.lost() == [placed.id]


def test_due_times_go_on_following_the_clock_on_the_wall(host: Host, start: Start) -> None:
    program = start()
    verbs.enqueue(program.world, Request("a", delay=HOUR))
    assert program.take() == []
    host.set_clock(HOUR)

    assert len(program.take()) == 1


@STEPS
def test_people_see_when_a_lease_ends_by_the_clock_that_they_read(host: Host, start: Start, step: timedelta) -> None:
    program = start()
    placed = verbs.enqueue(program.world, Request("a"))
    program.take()
    host.set_clock(step)

    assert verbs.get(program.world, placed.id).leased_until == host.wall + LEASE
    assert [job.leased_until for job in verbs.find(program.world)] == [host.wall + LEASE]


def test_after_a_restart_of_the_host_the_leases_of_the_boot_before_have_ended(host: Host, start: Start) -> None:
    before = start()
    placed = verbs.enqueue(before.world, Request("a"))
    inbox.add(before.world, "ops", "report")
    before.take()
    assert lanes.acquire(before.world, "ops", "driver", lease=HOUR) is not None
    assert open_locks("database", before.world).try_lock("job:a", HOUR) is not None
    host.restart()
    after = start()

    assert after.lost() == [placed.id]
    assert lanes.acquire(after.world, "ops", "another", lease=HOUR) is not None
    assert open_locks("database", after.world).try_lock("job:a", HOUR) is not None


def test_a_second_process_of_the_same_boot_ends_nothing(host: Host, start: Start) -> None:
    host.restart()
    first = start()
    verbs.enqueue(first.world, Request("a"))
    first.take()
    host.set_clock(-HOUR)

    assert start().lost() == []
    assert first.lost() == []


@STEPS
def test_a_lane_and_a_lock_are_held_however_the_clock_is_set(host: Host, start: Start, step: timedelta) -> None:
    holder = start()
    inbox.add(holder.world, "ops", "report")
    drive = lanes.acquire(holder.world, "ops", "driver", lease=LEASE)
    lock = open_locks("database", holder.world).try_lock("job:a", LEASE)
    assert drive is not None
    assert lock is not None
    host.set_clock(step)
    heir = start()

    assert lanes.acquire(heir.world, "ops", "another", lease=LEASE) is None
    assert open_locks("database", heir.world).try_lock("job:a", LEASE) is None
    lanes.renew(holder.world, drive, LEASE)
    assert lock.extend(LEASE)
    host.pass_time(LEASE + SECOND)
    assert lanes.acquire(heir.world, "ops", "another", lease=LEASE) is not None
    assert open_locks("database", heir.world).try_lock("job:a", LEASE) is not None
    assert [lane.leased_until for lane in lanes.find_lanes(heir.world)] == [host.wall + LEASE]


def test_a_host_that_does_not_name_its_boots_goes_by_its_clock(tmp_path: Path) -> None:
    with closing(open_store(create_store_engine(put_tables(tmp_path / "horae.db")))) as store:
        clock = clock_of(store, boot=lambda: "")

        assert type(clock) is SystemClock
        assert abs(clock.steady() - datetime.now(UTC)) < HOUR


def test_looking_at_a_database_writes_nothing_into_it(host: Host, start: Start, tmp_path: Path) -> None:
    program = start()
    verbs.enqueue(program.world, Request("a"))
    program.take()
    later = Boot("another boot", timedelta(seconds=1))

    line = program.world.store.lease_line(later, now=host.wall, fix=False)
    assert line == LeaseLine(host.wall - later.uptime, is_stored=False)
    assert program.lost() == []


def test_opening_inside_somebody_elses_transaction_waits_for_nobody_and_the_line_is_stored_later(
    host: Host, tmp_path: Path
) -> None:
    """An application whose first act is to enqueue inside a transaction of its own holds the file itself."""
    url = put_tables(tmp_path / "horae.db")
    with closing(open_store(create_store_engine(url))) as store, closing(sqlite3.connect(tmp_path / "horae.db")) as own:
        own.execute("BEGIN IMMEDIATE")
        clock = clock_of(store, boot=lambda: host.boot, uptime=lambda: host.lasted)
        boot = Boot(host.boot, host.lasted)
        unstored = store.lease_line(boot, now=host.wall, fix=False)
        own.rollback()
        clock.steady()
        stored = store.lease_line(boot, now=host.wall, fix=False)

    assert [line is not None and line.is_stored for line in (unstored, stored)] == [False, True]


@pytest.mark.parametrize("store_url", KINDS[1:], indirect=True)
def test_where_the_database_keeps_the_time_there_is_no_such_line(store: SqlStore) -> None:
    assert store.lease_line(Boot("boot", HOUR), now=NOON) is None
