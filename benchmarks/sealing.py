"""``python -m benchmarks.sealing``: how many audit entries a second one process chains, on each database.

Private servers with fsync on. Entries are spread over a hundred owners, as big as those of a schedule that is changed.
Then the lag is measured: another connection appends entries at a steady rate while this one seals every ten seconds, as
the chore does; it is the age of the oldest entry when it is sealed.

Processes that get no processor seal no entries: where the machine has other work, give these precedence with
``chrt -r 1 python -m benchmarks.sealing``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert

from benchmarks.meter import Meter
from horae.actions.audit import seal_all, verify_audit
from horae.clock import SystemClock, SystemDice
from horae.core.audit.entries import Entry
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.stores.tables.audit import AUDIT, audit
from tests.support.servers import MariaDBServer, PostgresServer, ServerMissing, Servers

OWNERS = 100
STATE = {"expression": "0 9 * * 1-5", "zone": "Europe/Zurich", "queue": "mail", "enabled": True, "priority": "normal"}
EVERY, ARRIVING = 10.0, 1_000  # seconds between two rounds of sealing, new entries a second
ROUNDS = 3  # of sealing while entries arrive
TICK = 0.1  # seconds between two appends
WANTED, LONGEST_LAG = 5_000.0, 60.0
KINDS: dict[str, type[PostgresServer | MariaDBServer] | None] = {
    "sqlite": None,
    "postgresql": PostgresServer,
    "mariadb": MariaDBServer,
}


def entries(count: int) -> Iterator[Entry]:
    now = datetime.now(UTC)
    for number in range(count):
        owner = f"tenant{number % OWNERS}"
        yield Entry(now, "app/web", "update", "schedule", f"{owner}/{number}", owner, "moved", STATE, STATE)


@contextmanager
def opened(url: str) -> Iterator[SqlStore]:
    engine = create_store_engine(url)
    migrate(engine)
    store = open_store(engine)
    try:
        yield store
    finally:
        store.close()


@dataclass(frozen=True)
class Figures:
    """Entries sealed and verified a second, and microseconds of processor time to seal one."""

    sealed: float
    verified: float
    client: float
    server: float
    lag: float  # seconds


def measure(url: str, count: int, server_pid: int | None) -> Figures:
    with opened(url) as store:
        rows = [AUDIT.row(entry) for entry in entries(count)]
        with store.engine.begin() as connection:
            for begin in range(0, count, 1_000):
                connection.execute(insert(audit), rows[begin : begin + 1_000])
        world = World(store, SystemClock(), SystemDice())
        meter, began = Meter(server_pid), time.monotonic()
        sealed = seal_all(world)
        took, client, server = time.monotonic() - began, meter.worker_seconds(), meter.server_seconds()
        began = time.monotonic()
        found = verify_audit(world)
        verified = time.monotonic() - began
        lag = measure_lag(world, store)
    assert sealed == count == sum(each.entries for each in found), "not every entry was sealed"
    assert not any(each.complaints for each in found), "a chain does not hold"
    return Figures(count / took, count / verified, client / count * 1e6, server / count * 1e6, lag)


def measure_lag(world: World, store: SqlStore) -> float:
    """Append entries and seal them at the same time; return how old the oldest one was when its round had ended."""
    stop, appended = threading.Event(), 0
    began = time.monotonic()

    def append() -> None:
        nonlocal appended
        while not stop.wait(TICK):
            missing = int((time.monotonic() - began) * ARRIVING) - appended
            with store.engine.begin() as connection:
                connection.execute(insert(audit), [AUDIT.row(entry) for entry in entries(missing)])
            appended += missing

    feeder = threading.Thread(target=append)
    feeder.start()
    lag, oldest = 0.0, began
    try:
        for round_ in range(1, ROUNDS + 1):
            time.sleep(max(0.0, began + round_ * EVERY - time.monotonic()))
            reached = time.monotonic()
            seal_all(world)
            lag, oldest = max(lag, time.monotonic() - oldest), reached
    finally:
        stop.set()
        feeder.join()
    return lag


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sealing", description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    count = parser.parse_args().entries
    slow = False
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        for name, kind in KINDS.items():
            try:
                server = None if kind is None else servers.own(kind, durable=True)
            except ServerMissing as problem:
                print(f"{name:11} {problem}")
                continue
            url = f"sqlite:///{Path(folder) / 'sealing.db'}" if server is None else server.create_database()
            found = measure(url, count, None if server is None else server.pid)
            slow = slow or found.sealed < WANTED or found.lag > LONGEST_LAG
            print(
                f"{name:11} {found.sealed:8,.0f} entries/s sealed, {found.verified:8,.0f} verified; "
                f"{found.client:4.0f} + {found.server:4.0f} µs of processor time each, client + server; "
                f"lag {found.lag:.1f} s at {ARRIVING:,}/s",
                flush=True,
            )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
