"""kill -9 in the middle of dropping a partition and of an import: nothing is lost, nothing counted twice."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, insert, text
from sqlalchemy import select as select_from

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Request
from horae.actions.partitions import drop_old, keep_partitions
from horae.clock import SystemDice
from horae.core.partitions import DAY
from horae.ports.world import World
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.stores.transfer.export import export
from horae.stores.transfer.rows import forms
from horae.testing.clock import VirtualClock
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
DROP = """
import sys
from datetime import datetime
from horae.actions.partitions import drop_old
from horae.clock import SystemDice
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import VirtualClock

store = open_store(create_store_engine(sys.argv[1]))
drop_old(World(store, VirtualClock(datetime.fromisoformat(sys.argv[2])), SystemDice()))
"""
MANY = 20_000
RUNS, FIRES = "horae_runs", "horae_fires"
BLOCKED = {
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    # Row locks that are waited for are shown with a delay; a statement on so small a table takes no time by itself.
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() "
    "AND (state LIKE 'Waiting for table metadata%' OR (info LIKE '%counted_partitions%' AND time_ms > 200))",
}


def kill(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL


# -- a drop ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["postgres", "mysql"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world in which one day of runs and of fires is over; its clock stands still."""
    engine = create_store_engine(request.getfixturevalue(f"{request.param}_database_url"))
    migrate(engine)
    store = open_store(engine)
    first = store.read(lambda tx: tx.partitions.all(RUNS))[0].high
    assert first is not None
    clock = VirtualClock(first + DAY / 2)
    world = World(store, clock, SystemDice())
    for _ in range(3):
        jobs.enqueue(world, Request("h"))
        [job] = claims.pull(world, worker_id="w")
        endings.ack(world, job.id, job.token)
    clock.advance(timedelta(days=31) + DAY)
    keep_partitions(world)
    yield world
    store.close()


def engine_of(world: World) -> Engine:
    assert isinstance(world.store, SqlStore)
    return world.store.engine


def tally(world: World) -> int:
    return world.store.read(lambda tx: tx.schedules.handler_tallies(["h"]))["h"].run_count


def days(world: World, table: str = RUNS) -> list[str]:
    return [each.name for each in world.store.read(lambda tx: tx.partitions.all(table)) if each.is_day]


def is_blocked(engine: Engine) -> bool:
    with engine.connect() as connection:
        return int(connection.execute(text(BLOCKED[engine.dialect.name])).scalar_one()) > 0


def counting(connection: Connection) -> None:
    """Hold the lock behind which runs are counted."""
    lock = {"table_name": RUNS, "name": "lock", "begins_at": 0, "ends_at": 0}
    connection.execute(insert(metadata.tables["horae_counted_partitions"]).values(**lock))


def dropping(connection: Connection) -> None:
    """Read the runs: they are counted already, and the drop waits."""
    connection.execute(text(f"SELECT COUNT(*) FROM {RUNS}")).scalar_one()


def dropping_fires(connection: Connection) -> None:
    connection.execute(text(f"SELECT COUNT(*) FROM {FIRES}")).scalar_one()


@contextmanager
def killed(world: World, hold: Callable[[Connection], None]) -> Iterator[None]:
    """Let a process drop what is over, and kill it where it waits for what is held."""
    engine = engine_of(world)
    url = engine.url.render_as_string(hide_password=False)
    with engine.connect() as holder:
        hold(holder)
        process = subprocess.Popen([sys.executable, "-c", DROP, url, world.clock.now().isoformat()])
        wait_until(lambda: is_blocked(engine) or process.poll() is not None)
        kill(process)
        yield
        holder.rollback()
    wait_until(lambda: not is_blocked(engine))


@pytest.mark.parametrize("hold", [counting, dropping, dropping_fires], ids=lambda each: each.__name__)
def test_a_drop_that_is_killed_loses_no_count_and_is_finished_by_the_next(
    world: World, hold: Callable[[Connection], None]
) -> None:
    before = days(world)
    with killed(world, hold):
        assert tally(world) == 3  # while the lock is held, and what the dead process did is not yet undone

    assert tally(world) == 3
    drop_old(world)
    drop_old(world)
    with engine_of(world).connect() as connection:
        left = connection.execute(text(f"SELECT COUNT(*) FROM {RUNS}")).scalar_one()
        marks = (
            connection.execute(text("SELECT name FROM horae_counted_partitions WHERE name <> 'lock'")).scalars().all()
        )

    assert (tally(world), left, marks) == (3, 0, [])
    assert before[0] not in days(world) + days(world, FIRES)


# -- an import ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose import takes a few seconds."""
    folder = tmp_path_factory.mktemp("export")
    engine = create_store_engine(f"sqlite:///{folder}/old.db")
    migrate(engine)
    row = {"scope": "key", "owner": "system", "job_id": 1, "request_hash": "", "created_at": 1}
    with engine.begin() as connection:
        keys = [{**row, "name": f"n{number}"} for number in range(MANY)]
        connection.execute(insert(forms()["keys"].table), keys)
        connection.execute(insert(forms()["queues"].table).values(name="slow", sorting="fifo"))
    with (folder / "all.jsonl").open("wb") as out:
        export(engine, out, created_at="2030-01-07T12:00:00Z")
    engine.dispose()
    return folder / "all.jsonl"


def importing(file: Path, url: str, *options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "horae", "db", "import", str(file), "--db", url, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)


def import_and_die(file: Path, url: str) -> None:
    """Kill an import that has written some rows and cannot end, because there is no room for what it says next."""
    read, write = os.pipe()
    fill = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)  # the process itself must block
    process = importing(file, url, stderr=write)
    said = b""

    def has_begun() -> bool:
        nonlocal said
        if select.select([read], [], [], 0)[0]:
            said += os.read(read, 4096)
        return b" %" in said or process.poll() is not None

    try:
        wait_until(has_begun)
        for size in (4096, 256, 16, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(fill, b"." * size)
        kill(process)
    finally:
        process.kill()
        for descriptor in (read, write, fill):
            os.close(descriptor)


def test_an_import_that_is_killed_leaves_nothing_and_is_simply_repeated(file: Path, database_url: str) -> None:
    engine = create_store_engine(database_url)
    migrate(engine)
    import_and_die(file, database_url)
    with engine.connect() as connection:
        assert [form.name for form in forms().values() if connection.execute(select_from(form.table)).first()] == []

    done, problem = importing(file, database_url, "--json").communicate(timeout=120)
    with engine.connect() as connection:
        keys = connection.execute(text("SELECT COUNT(*), COUNT(DISTINCT name) FROM horae_keys")).one()
        verbs = connection.execute(text("SELECT verb FROM horae_audit")).scalars().all()
    again, _ = importing(file, database_url, "--json").communicate(timeout=120)
    engine.dispose()

    assert json.loads(done)["import"]["rows"]["keys"] == MANY, problem
    assert (tuple(keys), verbs) == ((MANY, MANY), ["import"])
    assert json.loads(again)["error"]["reason"] == "import_done_before"
