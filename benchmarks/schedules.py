"""Do schedules fire once each and on time? Several processes, several databases, calm and under kill -9.

``python -m benchmarks.schedules --minutes 2`` runs 200 cron (with seconds) and interval schedules on PostgreSQL,
MariaDB and one SQLite file, four worker processes each with default settings. The judge of the tests reads the records:
every due fire exactly once, none early, no gap. Printed are the delays from the instant due to the claim (by the
store's clock) and to the first line of the handler (by the system's). In the round *killed* half of the processes are
killed with signal 9 every ten seconds and started again; its delays show what a crash costs, not what we promise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from horae import Context, Horae, Retry
from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import schedules
from horae.ports.schedules import ScheduleFilter
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate
from horae.testing.builders import a_schedule
from tests.support.fire_history import complaints, read_fires
from tests.support.servers import MariaDBServer, PostgresServer, Servers

DATABASES = ("postgres", "mysql", "sqlite")
CRONS = ("* * * * * *", "*/2 * * * * *", "*/3 * * * * *", "*/5 * * * * *", "30 * * * * *", "*/10 * * * * *")
PERIODS = (1, 1.5, 2, 3, 5, 7, 10)
KILL_EVERY = 10.0


@dataclass(frozen=True)
class Figures:
    """One round on one database; delays in milliseconds."""

    database: str
    round: str
    due: int
    ran: int
    skipped: int
    merged: int
    complaints: int
    claimed_p50: float
    claimed_p99: float
    started_p50: float
    started_p99: float
    started_max: float
    kills: int


# -- the processes -----------------------------------------------------------------------------------------------


def build(url: str) -> Horae:
    app = Horae(url)

    @app.job("tick", retry=Retry.none())
    async def tick(ctx: Context) -> int:
        return time.time_ns() // 1000

    return app


async def serve(url: str) -> None:
    with build(url) as app:
        worker = app.worker(WorkerSettings(lease=timedelta(seconds=5)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


class Fleet:
    """Worker processes that can be killed and started again."""

    def __init__(self, url: str, size: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.schedules", "--serve", url]
        self._members = [self._start() for _ in range(size)]
        self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=dict(os.environ), stdout=subprocess.DEVNULL)

    def kill_half(self) -> None:
        for place in random.sample(range(len(self._members)), len(self._members) // 2):
            self._members[place].kill()
            self._members[place].wait()
            self._members[place] = self._start()
            self.kills += 1

    def dismiss(self) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            member.wait()


# -- one round ---------------------------------------------------------------------------------------------------


def crowd(app: Horae, count: int, lasts: timedelta, name: str) -> None:
    """Half cron, half interval, their grids at different phases."""
    ends_at = app.world.clock.now() + timedelta(seconds=5) + lasts
    for place in range(count):
        rule = (
            {"kind": "cron", "expression": CRONS[place // 2 % len(CRONS)]}
            if place % 2
            else {"kind": "every", "expression": str(PERIODS[place // 2 % len(PERIODS)])}
        )
        wanted = a_schedule(f"{name}-{place:04}", handler="tick", overlap="allow", ends_at=ends_at, **rule)
        schedules.create(app.world, replace(wanted, initial_delay=timedelta(seconds=5)))


def measure(app: Horae, fleet: Fleet, database: str, name: str, count: int, lasts: timedelta) -> Figures:
    crowd(app, count, lasts, name)
    ends = time.monotonic() + 5 + lasts.total_seconds()
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, KILL_EVERY))
        if name == "killed" and left > KILL_EVERY:
            fleet.kill_half()
    deadline = time.monotonic() + 60
    while not _at_rest(app) and time.monotonic() < deadline:
        time.sleep(0.5)
    return figures(app, database, name, fleet.kills)


def _at_rest(app: Horae) -> bool:
    waiting = any(each.next_fire_at for each in schedules.iterate(app.world, ScheduleFilter()))
    live = sum(states["queued"] + states["running"] for states in verbs.counts(app.world).values())
    return not waiting and not live


def figures(app: Horae, database: str, name: str, kills: int) -> Figures:
    found = [each for each in read_fires(app.world) if each.schedule.key.startswith(name)]
    ends_at = found[0].schedule.ends_at
    assert ends_at is not None
    problems = [line for each in found for line in complaints(each, ends_at)]
    for line in problems[:10]:
        print(f"  {line}", file=sys.stderr)
    counts: Counter[str] = Counter()
    for each in found:
        for record in each.records:
            counts[record.verdict] += record.count
    claims, starts = delays(app, {each.schedule.number for each in found})
    return Figures(
        database,
        name,
        due=sum(len(each.due(ends_at)) for each in found),
        ran=counts["ran"],
        skipped=counts["skipped"],
        merged=counts["merged"],
        complaints=len(problems),
        claimed_p50=_percentile(claims, 0.5),
        claimed_p99=_percentile(claims, 0.99),
        started_p50=_percentile(starts, 0.5),
        started_p99=_percentile(starts, 0.99),
        started_max=_percentile(starts, 1.0),
        kills=kills,
    )


def delays(app: Horae, numbers: set[int]) -> tuple[list[float], list[float]]:
    """From the instant due to the claim and to the handler's first line."""
    query = text("SELECT schedule_id, fire_at, started_at, result FROM horae_runs WHERE outcome = 'succeeded'")
    rows: list[Any] = app.world.store.read(lambda tx: list(tx.connection.execute(query)))
    mine = [row for row in rows if row.schedule_id in numbers]
    claims = sorted((row.started_at - row.fire_at) / 1000 for row in mine)
    return claims, sorted((int(row.result) - row.fire_at) / 1000 for row in mine)


def _percentile(values: list[float], part: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * part))], 1) if values else float("nan")


# -- all of it ---------------------------------------------------------------------------------------------------


def run(url: str, database: str, options: argparse.Namespace) -> list[Figures]:
    lasts = timedelta(minutes=options.minutes)
    with build(url) as app:
        migrate(app.engine)
        fleet = Fleet(url, options.processes)
        while len(app.world.store.read(lambda tx: tx.nodes.all())) < options.processes:
            time.sleep(0.2)
        try:
            return [measure(app, fleet, database, name, options.schedules, lasts) for name in options.rounds]
        finally:
            fleet.dismiss()


def show(row: Figures) -> str:
    verdict = "exactly once" if not row.complaints and row.due == row.ran + row.skipped + row.merged else "WRONG"
    return (
        f"{row.database:<9} {row.round:<7} due {row.due:>6}  ran {row.ran:>6}  merged {row.merged:>4}  "
        f"kills {row.kills:>3}  {verdict:<12}  claimed p50 {row.claimed_p50:>6} p99 {row.claimed_p99:>7} ms  "
        f"started p50 {row.started_p50:>6} p99 {row.started_p99:>7} max {row.started_max:>8} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.5, help="how long each round lasts")
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4, help="two hosts' worth")
    parser.add_argument("--database", choices=DATABASES, action="append", help="only this one; may be repeated")
    parser.add_argument("--rounds", nargs="+", choices=("calm", "killed"), default=["calm", "killed"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return 0
    wrong = 0
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        for database in options.database or DATABASES:
            url = f"sqlite:///{Path(folder) / 'horae.db'}"
            if database != "sqlite":
                kind: type[PostgresServer | MariaDBServer] = PostgresServer if database == "postgres" else MariaDBServer
                url = servers.own(kind, durable=True).create_database()
            for row in run(url, database, options):
                print(json.dumps(asdict(row)) if options.json else show(row), flush=True)
                wrong += row.complaints
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
