"""``python -m benchmarks.scale``: what one job costs PostgreSQL, as the figures of docs/explanation/scale.md need it.

Jobs that do nothing are enqueued in bulk and drained by one worker. Printed for a job: processor time of the server and
of the worker, bytes of write-ahead log, and bytes that its finished row takes with its indexes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from sqlalchemy import text

from benchmarks.meter import Meter
from horae import Horae, Retry
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate
from tests.support.servers import PostgresServer, Servers

BULK, SLOTS = 10_000, 500
WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
KEPT = "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'horae_runs'::regclass"


async def measure(app: Horae, server: PostgresServer, jobs: int) -> None:
    done = 0

    @app.job("nothing", retry=Retry.none())
    async def nothing(number: int) -> None:
        nonlocal done
        done += 1

    def ask(sql: str) -> float:
        with app.engine.connect() as connection:
            return float(connection.execute(text(sql)).scalar_one() or 0)

    with app:
        written, kept, meter, began = ask(WRITTEN), ask(KEPT), Meter(server.pid), time.monotonic()
        for first in range(0, jobs, BULK):
            nothing.enqueue_many({"number": first + place} for place in range(min(BULK, jobs - first)))
        enqueued = time.monotonic() - began
        worker = app.worker(WorkerSettings(queues={"default": SLOTS}))
        serving = asyncio.create_task(worker.run())
        while done < jobs and not serving.done():
            await asyncio.sleep(0.05)
        drained = time.monotonic() - began - enqueued
        worker.stop()
        await serving
        here, there = meter.worker_seconds(), meter.server_seconds()
        print(
            f"{jobs:,} jobs: {jobs / enqueued:,.0f} a second enqueued in bulk, {jobs / drained:,.0f} a second drained"
        )
        print(f"processor a job: server {there / jobs * 1e6:.0f} µs, client and worker {here / jobs * 1e6:.0f} µs")
        print(f"write-ahead log a job: {(ask(WRITTEN) - written) / jobs:,.0f} bytes")
        print(f"finished row with its indexes: {(ask(KEPT) - kept) / jobs:,.0f} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    asked = parser.parse_args()
    with Servers() as servers:
        server = servers.own(PostgresServer, durable=True)
        app = Horae(server.create_database())
        migrate(app.engine)
        asyncio.run(measure(app, server, asked.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
