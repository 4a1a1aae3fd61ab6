"""Load over a cluster of NATS servers while servers, relays and workers are killed; at the end, what was lost?"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import nats
from sqlalchemy import text

from horae import Horae
from horae.api.jobs.room import Job
from horae.core.dispatch import RELAY
from tests.bus import program
from tests.support.servers import NatsServer
from tests.support.waiting import wait_until

LAST_WAIT = 120.0  # seconds for what is still unfinished when the load ends
PREFIX = "soak"


class BusSoak:
    """Relays, workers and a feeder in processes and threads of their own."""

    def __init__(self, url: str, nodes: Sequence[NatsServer], folder: Path, *, rate: float = 20.0) -> None:
        self.nodes, self.rate = list(nodes), rate
        self.app = Horae(url)
        self.made: list[str] = []
        self.events: Counter[str] = Counter()
        self._file = folder / "effects.db"
        program.prepare(self._file)
        self._environment = {
            **os.environ, "HORAE_DATABASE_URL": url, "BUS_EFFECTS": str(self._file), "HORAE_NATS_PREFIX": PREFIX,
            "HORAE_NATS_STREAM": "SOAK", "HORAE_NATS_REPLICAS": str(min(3, len(nodes))),
        }  # fmt: skip
        self._log = (folder / "log").open("ab")
        self._ended = threading.Event()
        self.relays: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._feeder = threading.Thread(target=self._feed, daemon=True)

    @property
    def servers(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def start(self, relays: int = 2, workers: int = 2) -> None:
        self.relays += [self.relay() for _ in range(relays)]
        self.workers += [self.worker() for _ in range(workers)]
        self._feeder.start()

    def relay(self) -> subprocess.Popen[bytes]:
        more = {"HORAE_NATS": self.servers, "HORAE_NATS_DISPATCH": "1"}
        return self._run(more, "--queues", "elsewhere=1")

    def worker(self) -> subprocess.Popen[bytes]:
        return self._run({}, "--nats", self.servers, "--queues", "bus=8", "--lease", "10s", "--grace", "1s")

    def _run(self, more: dict[str, str], *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "horae", "worker", "tests.bus.program:app", *options]
        return subprocess.Popen(command, env=self._environment | more, stdout=self._log, stderr=self._log)

    def _feed(self) -> None:
        number = 0
        while not self._ended.wait(1 / self.rate):
            number += 1
            handler = "slow" if number % 10 == 0 else "effect"
            retry = program.app.definitions.get(handler).retry
            self.made.append(self.app.jobs.enqueue(handler, queue="bus", key=f"soak-{number}", retry=retry).id)

    # -- what breaks -------------------------------------------------------------------------------------------------

    def kill(self, victim: subprocess.Popen[bytes], replace: Callable[[], subprocess.Popen[bytes]]) -> None:
        """Kill a process as a power cut would, and start another in its place."""
        group = self.relays if victim in self.relays else self.workers
        self.events["relay killed" if group is self.relays else "worker killed"] += 1
        victim.kill()
        victim.wait()
        group.remove(victim)
        group.append(replace())

    def end_worker(self) -> int:
        """End a worker in order, and start another in its place; return its exit code."""
        victim = self.workers.pop(0)
        self.events["worker ended"] += 1
        victim.send_signal(signal.SIGTERM)
        self.workers.append(self.worker())
        return victim.wait(30)

    def acting_relay(self) -> subprocess.Popen[bytes]:
        """Return the process that holds the lease of the relay."""

        def find() -> subprocess.Popen[bytes] | None:
            with self.app.engine.connect() as connection:
                found = connection.execute(
                    text("SELECT holder FROM horae_chores WHERE name = :n"), {"n": RELAY}
                ).scalar()
            return next((each for each in self.relays if f":{each.pid}:" in (found or "")), None)

        acting: subprocess.Popen[bytes] = wait_until(find, "a relay holds the lease")
        return acting

    def kill_leader(self) -> tuple[NatsServer, float]:
        """Kill the server that leads the stream of calls; return it and how long it took until a new job was done."""
        name = wait_until(lambda: asyncio.run(self._leader()), "the stream has a leader")
        (leader,) = (node for node in self.nodes if name in node.more)
        leader.stop("immediate")
        self.events["leader killed"] += 1
        return leader, self.time_to_go_on()

    def time_to_go_on(self) -> float:
        """Enqueue a job now, and return in how many seconds it is done."""
        began = monotonic()
        made = self.app.jobs.enqueue("effect", queue="bus", retry=program.app.definitions.get("effect").retry)
        self.made.append(made.id)
        wait_until(
            lambda: self.app.jobs.get(made.id).state == "succeeded", "the next job is done", within=LAST_WAIT, every=0.1
        )
        return monotonic() - began

    async def _leader(self) -> str | None:
        client = await nats.connect(self.servers.split(","), connect_timeout=2, max_reconnect_attempts=1)
        try:
            info = await client.jetstream(timeout=2).stream_info("SOAK_CALLS")
            return None if info.cluster is None else info.cluster.leader
        except Exception:
            return None
        finally:
            await client.close()

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Any]:
        """End the load, wait for what is unfinished, and count."""
        self._ended.set()
        self._feeder.join()

        def unfinished() -> list[Job]:
            return [job for job in map(self.app.jobs.get, self.made) if job.state in ("queued", "running")]

        wait_until(lambda: not unfinished(), "all jobs end", within=LAST_WAIT, every=0.5)
        done = program.times_done(self._file)
        outcomes = {each: [run.outcome for run in self.app.jobs.runs(each)] for each in self.made}
        return {
            "jobs": len(self.made),
            "states": dict(Counter(self.app.jobs.get(each).state for each in self.made)),
            "without effect": sum(not done[each] for each in self.made),
            "repeated": sum(done[each] > 1 for each in self.made),
            # An effect may be repeated only by a further attempt, after one that was lost or given back.
            "doubled": sum(
                ended.count("succeeded") != 1 or done[each] > len(ended) for each, ended in outcomes.items()
            ),
            "events": dict(self.events),
        }

    def close(self) -> None:
        self._ended.set()
        for each in (*self.workers, *self.relays):
            each.kill()
            each.wait()
        self._log.close()
        self.app.close()
