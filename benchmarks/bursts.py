"""Many schedules: how long a start with them takes, and how long it takes until the last of a burst has begun.

``python -m benchmarks.bursts`` declares 1,000 and then 10,000 cron schedules on PostgreSQL and SQLite, and starts twice
(the second time nothing has changed). Then as many schedules of one handler, as users make them, fire at one instant
with one worker; with ``--declared`` those of the code do, each of which takes its lock for a run, and with
``--processes`` several processes share them. Processor time is that of this process; the server's comes on top.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from benchmarks.cases import Row, Size, fewer
from benchmarks.child import SELDOM
from benchmarks.ground import Ground
from horae import Context, Horae, Retry
from horae.actions.schedules.schedules import with_next_fire
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate
from horae.testing.builders import a_schedule

COUNTS = (1_000, 10_000)
LEAD = 10.0  # seconds to make the schedules of a burst in; doubled where that is not enough
HELPERS_START = 3.0  # seconds for further processes to be ready
CONTENDERS = {"postgres": "horae", "sqlite": "horae-sqlite"}
SLOTS = 500  # as in the other benchmarks
MOST = {  # seconds, by how many schedules there are
    "first start": {10_000: 2.0},
    "unchanged start": {10_000: 1.0},
    "last of a burst": {1_000: 0.3, 10_000: 1.5},
}


@dataclass(frozen=True)
class Measured:
    """One figure; *most* is what it must not exceed."""

    database: str
    schedules: int
    what: str
    seconds: float
    processor: float
    most: float | None

    @property
    def verdict(self) -> str:
        return "" if self.most is None else "met" if self.seconds <= self.most else "NOT MET"


class Watch:
    """Wall-clock and processor time of a block."""

    seconds = 0.0
    processor = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began, used = time.perf_counter(), time.process_time()
        yield
        self.seconds, self.processor = time.perf_counter() - began, time.process_time() - used


def cron_of(due: datetime) -> str:
    return f"{due.second} {due.minute} {due.hour} * * *"


def build(url: str, count: int, cron: str) -> Horae:
    """Return an application with *count* declared schedules, or with a handler for the schedules of others."""
    app = Horae(url, name="bursts")

    async def tick(ctx: Context) -> None:
        pass

    for place in range(count):
        app.job(f"tick-{place:05}", cron=cron, retry=Retry.none())(tick)
    if not count:
        app.job("tick", retry=Retry.none())(tick)
    return app


def make_schedules(app: Horae, count: int, cron: str) -> None:
    """Store *count* schedules of one handler."""
    world, now = app.world, app.world.clock.now()
    plain = [replace(a_schedule(f"user-{place:05}", cron), created_at=now, updated_at=now) for place in range(count)]
    made = [with_next_fire(world, replace(each, handler="tick", retry=Retry.none()), now) for each in plain]
    world.store.transact(lambda tx: tx.schedules.add(made))


def measure(
    new_url: Callable[[], str], database: str, count: int, lead: float, declared: bool = False, processes: int = 1
) -> Iterator[Measured]:
    """Yield the two starts on one database and the burst on another."""
    gc.set_threshold(SELDOM)  # as `horae worker` does
    with build(new_url(), count, "0 0 1 1 *") as app:
        migrate(app.engine)
        for what in ("first start", "unchanged start"):
            watch = Watch()
            with watch.running():
                app.declare_schedules()
            yield Measured(database, count, what, watch.seconds, watch.processor, MOST[what].get(count))
    watch, last = Watch(), None
    while last is None:
        last = measure_burst(new_url(), watch, count, lead, declared, processes)
        lead *= 2  # the machine is busy: the instant had passed before the worker was ready
    what = "last of a burst"
    yield Measured(database, count, what, last, watch.processor, MOST[what].get(count))


def measure_burst(url: str, watch: Watch, count: int, lead: float, declared: bool, processes: int) -> float | None:
    """Return how long after the instant the last schedule of a burst began; None where the instant came too soon."""
    due = (datetime.now(UTC) + timedelta(seconds=lead)).replace(microsecond=0)
    with build(url, count if declared else 0, cron_of(due)) as app:
        migrate(app.engine)
        if declared:
            app.declare_schedules()
        else:
            make_schedules(app, count, cron_of(due))
        with helpers(url, processes - 1, cron_of(due), count if declared else 0):
            time.sleep(HELPERS_START if processes > 1 else 0)
            if datetime.now(UTC) >= due:
                return None
            with watch.running():
                return asyncio.run(burst(app, count, due))


@contextmanager
def helpers(url: str, count: int, cron: str, declared: int) -> Iterator[None]:
    """Let further processes serve the same database."""
    command = [sys.executable, "-m", "benchmarks.bursts", "--serve", url, cron, str(declared)]
    started = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for each in started:
            each.terminate()
        for each in started:
            each.wait(30)


async def serve(url: str, cron: str, declared: int) -> None:
    gc.set_threshold(SELDOM)
    with build(url, declared, cron) as app:
        worker = app.worker(WorkerSettings(queues={"default": SLOTS}))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


def bursts(ground: Ground, size: Size) -> list[Row]:
    """Measure starts and bursts as a case beside the others: the best of the rounds."""
    rows: dict[tuple[int, str], Row] = {}
    for _ in fewer(size).turns():
        for count in COUNTS:
            for database, name in CONTENDERS.items():
                new_url = ground.postgres.create_database if database == "postgres" else ground.file
                row = rows.setdefault((count, name), Row(f"{count:,} schedules", name))
                for found in measure(new_url, database, count, LEAD):
                    known = row.figures.get(f"{found.what}, s", found.seconds)
                    row.figures[f"{found.what}, s"] = min(known, found.seconds)
    return list(rows.values())


async def burst(app: Horae, count: int, due: datetime) -> float:
    """Run a worker until every schedule has run; return how long after the instant the last of them began."""
    worker = app.worker(WorkerSettings(queues={"default": SLOTS}))
    running = asyncio.create_task(worker.run())
    query = text("SELECT count(*), max(started_at) FROM horae_runs WHERE outcome = 'succeeded'")
    found, last = 0, 0
    while found < count:
        await asyncio.sleep(0.5)
        found, last = app.world.store.read(lambda tx: tuple(tx.connection.execute(query).one()))
    worker.stop()
    await running
    return last / 1_000_000 - due.timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bursts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, action="append", help="how many schedules; may be repeated")
    parser.add_argument("--database", choices=("postgres", "sqlite"), action="append")
    parser.add_argument("--lead", type=float, default=LEAD, help="seconds to make the schedules of a burst in")
    parser.add_argument("--declared", action="store_true", help="let the declared schedules fire")
    parser.add_argument("--processes", type=int, default=1, help="how many serve the burst")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        url, cron, declared = options.serve
        asyncio.run(serve(url, cron, int(declared)))
        return 0
    missed = 0
    with Ground() as ground:
        for database in options.database or CONTENDERS:
            new_url = ground.postgres.create_database if database == "postgres" else ground.file
            for count in options.count or COUNTS:
                for row in measure(new_url, database, count, options.lead, options.declared, options.processes):
                    missed += row.verdict == "NOT MET"
                    print(json.dumps(asdict(row)) if options.json else show(row), flush=True)
    return 1 if missed else 0


def show(row: Measured) -> str:
    must = "" if row.most is None else f"must {row.most:.1f}  {row.verdict}"
    return (
        f"{row.database:<9} {row.schedules:>6} schedules  {row.what:<16} {row.seconds:>7.2f} s "
        f"(processor {row.processor:>5.2f} s)  {must}"
    )


if __name__ == "__main__":
    sys.exit(main())
