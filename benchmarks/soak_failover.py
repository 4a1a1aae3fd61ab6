"""``make soak ARGS=--failover``: jobs go on while the primary is killed and another host takes over, again and again.

PostgreSQL: two private servers. The primary and its children are killed with signal 9, the standby is promoted, then
the old primary comes back, able to write, and must be refused by every process; it is copied anew and follows. With
``--auto`` pg_auto_failover decides instead, with its defaults (Debian: pg-auto-failover-cli and
postgresql-15-auto-failover). With ``--asynchronous`` what the standby had not got is lost: that is counted and printed,
and is no failure. MariaDB: three nodes of a Galera cluster; the one that all write to is killed and comes back.

Workers and the producer run throughout; none is restarted. Printed for each failover is the gap: from the death to the
next acknowledged enqueue.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import Any

from benchmarks.soak_worker import LEASE
from tests.support.auto_failover import AutoFailover, Supervised
from tests.support.replicas import GaleraCluster, GaleraNode, PostgresPair
from tests.support.servers import Servers
from tests.support.waiting import wait_until

WAITS = (8.0, 15.0)  # seconds between two failovers, from and to
BACK = 5.0  # seconds for which an old primary is there and able to write
MOST_GAP = 180.0
BAD = ("lost", "unknown", "without effect", "doubled effects", "early", "written to an old primary", "restarted")


class Failing(ABC):
    """A database of several hosts, one of which can be made to die."""

    url: str

    @abstractmethod
    def fail(self) -> float:
        """Kill the host that is written to, and see that another can take over; return when it was dead."""

    @abstractmethod
    def mend(self, ended: threading.Event) -> int:
        """Bring the dead host back; return how many rows an old primary was given that it should not have."""


class FailingPair(Failing):
    def __init__(self, servers: Servers, synchronous: bool) -> None:
        self.pair = PostgresPair(servers, synchronous=synchronous, durable=True)
        self.url = self.pair.url

    def fail(self) -> float:
        self.pair.primary.kill()
        died = time.monotonic()
        self.pair.promote()
        return died

    def mend(self, ended: threading.Event) -> int:
        """Let the old primary acknowledge by itself, as one would whose operator has given up on the standby."""
        pair = self.pair
        with (pair.primary.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")
        pair.primary.start()
        before = self._written()
        ended.wait(BACK)
        after = self._written()
        pair.rejoin()
        return after - before

    def _written(self) -> int:
        """Return how many transactions have taken a number; vacuum and our own looks take none."""
        [(number,)] = self.pair.ask(self.pair.primary, "SELECT txid_snapshot_xmax(txid_current_snapshot())")
        return int(number)


class FailingAuto(Failing):
    """Two nodes under pg_auto_failover with its defaults: a monitor decides, and demotes a primary that comes back."""

    def __init__(self, servers: Servers) -> None:
        self.nodes = AutoFailover(servers)
        self.url = self.nodes.url
        self.dead: Supervised | None = None

    def fail(self) -> float:
        self.dead = self.nodes.primary()
        self.dead.kill()
        return time.monotonic()

    def mend(self, ended: threading.Event) -> int:
        assert self.dead is not None
        self.dead.start()
        self.nodes.until_synchronous()
        return int(self.nodes.primary() is self.dead)


class FailingCluster(Failing):
    def __init__(self, servers: Servers) -> None:
        self.cluster = GaleraCluster(servers, durable=True)
        self.url = self.cluster.url
        self.dead: GaleraNode | None = None

    def fail(self) -> float:
        """Kill the node with the most clients: all processes write to the same one."""
        alive = [node for node in self.cluster.nodes if node.is_running]
        count = "SELECT count(*) FROM information_schema.processlist WHERE db IS NOT NULL"
        self.dead = max(alive, key=lambda node: int(self.cluster.ask(node, count)[0][0]))
        self.dead.kill()
        return time.monotonic()

    def mend(self, ended: threading.Event) -> int:
        assert self.dead is not None
        self.dead.come_back()
        return 0


def soak_failover(database: str, seconds: float, rate: float, *, synchronous: bool, auto: bool = False) -> int:
    """Run the soak; return 1 if anything was lost, doubled or written to an old primary."""
    from benchmarks.soak import Soak  # which imports this module

    class FailoverSoak(Soak):
        """The soak of jobs, with a clock on acknowledgements."""

        def __init__(self, failing: Failing) -> None:
            super().__init__(failing.url, None, rate, memories=1e-6)  # memories: see the soak without --failover
            self.failing = failing
            self.begun = [worker.pid for worker in self.workers]
            self.acknowledged_at: list[float] = []
            self.gaps: list[float] = []
            self.stray = 0

        def _persistently(self, kind: str, key: str, delay: float | None) -> str:
            job = super()._persistently(kind, key, delay)
            self.acknowledged_at.append(time.monotonic())
            return job

        def gap_after(self, died: float) -> float | None:
            """Return how long after a death the next enqueue was acknowledged; None as long as none was."""
            return next((at - died for at in self.acknowledged_at if at > died), None)

        def harm(self, shortest: float, longest: float) -> None:
            while not self.ended.wait(random.uniform(shortest, longest)):
                self.faults["failover"] += 1
                died = self.failing.fail()
                self.gaps.append(wait_until(partial(self.gap_after, died), "an acknowledgement", MOST_GAP))
                print(
                    f"{time.strftime('%H:%M:%S')} failover, next acknowledgement after {self.gaps[-1]:.2f} s",
                    flush=True,
                )
                self.stray += self.failing.mend(self.ended)

        def counted(self) -> dict[str, int]:
            restarted = sum(worker.pid not in self.begun for worker in self.workers)  # the end replaces dead ones
            more = {"written to an old primary": self.stray, "restarted": restarted}
            return super().counted() | more | {"again after a loss": self._lost_runs()}

        def _lost_runs(self) -> int:
            return self._one("SELECT count(*) FROM horae_runs WHERE outcome = 'lost'")

    with Servers() as servers:
        failing = _failing(servers, database, synchronous, auto)
        soak = FailoverSoak(failing)
        try:
            found = soak.run(seconds, *WAITS)
        finally:
            soak.close()
    return _tell(soak.faults, soak.gaps, found, may_lose=not synchronous)


def _failing(servers: Servers, database: str, synchronous: bool, auto: bool) -> Failing:
    if auto:
        return FailingAuto(servers)
    return FailingCluster(servers) if database == "mariadb" else FailingPair(servers, synchronous)


def _tell(faults: Counter[str], gaps: list[float], found: dict[str, Any], *, may_lose: bool) -> int:
    print(f"\n{faults['failover']} failovers, lease {LEASE.total_seconds():g} s")
    if gaps:
        print(f"gap: {min(gaps):.2f} to {max(gaps):.2f} s, {sum(gaps) / len(gaps):.2f} s on average")
    for name, count in found.items():
        print(f"{name:>26} = {count}")
    if may_lose:
        print(f"asynchronous: {found['lost']} of {found['enqueued']} acknowledged jobs were lost with their primary")
    excused = {"lost", "unknown", "without effect"} if may_lose else set()
    return 1 if any(found[name] for name in BAD if name not in excused) or len(gaps) < max(1, faults["failover"]) else 0
