"""``make soak``: mixed load, and every now and then something breaks; at the end, what was lost?

Workers are killed with -9 and paused beyond their lease, the database is restarted, in good order or as in a crash.
Beside the jobs, memories are proposed, verified on a budget, contested and retracted; each comes due within seconds.
Private servers on loopback; it ends by itself after ``--minutes`` and fails if anything was lost, doubled or early, or
if an invariant of the memories, a sum of their budget or a chain of the audit does not hold.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.soak_bus import soak_bus
from benchmarks.soak_cluster import soak_cluster
from benchmarks.soak_failover import soak_failover
from benchmarks.soak_memories import Memories
from benchmarks.soak_through import soak_through
from benchmarks.soak_worker import LEASE, declare
from horae import Horae
from horae.errors import StoreError
from horae.stores.schema import migrate
from tests.support.servers import MariaDBServer, PostgresServer, Server, Servers

WORKERS = 4
SERVERS: dict[str, type[PostgresServer | MariaDBServer]] = {"postgres": PostgresServer, "mariadb": MariaDBServer}
OURS = "queue = 'default'"  # jobs that leave an effect
BAD = (
    "lost", "unknown", "without effect", "doubled effects", "early", "late objects", "broken objects", "broken budgets",
    "broken chains",
)  # fmt: skip
LAST_WAIT = 180.0  # seconds for what is still due when the load ends


class Soak:
    def __init__(self, url: str, server: Server | None, rate: float, memories: float) -> None:
        self.url, self.server, self.rate = url, server, rate
        self.app = Horae(url)
        migrate(self.app.engine)
        with self.app.engine.begin() as connection:
            connection.execute(text("CREATE TABLE soak_effects (job VARCHAR(40) NOT NULL, early INTEGER NOT NULL)"))
        self.handles = declare(self.app)
        self.memories = Memories(self.app, memories)
        self.workers = [self._worker() for _ in range(WORKERS)]
        self.sown: set[str] = set()
        self.faults: Counter[str] = Counter()
        self.ended = threading.Event()

    def _worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.soak_worker", self.url]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # -- load --------------------------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Enqueue with a key, again and again until it is acknowledged, as a careful application would."""
        number = 0
        while not self.ended.wait(random.expovariate(self.rate)):
            number += 1
            kind = random.choices(["quick", "slow", "flaky"], [8, 1, 1])[0]
            delay = random.choice([None, None, random.uniform(0, 20)])
            self.sown.add(self._persistently(kind, f"soak-{number}", delay))

    def _persistently(self, kind: str, key: str, delay: float | None) -> str:
        while True:
            try:
                job: str = self.handles[kind].using(key=key, delay=delay).enqueue().id
                return job
            except StoreError:
                time.sleep(0.2)

    # -- faults ------------------------------------------------------------------------------------------------------

    def harm(self, shortest: float, longest: float) -> None:
        while not self.ended.wait(random.uniform(shortest, longest)):
            name, fault = random.choice(self._kinds())
            self.faults[name] += 1
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            fault()

    def _kinds(self) -> list[tuple[str, Callable[[], None]]]:
        kinds: list[tuple[str, Callable[[], None]]] = [("kill -9", self._kill), ("pause", self._pause)]
        if self.server is not None:
            kinds += [("restart", lambda: self._restart("fast")), ("crash", lambda: self._restart("immediate"))]
        return kinds

    def _kill(self) -> None:
        place = random.randrange(WORKERS)
        self.workers[place].kill()
        self.workers[place].wait()
        self.workers[place] = self._worker()

    def _pause(self) -> None:
        """Longer than its lease: what it held is handed on, and its late word must not count."""
        victim = random.choice(self.workers)
        victim.send_signal(signal.SIGSTOP)
        self.ended.wait(LEASE.total_seconds() * 1.6)
        victim.send_signal(signal.SIGCONT)

    def _restart(self, mode: Any) -> None:
        assert self.server is not None
        self.server.restart(mode)

    # -- the end -----------------------------------------------------------------------------------------------------

    def run(self, seconds: float, shortest: float, longest: float) -> dict[str, int]:
        threads = [
            threading.Thread(target=self.feed),
            threading.Thread(target=self.memories.feed, args=(self.ended,)),
            threading.Thread(target=self.harm, args=(shortest, longest)),
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        self.ended.set()
        for thread in threads:
            thread.join()
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[place] = self._worker()
        self._until_done()
        self.memories.catch_up(LAST_WAIT)
        return self.counted() | self.memories.counted()

    def _until_done(self) -> None:
        deadline = time.monotonic() + LAST_WAIT
        while time.monotonic() < deadline and self._one(
            f"SELECT count(*) FROM horae_jobs WHERE {OURS} AND state <> 'dead'"
        ):
            time.sleep(0.5)

    def counted(self) -> dict[str, int]:
        with self.app.engine.connect() as connection:
            done = {
                f"job_{row[0]}"
                for row in connection.execute(
                    text(f"SELECT job_id FROM horae_runs WHERE {OURS} AND state = 'succeeded'")
                )
            }
            effects = Counter(row[0] for row in connection.execute(text("SELECT job FROM soak_effects")))
        return {
            "enqueued": len(self.sown),
            "succeeded": len(self.sown & done),
            "attempts": self._one(f"SELECT count(*) FROM horae_runs WHERE {OURS}"),
            "lost": len(self.sown - done),
            "unknown": len(done - self.sown),
            "without effect": len(done - set(effects)),
            "doubled effects": sum(count > 1 for count in effects.values()),
            "early": self._one("SELECT count(*) FROM soak_effects WHERE early = 1"),
        }

    def _one(self, sql: str) -> int:
        with self.app.engine.connect() as connection:
            return int(connection.execute(text(sql)).scalar_one())

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.app.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, help="default: 10, and 60 with --through")
    parser.add_argument("--through", action="store_true", help="instead: many jobs through one worker, without faults")
    parser.add_argument("--bus", action="store_true", help="instead: dispatch over NATS, with parts of it killed")
    parser.add_argument("--cluster", action="store_true", help="instead: four databases, killed and moved all the time")
    parser.add_argument("--failover", action="store_true", help="instead: the primary is killed, another takes over")
    parser.add_argument("--auto", action="store_true", help="with --failover: under pg_auto_failover")
    parser.add_argument("--asynchronous", action="store_true", help="with --failover: commits wait for no standby")
    parser.add_argument("--jobs", type=int, default=5_000_000, help="with --through: how many")
    parser.add_argument("--keep", type=float, default=10.0, help="with --through: minutes that finished jobs are kept")
    parser.add_argument("--database", choices=[*SERVERS, "sqlite"], default="postgres")
    parser.add_argument("--rate", type=float, default=50.0, help="jobs a second")
    parser.add_argument("--memories", type=float, default=10.0, help="acts on memories a second")
    parser.add_argument(
        "--every", type=float, nargs=2, default=(20.0, 60.0), help="seconds between faults, from and to"
    )
    asked = parser.parse_args()
    if asked.failover:
        return soak_failover(
            asked.database,
            (asked.minutes or 10.0) * 60,
            asked.rate,
            synchronous=not asked.asynchronous,
            auto=asked.auto,
        )
    if asked.cluster:
        return soak_cluster((asked.minutes or 10.0) * 60, asked.rate, tuple(asked.every))
    if asked.through:
        return soak_through(asked.database, asked.jobs, asked.minutes or 60.0, asked.keep)
    if asked.bus:
        return soak_bus(asked.database, asked.minutes or 10.0, asked.rate, tuple(asked.every))
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        server = servers.own(SERVERS[asked.database], durable=True) if asked.database in SERVERS else None
        url = server.create_database() if server else f"sqlite:///{Path(folder) / 'soak.db'}"
        soak = Soak(url, server, asked.rate, asked.memories)
        try:
            counted = soak.run((asked.minutes or 10.0) * 60, *asked.every)
        finally:
            soak.close()
    print(f"\nfaults: {', '.join(f'{count} x {name}' for name, count in sorted(soak.faults.items())) or 'none'}")
    for name, count in counted.items():
        print(f"{name:>16} = {count}")
    return 1 if any(counted[name] for name in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
