"""``python -m benchmarks.fair``: what a job costs in a queue that is shared fairly, beside the same queue that is not.

For 1, 100 and 10,000 owners with due jobs, on each database: jobs are enqueued in bulk, then claimed and ended in
batches of a worker with 500 slots, with and without turns. Counted is processor time, of this process and of the
server, for each job from its enqueue to its end. Both take turns, and so does who begins; the median of the ratios is
the message.
``--blocks`` lets the jobs of an owner come due one after the other, where they are mixed otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median

from sqlalchemy import text

from benchmarks.meter import tree_seconds
from horae.core.jobs.job import NewJob, Outcome, settlement
from horae.ports.claims import Claim
from horae.ports.definitions import StoredDefinition
from horae.ports.queues import Queue
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from tests.support.servers import Servers

OWNERS = (1, 100, 10_000)
DATABASES = ("sqlite", "postgres", "mariadb")
CLAIM, ENQUEUE = 250, 5000
MOST = 1.05
LEASE = timedelta(minutes=5)


@dataclass(frozen=True)
class Ground:
    """A database with its tables, and the process whose time counts beside this one's."""

    store: SqlStore
    server: int | None

    def seconds(self) -> float:
        return time.process_time() + (0.0 if self.server is None else tree_seconds(self.server))


@contextmanager
def ground(database: str, servers: Servers) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory() as folder:
        server = None if database == "sqlite" else getattr(servers, database)
        url = f"sqlite:///{Path(folder) / 'fair.db'}" if server is None else server.create_database()
        engine = create_store_engine(url)
        migrate(engine)
        store = open_store(engine)
        try:
            yield Ground(store, None if server is None else server.pid)
        finally:
            store.close()


def jobs_of(owners: int, count: int, now: datetime, blocks: bool) -> Iterator[NewJob]:
    for place in range(count):
        owner = place * owners // count if blocks else place % owners
        due = now - timedelta(microseconds=count - place)
        yield NewJob(
            handler="touch", payload="{}", queue="default", band=1, run_at=due, planned_at=due, owner=f"o{owner:06}",
            max_attempts=3,
        )  # fmt: skip


def cost(ground: Ground, owners: int, count: int, *, fair: bool, blocks: bool) -> float:
    """Return the microseconds of a job from its enqueue to its end."""
    store, now = ground.store, datetime.now(UTC)
    for table in ("horae_jobs", "horae_runs"):
        with store.engine.begin() as connection:
            connection.execute(text(f"DELETE FROM {table}"))
    if store.dialect.name == "postgresql":
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    store.transact(lambda tx: tx.queues.put(Queue("default", fair="owner" if fair else None)))
    store.hot.fair.forget("default")
    store.claim(Claim("default", 1, "w", LEASE), now=now)
    rest = jobs_of(owners, count, now, blocks)
    began, done = ground.seconds(), 0
    while portion := list(islice(rest, ENQUEUE)):
        store.insert(portion, now=now)
    began += _analyze_mariadb(ground)
    while taken := store.claim(Claim("default", CLAIM, "w", LEASE), now=now):
        store.settle([settlement(job, Outcome("succeeded"), now=now, roll=0.0) for job in taken], now=now)
        done += len(taken)
    if done != count:
        raise SystemExit(f"{done} of {count} jobs were claimed")
    return (ground.seconds() - began) / count * 1e6


def _analyze_mariadb(ground: Ground) -> float:
    """Let MariaDB see what was stored, as it does by itself within seconds; return what that took.

    Its statistics are of the empty table otherwise, by which no plan skips from owner to owner.
    """
    if ground.store.dialect.partial_indexes:
        return 0.0
    began = ground.seconds()
    with ground.store.engine.connect() as connection:
        connection.execute(text("ANALYZE TABLE horae_jobs")).all()
    return ground.seconds() - began


def measure(ground: Ground, owners: int, count: int, pairs: int, blocks: bool) -> tuple[float, float, float]:
    """Return the medians without and with turns, and that of their ratios."""
    costs: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(pairs):
        for fair in (False, True) if pair % 2 == 0 else (True, False):
            costs[fair].append(cost(ground, owners, count, fair=fair, blocks=blocks))
    ratios = [after / before for before, after in zip(costs[False], costs[True], strict=True)]
    return median(costs[False]), median(costs[True]), median(ratios)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fair", description=__doc__)
    parser.add_argument("--only", action="append", choices=DATABASES, help="this database; may be repeated")
    parser.add_argument("--owners", action="append", type=int, help="so many owners; may be repeated")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--blocks", action="store_true")
    asked = parser.parse_args(given)
    failed = False
    with Servers() as servers:
        for database in asked.only or DATABASES:
            with ground(database, servers) as here:
                definition = StoredDefinition("touch", "default", True, "bench", datetime.now(UTC), "bench")
                here.store.transact(lambda tx, made=definition: tx.definitions.put(made))  # type: ignore[misc]
                for owners in asked.owners or OWNERS:
                    plain, fair, ratio = measure(here, owners, asked.jobs, asked.pairs, asked.blocks)
                    verdict = "met" if ratio <= MOST else "NOT MET"
                    failed |= ratio > MOST
                    print(
                        f"{database:9} {owners:6,} owners: {plain:6.1f} µs a job, in turns {fair:6.1f}; "
                        f"ratio {ratio:.3f}, must be ≤ {MOST:.2f}: {verdict}",
                        flush=True,
                    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
