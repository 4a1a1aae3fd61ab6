"""``make soak ARGS=--through``: millions of jobs through one worker; do memory, files and statements stay as they are?

Jobs that do nothing are enqueued at an even pace, ``--jobs`` of them in ``--minutes``; what has ended is kept for
``--keep`` minutes. Reported are the worker's memory, the size of the database, and how long each statement that the
worker and the enqueuer send takes, by the verb of the store that sends it. After two spans of retention memory and
size must not grow by more than a tenth and a quarter; 99.9 of 100 calls of each verb must take 50 ms at most.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.child import SELDOM
from benchmarks.meter import resident_megabytes
from horae import Horae
from horae.actions import partitions
from horae.actions.retention import Retention, clean_step
from horae.runtime.chores.janitor import Chore
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate
from tests.support.servers import MariaDBServer, PostgresServer, Servers

SERVERS: dict[str, type[PostgresServer | MariaDBServer]] = {"postgres": PostgresServer, "mariadb": MariaDBServer}
VERBS = ("insert", "claim", "settle", "renew", "find_expired", "fire", "peek", "transact", "read")
EDGES = tuple(1e-4 * 1.1**step for step in range(120))  # of the histograms, in seconds: to 8 s, a tenth apart
SLOTS = 500
CHUNK = 500  # jobs of one enqueue
BEHIND = 20_000  # jobs that may wait at most: a worker that is too slow slows the enqueuer down
MOST_STATEMENT = 0.050
MOST_MEMORY, MOST_SIZE = 1.1, 1.25  # at the end, of what it was after two spans of retention
TABLES = "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
SIZES = {
    "postgresql": "SELECT pg_database_size(current_database())",
    "mysql": TABLES,
    "mariadb": TABLES,
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}


class Timed:
    """A store that counts how long its verbs take."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.counts = {name: [0] * (len(EDGES) + 1) for name in VERBS}
        for name in VERBS:
            setattr(self, name, self._timed(name, getattr(store, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _timed(self, name: str, verb: Any) -> Any:
        counts = self.counts[name]

        def call(*args: Any, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return verb(*args, **more)
            finally:
                counts[bisect_left(EDGES, time.perf_counter() - began)] += 1

        return call


def percentile(counts: list[int], share: float) -> float:
    """Return the upper edge of the bucket in which this share of the calls has ended."""
    left = sum(counts) * share
    for edge, count in zip((*EDGES, float("inf")), counts, strict=True):
        left -= count
        if left <= 0:
            return edge
    return float("inf")


@contextmanager
def opened(url: str) -> Iterator[tuple[Horae, Timed, Any]]:
    """Open an application over a store whose verbs are timed."""
    app = Horae(url)

    @app.job("touch")
    async def touch(number: int) -> None:
        pass

    with app:
        store = Timed(app.world.store)
        with app.using_world(replace(app.world, store=store)):
            yield app, store, touch


# -- the worker --------------------------------------------------------------------------------------------------


async def serve(url: str, keep: timedelta) -> None:
    """Run one worker; print its memory and counts every second until the parent closes the pipe."""
    gc.set_threshold(SELDOM)
    with opened(url) as (app, store, _):
        retention = Retention(runs=keep, fires=keep, keys=keep, nodes=keep)
        chores = (
            Chore("delete what the soak has ended", keep / 20, lambda world: clean_step(world, retention)),
            Chore("drop days that the soak has deleted", keep / 20, partitions.keep_history),
        )
        worker = app.worker(WorkerSettings(queues={"default": SLOTS}, retention=retention, chores=chores))
        serving = asyncio.create_task(worker.run())
        parent = os.getppid()
        while not serving.done() and os.getppid() == parent:
            await asyncio.sleep(1.0)
            done = worker.counts.get("succeeded", 0)
            report = {"done": done, "memory": resident_megabytes(os.getpid()), "counts": store.counts}
            print(json.dumps(report), flush=True)
        worker.stop()
        await serving


# -- the soak ----------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    at: float
    done: int
    memory: float
    size: float


@dataclass
class Through:
    """One run: an enqueuer here, a worker in a process of its own, and what was seen of both."""

    url: str
    keep: timedelta
    samples: list[Sample] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=lambda: {"done": 0, "memory": 0.0, "counts": {}})

    def run(self, jobs: int, seconds: float) -> dict[str, list[int]]:
        command = [sys.executable, "-m", "benchmarks.soak_through", self.url, str(self.keep.total_seconds())]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            reading = threading.Thread(target=self._read, args=(worker,), daemon=True)
            reading.start()
            with opened(self.url) as (app, store, touch):
                self._feed(app, touch, jobs, seconds, worker)
                return store.counts
        finally:
            worker.terminate()
            worker.wait(60)

    def _read(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            self.report = json.loads(line)

    def _feed(self, app: Horae, touch: Any, jobs: int, seconds: float, worker: subprocess.Popen[str]) -> None:
        """Enqueue at an even pace, look every now and then, and wait until all have run."""
        began = looked = time.monotonic()
        sent, deadline = 0, began + 2 * seconds + 120
        while self.report["done"] < jobs and time.monotonic() < deadline and worker.poll() is None:
            now = time.monotonic()
            wanted = min(jobs, int((now - began) / seconds * jobs) + CHUNK)
            if sent < wanted and sent - self.report["done"] < BEHIND:
                count = min(CHUNK, jobs - sent)
                touch.enqueue_many({"number": sent + place} for place in range(count))
                sent += count
            else:
                time.sleep(0.01)
            if now - looked >= max(1.0, seconds / 60):
                looked = now
                self._look(app, now - began)
        self._look(app, time.monotonic() - began)

    def _look(self, app: Horae, at: float) -> None:
        with app.engine.connect() as connection:
            size = float(connection.execute(text(SIZES[app.engine.dialect.name])).scalar_one()) / 1e6
        self.samples.append(Sample(at, self.report["done"], self.report["memory"], size))
        last = self.samples[-1]
        print(
            f"{at:>7.0f} s  {last.done:>9,} done  worker {last.memory:>5.0f} MB  database {size:>6.0f} MB", flush=True
        )


def judge(through: Through, jobs: int, counts: dict[str, list[int]]) -> int:
    """Print what must hold and whether it did; return how much did not."""
    samples, bad = through.samples, 0

    def say(what: str, value: float, bound: float, *, unit: str = "", at_most: bool = True) -> None:
        nonlocal bad
        met = value <= bound if at_most else value >= bound
        bad += not met
        sign, verdict = "≤" if at_most else "≥", "met" if met else "NOT MET"
        print(f"{what:<40} {value:>12,.2f} {unit:<3} must {sign} {bound:,g}  {verdict}")

    say("jobs that ran", samples[-1].done, jobs, at_most=False)
    warm = next((each for each in samples if each.at >= 2 * through.keep.total_seconds()), None)
    if warm is None or warm is samples[-1]:
        print("memory and size are judged in a run of more than two spans of retention")
    else:
        say("memory at the end, of warm", samples[-1].memory / warm.memory, MOST_MEMORY)
        say("size at the end, of warm", samples[-1].size / warm.size, MOST_SIZE)
    for side, known in (("worker", through.report["counts"]), ("enqueuer", counts)):
        for name, each in known.items():
            if sum(each):
                say(f"{side}: {name}, p99.9 of {sum(each):,}", percentile(each, 0.999) * 1e3, MOST_STATEMENT * 1e3,
                    unit="ms")  # fmt: skip
    return bad


def soak_through(database: str, jobs: int, minutes: float, keep: float) -> int:
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        server = servers.own(SERVERS[database], durable=True) if database in SERVERS else None
        url = server.create_database() if server else f"sqlite:///{Path(folder) / 'soak.db'}"
        with Horae(url) as app:
            migrate(app.engine)
        through = Through(url, timedelta(minutes=keep))
        counts = through.run(jobs, minutes * 60)
    return 1 if judge(through, jobs, counts) else 0


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], timedelta(seconds=float(sys.argv[2]))))
