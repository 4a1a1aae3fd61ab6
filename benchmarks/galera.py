"""``python -m benchmarks.galera``: what holds when a Galera cluster of MariaDB is written to at one node, and at three.

Three private nodes, three workers, jobs in three rounds: plain ones, ones of which only one may run at a time (by a
concurrency key), and enqueues of the same idempotency keys by three producers at once. Once all use one node, once
each a node of its own. Printed: what ran twice or beside another, keys that made two jobs, jobs that a list by handler
does not show, how often the cluster refused a commit, and how long the plain ones took.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from horae import Context, Horae, Retry
from horae.actions.jobs import jobs as verbs
from horae.actions.roll_up import roll_up
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.errors import NotFound, StoreError
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate
from tests.support.replicas import GaleraCluster
from tests.support.servers import Servers

PLAIN, EXCLUSIVE, KEYS = 1500, 150, 100
REFUSALS = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
LIMIT = 240.0  # seconds


@dataclass
class Seen:
    """What the handlers saw."""

    ran: Counter[str] = field(default_factory=Counter)
    inside: int = 0
    beside: int = 0


def build(url: str, seen: Seen) -> tuple[Horae, dict[str, Any]]:
    app = Horae(url)

    @app.job("plain", retry=Retry.none())
    async def plain(ctx: Context, number: int) -> None:
        seen.ran[ctx.job_id] += 1

    @app.job("exclusive", retry=Retry.none(), concurrency_key="one")
    async def exclusive(ctx: Context, number: int) -> None:
        seen.ran[ctx.job_id] += 1
        seen.inside += 1
        seen.beside += seen.inside > 1
        await asyncio.sleep(0.01)
        seen.inside -= 1

    return app, {"plain": plain, "exclusive": exclusive}


async def measure(urls: list[str], seen: Seen) -> dict[str, Any]:
    with ExitStack() as stack:
        made = [build(url, seen) for url in urls]
        apps = [stack.enter_context(app) for app, _ in made]
        workers = [app.worker(WorkerSettings(lease=timedelta(seconds=30))) for app in apps]
        serving = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            began = time.monotonic()
            await _in_threads([partial(_enqueue, handles["plain"], PLAIN // 3) for _, handles in made])
            await until(lambda: len(seen.ran) >= PLAIN)
            plain = time.monotonic() - began
            await _in_threads([partial(_enqueue, handles["exclusive"], EXCLUSIVE // 3) for _, handles in made])
            await until(lambda: len(seen.ran) >= PLAIN + EXCLUSIVE)
            answers = await _in_threads([partial(_enqueue_by_keys, handles) for _, handles in made])
            await until(lambda: len(seen.ran) >= PLAIN + EXCLUSIVE + KEYS)
        finally:
            for worker in workers:
                worker.stop()
            await asyncio.gather(*serving)
        while roll_up(apps[0].world):
            continue
        shown = await asyncio.to_thread(_count_listed, apps[0])
        unseen = await asyncio.to_thread(_count_unseen, made[0][1], apps[1])
        jobs_of_key = [{answer[i] for answer in answers} for i in range(KEYS)]
        return {
            "seconds for the plain jobs": round(plain, 1),
            "ran twice": sum(count > 1 for count in seen.ran.values()),
            "ran beside another of the key": seen.beside,
            "keys with two jobs": sum(len(each) > 1 for each in jobs_of_key),
            "missing in a list by handler": len(seen.ran) - shown,
            "not found by the next process at once": unseen,
        }


def _enqueue(handle: Any, count: int) -> None:
    for number in range(count):
        handle.enqueue(number=number)


def _enqueue_by_keys(handles: dict[str, Any]) -> list[str]:
    return [_by_key(handles, number) for number in range(KEYS)]


def _by_key(handles: dict[str, Any], number: int) -> str:
    while True:
        try:
            job: str = handles["plain"].using(key=f"key-{number}").enqueue(number=number).id
            return job
        except StoreError:
            continue


def _count_unseen(handles: dict[str, Any], other: Horae) -> int:
    """Enqueue by one process and look by another, at once."""
    unseen = 0
    for number in range(KEYS):
        job = handles["plain"].enqueue(number=number).id
        try:
            verbs.get(other.world, job)
        except NotFound:
            unseen += 1
    return unseen


def _count_listed(app: Horae) -> int:
    total, before = 0, None
    for handler in ("plain", "exclusive"):
        wanted, before = narrow(Filter(), parse_filter(f"handler:{handler}", now=app.world.clock.now())), None
        while True:
            found, further = verbs.find_page(app.world, wanted, before=before, limit=100)
            total += len(found)
            if further is None:
                break
            before = f"job_{further}" if isinstance(further, int) else further
    return total


async def _in_threads(works: list[Any]) -> list[Any]:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(works)) as pool:
        return list(await asyncio.gather(*(loop.run_in_executor(pool, work) for work in works)))


async def until(holds: Any) -> None:
    ends = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError("it did not happen")
        await asyncio.sleep(0.05)


def main() -> int:
    bad = 0
    with Servers() as servers:
        cluster = GaleraCluster(servers)
        for name, chosen in (("one writer", [0, 0, 0]), ("three writers", [0, 1, 2])):
            cluster.database = cluster.nodes[0].create_database().rpartition("/")[2].partition("?")[0]
            urls = [cluster.url_of(cluster.nodes[place]) for place in chosen]
            with Horae(urls[0]) as app:
                migrate(app.engine)
            cluster.catch_up()  # a node that has not got the tables yet would refuse to open
            before = {each: sum(int(cluster.status(node, each)) for node in cluster.nodes) for each in REFUSALS}
            found = asyncio.run(measure(urls, Seen()))
            for each in REFUSALS:
                found[each] = sum(int(cluster.status(node, each)) for node in cluster.nodes) - before[each]
            print(f"{name}: " + ", ".join(f"{what} {value}" for what, value in found.items()), flush=True)
            bad += found["ran twice"] + found["keys with two jobs"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
