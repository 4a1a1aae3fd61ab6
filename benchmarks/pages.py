"""``python -m benchmarks.pages``: what each page of the console takes with many live and many finished jobs.

Among a million live and a million finished jobs (``--full``) stands the made-up day of the screenshots, so that every
page has something to show. Every page, and every facet of Jobs, is opened many times inside this process; printed is
the time that 95 of 100 answers take at most, what this process takes of the processor for them, what is allowed, and
whether it is met.

    python -m benchmarks.pages --full --precedence
    python -m benchmarks.pages --database postgresql --live 1000000 --finished 10000000 --precedence
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast
from urllib.parse import quote

from benchmarks.meter import percentile
from benchmarks.sealing import KINDS
from benchmarks.size import LISTS, analyse, fill_world, give_precedence, keep
from horae import Horae
from horae.actions.access.tokens import create_token
from horae.actions.partitions import keep_partitions
from horae.core.time.instants import iso
from horae.settings import Settings
from horae.stores.store import SqlStore
from horae.testing.clock import VirtualClock
from scripts.screenshots import PAGES, ids_of, live
from tests.console.conftest import Browser
from tests.support.servers import ServerMissing, Servers

TIMES = 40  # that each page is opened
MOST = 0.300  # seconds
FULL = (1_000_000, 1_000_000)
PASSED = timedelta(days=6)  # from the last of the many endings to the made-up day, in which memories are made


def paths(app: Horae, made: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Return the name and the path of every page, and of Jobs by every facet."""
    known = ids_of(app, made)
    hour = quote(iso(app.world.clock.now() + timedelta(days=1)))
    for name, path in PAGES.items():
        yield name, path.format(**known).replace("2030-01-14T03:00:00Z", hour)
    for words in LISTS:
        yield f"jobs {words or 'all'}", f"/jobs?q={quote(words)}"


def measure(app: Horae, made: dict[str, str], only: str, count: int) -> int:
    """Open every page; print and count those that take too long."""
    service, bad = app.asgi(Settings(server_chores=False)), 0
    browser = Browser(service)
    browser.log_in(create_token(app.world, owner="system", scopes=["admin"])[1])
    print(f"  {'page':34} {'p95 ms':>8} {'median':>8} {'cpu p95':>8} {'must':>6}  met", flush=True)
    for name, path in paths(app, made):
        if only not in name:
            continue
        browser.open(path)
        walls, works = [], []
        for _ in range(count):
            began, worked = time.perf_counter(), time.process_time()
            browser.open(path)
            walls.append(time.perf_counter() - began)
            works.append(time.process_time() - worked)
        p95 = percentile(walls, 0.95)
        bad += p95 > MOST
        shown = [f"{1000 * each:8.0f}" for each in (p95, percentile(walls, 0.5), percentile(works, 0.95))]
        print(f"  {name:34} {' '.join(shown)} {1000 * MOST:6.0f}  {'yes' if p95 <= MOST else 'NO'}", flush=True)
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--database", choices=list(KINDS), default="sqlite")
    parser.add_argument("--live", type=int, default=FULL[0] // 50)
    parser.add_argument("--finished", type=int, default=FULL[1] // 50)
    parser.add_argument("--full", action="store_true", help="a million live and a million finished jobs")
    parser.add_argument("--times", type=int, default=TIMES, help=f"how often each page is opened; default {TIMES}")
    parser.add_argument("--url", help="a database that is empty or filled by benchmarks.size; it is changed")
    parser.add_argument("--precedence", action="store_true", help="open pages with real-time priority; wants root")
    parser.add_argument("--only", metavar="TEXT", default="", help="open only pages whose name holds this")
    asked = parser.parse_args()
    many, finished = FULL if asked.full else (asked.live, asked.finished)
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        kind = None if asked.url else KINDS[asked.database]
        try:
            server = None if kind is None else servers.own(kind, durable=False)
        except ServerMissing as problem:
            print(f"{asked.database}: {problem}")
            return 1
        url = asked.url or (f"sqlite:///{Path(folder) / 'pages.db'}" if server is None else server.create_database())
        world, store = fill_world(url, many, finished, asked.database)
        store.close()
        clock = cast("VirtualClock", world.clock)
        with Horae(url, clock=clock) as app:
            keep_partitions(app.world)
            made = live(app, clock, iso(clock.now() + PASSED))
            keep(app.world)
            analyse(cast("SqlStore", app.world.store))
            if asked.precedence:
                give_precedence(None if server is None else server.pid)
            return 1 if measure(app, made, asked.only, asked.times) else 0


if __name__ == "__main__":
    sys.exit(main())
