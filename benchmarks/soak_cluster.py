"""``make soak ARGS=--cluster``: four PostgreSQL servers; each is killed and comes back, while shards move all the time.

Producers enqueue with keys that lead to all databases; an enqueue that is refused is repeated later with its key, and
only what was acknowledged counts. Workers and the mover are processes that are killed with -9. Printed for each server
that was killed: how long after its start the next job was acknowledged there and the next one left its effect there,
and the longest pause between two acknowledgements of the others. At the end every acknowledged job must have succeeded
once, with one effect, in whichever database, its id must lead to it, and nothing may be on the way.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, text

from benchmarks.soak_worker import LEASE, declare
from horae import Horae
from horae.actions import cluster as verbs
from horae.actions import moves
from horae.core.cluster.numbers import job_id, vshard_of_id
from horae.errors import HoraeError
from horae.stores.cluster.addresses import public_address
from horae.stores.schema import migrate
from tests.support.servers import PostgresServer, Servers
from tests.support.waiting import wait_until

DATABASES, WORKERS, PRODUCERS = 4, 3, 2
DOWN = (1.0, 6.0)  # seconds for which a server is away
LAST_WAIT = 240.0
MOST_RESUME = 120.0
LOOKED_UP = 2_000  # ids at the end: each is a question over the cluster
OURS = "queue = 'default'"
EFFECTS = "CREATE TABLE soak_effects (job VARCHAR(40) NOT NULL, early INTEGER NOT NULL)"
BAD = (
    "not acknowledged", "lost", "doubled endings", "without effect", "doubled effects", "unknown effects", "early",
    "invalid ids", "numbers given twice", "parcels left", "members not well",
)  # fmt: skip


@dataclass
class Outage:
    """One server that was killed."""

    number: int
    died: float
    began: float = 0.0
    acknowledged: float | None = None  # seconds after it was there again
    worked: float | None = None
    others_paused: float = 0.0


@dataclass
class Log:
    """What was acknowledged, when and where."""

    ids: dict[str, str] = field(default_factory=dict)
    at: list[tuple[float, int]] = field(default_factory=list)  # when, in which database
    refused: int = 0


class ClusterSoak:
    def __init__(self, servers: Servers, folder: Path, rate: float) -> None:
        self.servers = [servers.own(PostgresServer, durable=True) for _ in range(DATABASES)]
        self.urls = [each.create_database() for each in self.servers]
        self.rate, self.folder = rate, folder
        self._make()
        self.log, self.ended = Log(), threading.Event()
        self.outages: list[Outage] = []
        self.faults: Counter[str] = Counter()
        self.workers = [self._worker(index) for index in range(WORKERS)]
        self.mover = self._mover()

    def _make(self) -> None:
        for url in self.urls:
            engine = create_engine(url)
            migrate(engine)
            with engine.begin() as connection:
                connection.execute(text(EFFECTS))
            engine.dispose()
        first = self.urls[0]
        with Horae(first) as app:
            verbs.init(app.world, name="db-1", address=public_address(first, first))
        with Horae(first) as app:
            for number, url in enumerate(self.urls[1:], 2):
                with Horae(url) as joining:
                    verbs.add(app.world, joining.world, name=f"db-{number}", address=public_address(url, first))

    def _worker(self, index: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.soak_worker", self.urls[index % DATABASES]]
        with (self.folder / f"worker-{index}.log").open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out)

    def _mover(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.soak_mover", random.choice(self.urls)]
        with (self.folder / "mover.log").open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=out)

    # -- load --------------------------------------------------------------------------------------------------------

    def feed(self, producer: int) -> None:
        """Enqueue with ever new keys; what is refused is tried again later, until it is acknowledged."""
        with Horae(self.urls[producer]) as app:  # opened while all are there
            handles = declare(app)
            number, again = 0, deque[tuple[str, str]]()
            while not self.ended.wait(random.expovariate(self.rate / PRODUCERS)) or again:
                if self.ended.is_set() and time.monotonic() > self.stops_at:
                    return
                if again and (self.ended.is_set() or random.random() < 0.3):
                    kind, key = again.popleft()
                else:
                    number += 1
                    kind, key = random.choices(["quick", "slow", "flaky"], [8, 1, 1])[0], f"{producer}-{number}"
                if not self._enqueue(app, handles[kind], key):
                    again.append((kind, key))
                self.asked.add(key)

    def _enqueue(self, app: Horae, handle: Any, key: str) -> bool:
        try:
            found = handle.using(key=key).enqueue().id
        except HoraeError:
            self.log.refused += 1
            return False
        assert app.world.cluster is not None
        vshard = vshard_of_id(found)
        assert vshard is not None
        self.log.ids[key] = found
        self.log.at.append((time.monotonic(), app.world.cluster.shard_map.database_of(vshard)))
        return True

    # -- faults ------------------------------------------------------------------------------------------------------

    def harm(self, shortest: float, longest: float) -> None:
        while not self.ended.wait(random.uniform(shortest, longest)):
            self._revive()
            what = random.choices(["server", "worker", "mover"], [3, 1, 1])[0]
            self.faults[what] += 1
            if what == "server":
                self._kill_server(random.randrange(DATABASES))
            elif what == "worker":
                place = random.randrange(WORKERS)
                self.workers[place].kill()
                self.workers[place].wait()
                self.workers[place] = self._worker(place)
            else:
                self.mover.kill()
                self.mover.wait()
                self.mover = self._mover()

    def _revive(self) -> None:
        """Start what ended by itself: a process that was started while its database was away."""
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[place] = self._worker(place)
        if self.mover.poll() is not None:
            self.mover = self._mover()

    def _kill_server(self, place: int) -> None:
        server = self.servers[place]
        server.kill()
        outage = Outage(place + 1, time.monotonic())
        self.outages.append(outage)
        time.sleep(random.uniform(*DOWN))
        server.start()
        outage.began = time.monotonic()
        known = self._effects(place)
        try:
            wait_until(lambda: self._acknowledged_since(outage), "an acknowledgement", MOST_RESUME)
            wait_until(lambda: self._effects(place) > known, "an effect", MOST_RESUME)
            outage.worked = time.monotonic() - outage.began
        except AssertionError as problem:
            self.faults["did not resume"] += 1
            print(f"db-{outage.number}: {problem}", flush=True)
        times = [at for at, number in list(self.log.at) if number != outage.number and at > outage.died - 1]
        outage.others_paused = max((after - before for before, after in pairwise(times)), default=0.0)
        print(
            f"{time.strftime('%H:%M:%S')} db-{outage.number} killed, away {outage.began - outage.died:.1f} s; "
            f"acknowledged {_seconds(outage.acknowledged)} and worked {_seconds(outage.worked)} after its start; "
            f"others paused {outage.others_paused:.2f} s at most",
            flush=True,
        )

    def _acknowledged_since(self, outage: Outage) -> bool:
        for at, number in reversed(self.log.at):
            if at < outage.began:
                return False
            if number == outage.number:
                first = min(when for when, where in list(self.log.at) if where == number and when > outage.began)
                outage.acknowledged = first - outage.began
                return True
        return False

    def _effects(self, place: int) -> int:
        with suppress(Exception):
            return int(self._ask(place, "SELECT count(*) FROM soak_effects")[0][0])
        return 0

    def _ask(self, place: int, sql: str) -> list[Any]:
        engine = create_engine(self.urls[place])
        try:
            with engine.connect() as connection:
                return list(connection.execute(text(sql)))
        finally:
            engine.dispose()

    # -- the end -----------------------------------------------------------------------------------------------------

    def run(self, seconds: float, shortest: float, longest: float) -> dict[str, int]:
        self.asked: set[str] = set()
        self.stops_at = time.monotonic() + seconds + LAST_WAIT
        producers = [threading.Thread(target=self.feed, args=(index,)) for index in range(PRODUCERS)]
        harm = threading.Thread(target=self.harm, args=(shortest, longest))
        for thread in (*producers, harm):
            thread.start()
        time.sleep(seconds)
        self.ended.set()
        for thread in (harm, *producers):
            thread.join()
        self.mover.kill()
        self.mover.wait()
        self._revive_workers()
        with Horae(self.urls[0]) as app:
            wait_until(lambda: verbs.check(app.world, repair=True).is_well, "agreement", LAST_WAIT)
            self._until_done()
            return self.counted(app)

    def _revive_workers(self) -> None:
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[place] = self._worker(place)

    def _until_done(self) -> None:
        waiting = f"SELECT count(*) FROM horae_jobs WHERE {OURS} AND state <> 'dead'"
        with suppress(AssertionError):  # what is left is counted as lost
            wait_until(
                lambda: not any(self._ask(place, waiting)[0][0] for place in range(DATABASES)), "the end", LAST_WAIT
            )

    def counted(self, app: Horae) -> dict[str, int]:
        """Count over all databases: a job that moved has left its runs and its effect wherever it was."""
        done, effects, early, numbers = Counter[str](), Counter[str](), 0, Counter[str]()
        for place in range(DATABASES):
            ended = f"SELECT job_id FROM horae_runs WHERE {OURS} AND state = 'succeeded'"
            done.update(job_id(row[0]) for row in self._ask(place, ended))
            effects.update(row[0] for row in self._ask(place, "SELECT job FROM soak_effects"))
            early += self._ask(place, "SELECT count(*) FROM soak_effects WHERE early = 1")[0][0]
        numbers.update(self.log.ids.values())
        acknowledged = set(self.log.ids.values())
        state = verbs.look(app.world)
        return {
            "asked": len(self.asked),
            "refused at first": self.log.refused,
            "acknowledged": len(acknowledged),
            "not acknowledged": len(self.asked - set(self.log.ids)),
            "attempts": sum(self._ask(place, f"SELECT count(*) FROM horae_runs WHERE {OURS}")[0][0]
                            for place in range(DATABASES)),
            "lost": len(acknowledged - set(done)),
            "doubled endings": sum(count > 1 for count in done.values()),
            "without effect": len(set(done) - set(effects)),
            "doubled effects": sum(count > 1 for count in effects.values()),
            "unknown effects": len(set(effects) - acknowledged),
            "early": early,
            "invalid ids": sum(not self._is_valid(app, each) for each in self._some(acknowledged)),
            "numbers given twice": sum(count > 1 for count in numbers.values()),
            "parcels left": len(moves.open_parcels(app.world)),
            "members not well": sum(not each.is_well(state.version) for each in state.members),
            "version of the map": state.version,
        }  # fmt: skip

    def _some(self, ids: set[str]) -> list[str]:
        return random.sample(sorted(ids), min(len(ids), LOOKED_UP))

    def _is_valid(self, app: Horae, job: str) -> bool:
        with suppress(HoraeError):
            return app.jobs.get(job).state == "succeeded"
        return False

    def close(self) -> None:
        for process in (*self.workers, self.mover):
            process.kill()
            process.wait()


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"


def soak_cluster(seconds: float, rate: float, every: tuple[float, float]) -> int:
    """Run the soak; return 1 if anything was lost, doubled, or did not resume."""
    with Servers() as servers, TemporaryDirectory() as folder:
        soak = ClusterSoak(servers, Path(folder), rate)
        try:
            found = soak.run(seconds, *every)
        finally:
            soak.close()
        moved = (Path(folder) / "mover.log").read_text().splitlines()
    resumed = [each for each in soak.outages if each.worked is not None]
    print(f"\nkilled: {', '.join(f'{count} x {name}' for name, count in sorted(soak.faults.items())) or 'none'}")
    print(f"moves: {sum(not line.startswith('#') for line in moved)}; lease {LEASE.total_seconds():g} s")
    if resumed:
        times = sorted(each.worked or 0.0 for each in resumed)
        print(f"time to resume after the start of a server: {times[0]:.1f} to {times[-1]:.1f} s, "
              f"median {times[len(times) // 2]:.1f} s; others paused "
              f"{max(each.others_paused for each in soak.outages):.2f} s at most")  # fmt: skip
    for name, count in found.items():
        print(f"{name:>22} = {count}")
    return 1 if any(found[name] for name in BAD) or soak.faults["did not resume"] else 0
