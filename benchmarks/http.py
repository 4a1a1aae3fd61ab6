"""``python -m benchmarks.http``: the service over HTTP beside the least that a server can do, in one run.

One server process, eight kept connections, the load in a process beside it. Both servers run all the time and are
asked in turn; of each the best round counts. Rates belong to the machine and the moment; the CPU of a request, and its
ratio to the bare server's, is the message. A rate is *met* when one core gives it by the CPU that a request takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import QUICK, Row, Size
from benchmarks.ground import Ground, Missing
from benchmarks.meter import percentile, tree_seconds

CONTENDERS = {"horae": "postgres", "starlette": "postgres", "horae-sqlite": "sqlite", "starlette-sqlite": "sqlite"}
SINGLES = 2_000  # requests of one round
PULLED = 10_000  # jobs of one round
UNLIMITED = {"HORAE_CALLS_PER_TOKEN": "0", "HORAE_CALLS_PER_ADDRESS": "0"}  # else 300 and 1,000 a second
LIMIT = 300.0  # seconds of one round
TITLES = {"enqueue": "HTTP, single enqueue", "pull": "HTTP, pull and end in batches of 100"}


@dataclass(frozen=True)
class Server:
    """A server that listens."""

    pid: int
    port: int
    tokens: dict[str, str]  # by what they are for


@contextmanager
def serving(ground: Ground, name: str) -> Iterator[Server]:
    """Start one server over a fresh database."""
    is_ours = name.startswith("horae")
    url = _database(ground, name)
    tokens = {"enqueue": "", "pull": ""}
    command = [sys.executable, "-m", "benchmarks.http_bare", url]
    if is_ours:
        tokens = {
            "enqueue": _horae("token", "create", "--owner", "alice", "--scopes", "tasks", "--db", url)["token"],
            "pull": _horae("token", "create", "--owner", "system", "--scopes", "tasks,worker", "--db", url)["token"],
        }
        command = [sys.executable, "-m", "horae", "server", "--port", "0", "--json", "--db", url]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **UNLIMITED}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Missing(f"{name} did not start")
        yield Server(process.pid, json.loads(line)["port"], tokens)
    finally:
        process.terminate()
        process.wait(30)


def _database(ground: Ground, name: str) -> str:
    url = ground.postgres.create_database() if CONTENDERS[name] == "postgres" else ground.file()
    if name.startswith("horae"):
        _horae("db", "migrate", "--db", url)
    return url


def _horae(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "horae", *words, "--json"], capture_output=True, text=True, env=os.environ
    )
    if done.returncode:
        raise Missing(f"horae {words[0]} {words[1]}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ask(server: Server, work: str, count: int, token: str = "") -> dict[str, Any]:
    """Let the load ask for some work; return its report, with the CPU that the server took for it."""
    given = json.dumps({"port": server.port, "token": token, "count": count, "work": work})
    before = tree_seconds(server.pid)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.http_load", given], capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode:
        raise Missing(done.stderr.strip().splitlines()[-1])
    report: dict[str, Any] = json.loads(done.stdout)
    return report | {"server": tree_seconds(server.pid) - before}


def measure(server: Server, case: str) -> dict[str, float]:
    count = SINGLES if case == "enqueue" else PULLED
    if case == "pull":
        ask(server, "sow", count, server.tokens["pull"])
    report = ask(server, case, count, server.tokens[case])
    count = report["count"]  # the bare server's queue also holds what was enqueued before
    figures = {
        "jobs/s": count / report["seconds"],
        "server ms each": report["server"] / count * 1e3,
        "one core gives/s": count / report["server"],
        "load ms each": report["load"] / count * 1e3,
    }
    if report["latencies"]:
        figures["p50 ms"] = percentile(report["latencies"], 0.5) * 1e3
        figures["p99 ms"] = percentile(report["latencies"], 0.99) * 1e3
    return figures


def http(ground: Ground, size: Size, names: Iterable[str] = CONTENDERS) -> list[Row]:
    """Measure the single enqueue, and pulling and ending in batches, of all servers in turn."""
    rows = {(case, name): Row(TITLES[case], name) for case in TITLES for name in names}
    with ExitStack() as running:
        servers: dict[str, Server] = {}
        for name in names:
            try:
                servers[name] = running.enter_context(serving(ground, name))
            except Missing as problem:
                rows |= {(case, name): Row(TITLES[case], name, missing=str(problem)) for case in TITLES}
        for server in servers.values():
            ask(server, "enqueue", 200, server.tokens["enqueue"])  # connections still to be opened
        for _ in size.turns():
            for case, name in rows:
                if name in servers:
                    found = Row(TITLES[case], name, measure(servers[name], case))
                    rows[case, name] = rows[case, name].better(found, "one core gives/s")
    return list(rows.values())


def ratios(rows: list[Row]) -> list[str]:
    """Return the CPU of our requests in terms of the bare server's."""
    cost = {(row.case, row.contender): row.figures["server ms each"] for row in rows if not row.missing}
    pairs = {"horae": "starlette", "horae-sqlite": "starlette-sqlite"}
    return [
        f"{case}: {ours} = {cost[case, ours] / cost[case, bare]:.1f} x the CPU of {bare}"
        for case in TITLES.values()
        for ours, bare in pairs.items()
        if (case, ours) in cost and (case, bare) in cost
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("--rounds", type=int, default=QUICK.rounds)
    parser.add_argument("--only", action="append", choices=list(CONTENDERS), help="this server; may be repeated")
    asked = parser.parse_args()
    from dataclasses import replace

    from benchmarks.__main__ import table
    from benchmarks.musts import judge

    with Ground() as ground:
        rows = http(ground, replace(QUICK, rounds=asked.rounds), asked.only or CONTENDERS)
    for title in TITLES.values():
        print(table([row for row in rows if row.case == title]))
    print("", *ratios(rows), sep="\n")
    return 0 if all(verdict.is_met for verdict in judge(rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
