"""``python -m benchmarks.governance``: what governing memories is worth, what it costs, and that size does not matter.

First a year of virtual days with scripted truth, crashes, budgets and two tenants, on SQLite in memory: the same seed
gives the same figures. Then, with ``--size``, how many rows 1,000 due actions read among many objects, and how many
objects a second can be proposed, on a private PostgreSQL with fsync on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict

from benchmarks.many_objects import LOOKS, measure_looking, measure_proposing, measure_reading, multiply
from benchmarks.remembering import Year
from horae.stores.opening import create_store_engine, open_store
from tests.support.servers import PostgresServer, ServerMissing, Servers

WANTED_RATE = 3_000.0  # objects proposed a second
WITHIN = 1.10  # rows read among the most objects, in terms of those among the fewest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.governance", description=__doc__)
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, action="append", help="also among so many objects; may be repeated")
    parser.add_argument(
        "--among", type=int, action="append", help="rows read among so many more, made inside the server; repeatable"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    began = time.monotonic()
    store = open_store(create_store_engine("sqlite://"))
    try:
        found = Year(store, asked.objects, asked.days, asked.seed).run()
    finally:
        store.close()
    if asked.json:
        print(json.dumps(asdict(found)))
    else:
        print("\n".join(found.lines()))
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    holds = (found.resurrections, found.overspent, found.audit_complete) == (0, 0, 1.0)
    holds = holds and (not asked.size or _sizes(sorted(asked.size)))
    return 0 if holds and (not asked.among or _among(sorted(asked.among))) else 1


def _sizes(sizes: list[int]) -> bool:
    """Measure among so many objects; return whether size does not matter and proposing is quick enough."""
    with Servers() as servers:
        try:
            server = servers.own(PostgresServer, durable=True)
        except ServerMissing as problem:
            print(problem)
            return True
        rows: list[int] = []
        fast = True
        for size in sizes:
            url = server.create_database()
            rate = measure_proposing(url, size)
            read = measure_reading(url)
            rows.append(read.rows)
            fast = fast and rate >= WANTED_RATE
            print(
                f"{size:>9,} objects  {rate:8,.0f} proposed/s  {read.due:,} due: {read.rows:,} rows read, "
                f"{read.done:,.0f} actions/s",
                flush=True,
            )
    return fast and rows[-1] <= rows[0] * WITHIN


def _among(counts: list[int]) -> bool:
    """Measure the rows read among so many objects; return whether their number does not matter."""
    with Servers() as servers:
        try:
            server = servers.own(PostgresServer)
        except ServerMissing as problem:
            print(problem)
            return True
        rows: list[tuple[int, int]] = []
        for count in counts:
            url = server.create_database()
            multiply(url, count)
            looked, read = measure_looking(url), measure_reading(url)
            rows.append((looked, read.rows))
            print(
                f"among {count:>9,} objects  {LOOKS} idle looks of a worker and a keeper: {looked:,} rows read  "
                f"{read.due:,} due: {read.rows:,} rows read, {read.done:,.0f} actions/s",
                flush=True,
            )
    (few_looked, few_read), (many_looked, many_read) = rows[0], rows[-1]
    return many_looked <= few_looked + LOOKS and many_read <= few_read * WITHIN


if __name__ == "__main__":
    sys.exit(main())
