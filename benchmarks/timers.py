"""``python -m benchmarks.timers``: how late do jobs start beside millions that are due later, and in how much memory?

Jobs due within the next month are made inside the database by SQL; then, on top, a few that come due during the
measurement, one after the other. One worker with default settings runs them. Printed is how long after its due time
each handler began, the worker's memory, and the same beside a thousandth of the jobs, which is what a timer costs
that does not depend on how many wait.

    python -m benchmarks.timers --full

makes ten million jobs on SQLite and PostgreSQL; that takes minutes. The default is a fiftieth of that. With ``--url``
the jobs stay in that database, and a database that has as many is only measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.meter import Meter, percentile, resident_megabytes
from benchmarks.sealing import KINDS
from benchmarks.size import AT_ONCE, analyse, run, series
from horae import Context, Horae, Retry
from horae.core.jobs.labels import Labelling
from horae.core.time.instants import MICROSECOND, micros
from horae.ports.store import Tx
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from tests.support.servers import ServerMissing, Servers

FULL = 10_000_000
FEW = 1_000  # a thousandth of the rows, or less, for comparison
HOUR, MONTH = timedelta(hours=1), timedelta(days=30)
PRIME = 1_000_003
LARGE = PRIME * 10_000_000  # so that servers calculate in 64 bits
SOON = 3.0  # seconds until the first of the measured jobs
COLUMNS = "state, queue, handler, owner, band, run_at, planned_at, created_at, max_attempts, payload"
SIZES = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_total_relation_size('horae_jobs')",
    "mysql": "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()",
}


@dataclass(frozen=True)
class Figures:
    """Delays from the due time to the first line of the handler, in milliseconds."""

    waiting: int
    ran: int
    p50: float
    p99: float
    worst: float
    worker_megabytes: float
    database_megabytes: float
    processor: float  # milliseconds of the worker for each job, the database of SQLite included

    def __str__(self) -> str:
        return (
            f"{self.waiting:>12,} waiting: {self.ran:,} ran, late by {self.p50:.1f} ms at the median, "
            f"{self.p99:.1f} at p99, {self.worst:.1f} at most; worker {self.worker_megabytes:.0f} MB, "
            f"{self.processor:.1f} ms of processor a job; jobs and indexes {self.database_megabytes:,.0f} MB"
        )


def fill(store: SqlStore, count: int) -> None:
    """Make jobs that come due between an hour and a month from now, in no order."""
    begin, span = micros(_now(store) + HOUR), (MONTH - HOUR) // MICROSECOND
    present = count_jobs(store)
    if present >= count:
        return
    for low in range(present + 1, count + 1, AT_ONCE):
        rows = series(store, low, min(low + AT_ONCE - 1, count))
        at = f"{begin} + (i + {LARGE}) * 7919 % {PRIME} * {span // PRIME} + i % 1000"
        _insert(store, at, rows)
    settle_labels(store)
    analyse(store)


def fill_soon(store: SqlStore, count: int, rate: float) -> None:
    """Make the jobs that come due during the measurement."""
    begin = micros(_now(store)) + round(SOON * 1e6)
    _insert(store, f"{begin} + i * {round(1e6 / rate)}", series(store, 1, count))
    settle_labels(store)


def _insert(store: SqlStore, at: str, rows: str) -> None:
    cast = "::json" if store.dialect.lateral else ""
    run(
        store,
        f"INSERT INTO horae_jobs ({COLUMNS}) SELECT 'queued', 'default', 'tick', 'system', 1, {at}, {at}, "
        f"{micros(_now(store))}, 1, '{{}}'{cast} FROM {rows}",
    )


def _now(store: SqlStore) -> Any:
    from horae.clock import clock_of

    return clock_of(store).now()


def count_jobs(store: SqlStore) -> int:
    with store.engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM horae_jobs")).scalar_one())


def settle_labels(store: SqlStore) -> None:
    """Say that the map of labels, which lists use, is complete: filling it is not what is measured."""
    with store.engine.connect() as connection:
        last = int(connection.execute(text("SELECT coalesce(max(id), 0) FROM horae_jobs")).scalar_one())

    def save(tx: Tx) -> None:
        tx.labels.state(lock=True)
        tx.labels.save(Labelling(labelled=last + 1, marked=last + 1, seen=last + 1))

    store.transact(save)


async def serve(url: str, count: int, rate: float, waiting: int) -> Figures:
    """Run one worker until all that came due has run."""
    late: list[float] = []
    with Horae(url) as app:

        @app.job("tick", retry=Retry.none())
        async def tick(ctx: Context) -> None:
            late.append((time.time() - ctx.due_at.timestamp()) * 1000)

        store = app.world.store
        assert isinstance(store, SqlStore)
        worker = app.worker(WorkerSettings())
        serving = asyncio.create_task(worker.run())
        await asyncio.sleep(2.0)  # it has looked, and sleeps
        await asyncio.to_thread(fill_soon, store, count, rate)
        store.wake(["default"])  # as an enqueue would
        meter, ends = Meter(None), time.monotonic() + SOON + count / rate + 60
        while len(late) < count and time.monotonic() < ends and not serving.done():
            await asyncio.sleep(0.2)
        spent, memory = meter.worker_seconds(), resident_megabytes(os.getpid())
        worker.stop()
        await serving
        with store.engine.connect() as connection:
            size = float(connection.execute(text(SIZES[store.engine.dialect.name])).scalar_one()) / 1e6
    return Figures(
        waiting, len(late), percentile(late, 0.5), percentile(late, 0.99), max(late, default=float("nan")), memory,
        size, spent * 1000 / max(1, len(late)),
    )  # fmt: skip


def measure(name: str, url: str, count: int, asked: argparse.Namespace) -> Figures:
    engine = create_store_engine(url)
    migrate(engine)
    store = open_store(engine)
    began = time.monotonic()
    fill(store, count)
    waiting = count_jobs(store)
    print(f"{name}: {waiting:,} jobs wait, made in {time.monotonic() - began:.0f} s", flush=True)
    store.close()
    if asked.fill_only:
        return Figures(waiting, 0, *[float("nan")] * 6)
    found = asyncio.run(serve(url, round(asked.rate * asked.seconds), asked.rate, waiting))
    print(f"{name:>10} {found}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timers", description=__doc__)
    parser.add_argument("--database", choices=list(KINDS), action="append", help="default: sqlite and postgresql")
    parser.add_argument("--url", help="a database of one's own, which keeps its jobs")
    parser.add_argument("--timers", type=int, default=FULL // 50, help="how many jobs wait")
    parser.add_argument("--full", action="store_true", help="ten million")
    parser.add_argument("--rate", type=float, default=100.0, help="jobs that come due in a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="for so long")
    parser.add_argument("--fill-only", action="store_true", help="with --url: make the jobs, measure later")
    asked = parser.parse_args()
    count = FULL if asked.full else asked.timers
    wanted = round(asked.rate * asked.seconds)
    if asked.url:
        found = measure("database", asked.url, count, asked)
        return 0 if asked.fill_only or found.ran == wanted else 1
    missing = 0
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        for name in asked.database or ("sqlite", "postgresql"):
            kind = KINDS[name]
            try:
                server = None if kind is None else servers.own(kind, durable=True)
            except ServerMissing as problem:
                print(f"{name}: {problem}")
                continue
            for each in (FEW, count):
                file = f"sqlite:///{Path(folder) / f'timers-{each}.db'}"
                missing += measure(name, server.create_database() if server else file, each, asked).ran != wanted
            if server is not None:
                servers.discard(server)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
