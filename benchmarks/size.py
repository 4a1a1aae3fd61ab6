"""``python -m benchmarks.size``: what lists, counts and metrics take with many live and many more finished jobs.

The rows and their labels are made inside the database by SQL, their statistics by the chore that makes them in life.
Every question is asked many times; printed is the time that 95 of 100 take at most, and each plan that scans or sorts.

    python -m benchmarks.size --database postgresql --full

makes a million live and ten million finished jobs; that takes minutes. The default is a fiftieth of that.
With ``--url`` the jobs stay in that database, and a database that has them is only asked.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import event, text

from benchmarks.meter import Meter, percentile, stat_of
from benchmarks.sealing import KINDS
from horae.actions.jobs import jobs, queues
from horae.actions.metrics import count_live, survey
from horae.actions.partitions import keep_partitions
from horae.actions.roll_up import roll_up
from horae.clock import SystemDice
from horae.core.jobs.filters import narrow, parse_filter
from horae.core.jobs.job import Filter
from horae.core.jobs.labels import Labelling
from horae.core.time.instants import MICROSECOND, instant, micros
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore
from horae.testing.clock import VirtualClock
from tests.support.plans import explain, reads_everything
from tests.support.servers import ServerMissing, Servers

DAYS = 14  # over which the finished jobs ended: as many partitions as are made ahead
BURST = timedelta(minutes=12)  # in which those of a day ended: at full size a thousand in a second
LASTS = timedelta(days=DAYS - 1) + BURST + timedelta(minutes=3)  # until all that ended can be counted
QUEUES, HANDLERS, OWNERS = 20, 200, 500
AT_ONCE = 500_000  # rows of one statement
TIMES = 40  # that each question is asked
MOST_COUNT, MOST_PAGE = 0.020, 0.200  # seconds
FULL = (1_000_000, 10_000_000)
# Every tenth job is a tenant's, every tenth has a tag, every thousandth an object; job 7 is alone of its kind.
NAMES = (
    f"CASE WHEN {{i}} = 7 THEN 'rare' ELSE concat('queue', {{i}} % {QUEUES}) END",
    f"CASE WHEN {{i}} = 7 THEN 'rare' ELSE concat('handler', {{i}} % {HANDLERS}) END",
    f"CASE WHEN {{i}} % 10 = 0 THEN concat('tenant', {{i}} / 10 % {OWNERS}) ELSE 'system' END",
    "CASE WHEN {i} % 10 = 3 THEN concat('[\"tag', {i} / 10 % 50, '\"]') END",
    "CASE WHEN {i} % 1000 = 5 THEN 'memory' END",
    "CASE WHEN {i} % 1000 = 5 THEN concat('m', {i} / 1000 % 100) END",
)
LABELS = "queue, handler, owner, tags, object_type, object_id"
LISTS = (
    "", "state:queued", "state:dead", "state:succeeded", "state:cancelled", "queue:queue3", "queue:rare",
    "queue:nowhere", "handler:handler7", "handler:rare", "owner:tenant11", "owner:system", "tag:tag1",
    "object:memory", "object:memory/m7", "ended:>-1h", "ended:-5d..-4d",
    "queue:queue3 state:succeeded", "owner:tenant11 queue:queue10",
)  # fmt: skip


def series(store: SqlStore, first: int, last: int) -> str:
    """Return SQL that makes the numbers of a range, as rows ``n (i)``."""
    if store.dialect.lateral:
        return f"generate_series({first}, {last}) AS n (i)"
    if store.dialect.shares_clock:
        return f"(SELECT CAST(seq AS SIGNED) AS i FROM seq_{first}_to_{last}) AS n"
    further = f"SELECT i + 1 FROM n WHERE i < {last}"
    return f"(WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL {further}) SELECT i FROM n) AS n"


def names(store: SqlStore) -> str:
    given = ", ".join(NAMES).format(i="i")
    if store.dialect.shares_clock and not store.dialect.lateral:
        given = given.replace(" / ", " DIV ")
    if store.dialect.lateral:
        given = given.replace("'[\"tag', i / 10 % 50, '\"]') END", "'[\"tag', i / 10 % 50, '\"]')::json END")
    return given


def fill(store: SqlStore, live: int, finished: int, begin: datetime) -> None:
    """Make finished jobs that ended one after the other, then live ones, due before and after now."""
    start, each_day = micros(begin), -(-finished // DAYS)
    step, day = BURST // MICROSECOND // each_day, timedelta(days=1) // MICROSECOND
    end = micros(begin + LASTS)
    cast = "::json" if store.dialect.lateral else ""
    for low in range(1, finished + 1, AT_ONCE):
        rows = series(store, low, min(low + AT_ONCE - 1, finished))
        at = f"({start} + (i - i % {each_day}) / {each_day} * {day} + i % {each_day} * {step})"
        state = "CASE WHEN i % 500 = 0 THEN 'cancelled' ELSE 'succeeded' END"
        run(
            store,
            f"INSERT INTO horae_runs (job_id, token, outcome, state, attempt, {LABELS}, started_at, finished_at, "
            f"run_at, planned_at, created_at, max_attempts, band, payload) SELECT i, 1, {state}, {state}, 0, "
            f"{names(store)}, {at} - 1000000, {at}, {at} - 2000000, 0, {at} - 3000000, 3, 1, '{{}}'{cast} FROM {rows}",
        )
    for low in range(finished + 1, finished + live + 1, AT_ONCE):
        rows = series(store, low, min(low + AT_ONCE - 1, finished + live))
        state = "CASE WHEN i % 100 = 0 THEN 'dead' ELSE 'queued' END"
        run(
            store,
            f"INSERT INTO horae_jobs (id, state, {LABELS}, band, run_at, planned_at, created_at, finished_at, "
            f"max_attempts, payload) SELECT i, {state}, {names(store)}, i % 3, {end} + (i % 2000 - 1000) * 1000000, 0, "
            f"{end} - 1000000, CASE WHEN i % 100 = 0 THEN {end} - i % 2000 * 1000000 END, 3, '{{}}'{cast} FROM {rows}",
        )
    label(store, finished + live)
    analyse(store)


def analyse(store: SqlStore) -> None:
    """Let the database look at what its tables hold, as it does by itself in life."""
    tables = " TABLE horae_jobs, horae_runs, horae_labels, horae_stats"
    run(store, "ANALYZE" if store.dialect.transactional_ddl else "ANALYZE" + tables)


def label(store: SqlStore, last: int) -> None:
    """Make the map of labels as the chore would, which takes far longer for so many jobs at once."""
    queue, handler, owner, tags, object_type, object_id = names(store).split(" END, ")
    bit = "CAST(1 AS bigint) << CAST(i & 31 AS int)" if store.dialect.lateral else "1 << (i & 31)"
    tag = tags.replace("concat('[\"tag', ", "concat('tag', ").replace(", '\"]')", ")").replace("::json", "")
    whole = object_id.replace("concat('m'", "concat('memory/m'").removesuffix(" END")
    kinds = {"queue": [queue], "handler": [handler], "owner": [owner], "tag": [tag], "object": [object_type, whole]}
    for kind, texts in kinds.items():
        for text_ in texts:
            for low in range(0, last + 1, AT_ONCE):
                rows = series(store, max(low, 1), min(low + AT_ONCE - 1, last))
                made = f"SELECT {text_} END AS label, i FROM {rows}"
                run(
                    store,
                    f"INSERT INTO horae_labels (kind, label, block, members) SELECT '{kind}', label, i >> 5, "
                    f"SUM({bit}) FROM ({made}) made WHERE label IS NOT NULL GROUP BY label, i >> 5",
                )
    state = Labelling(labelled=last + 1, marked=last + 1, seen=last + 1)

    def save(tx: Tx) -> None:
        tx.labels.state(lock=True)
        tx.labels.save(state)

    store.transact(save)


def run(store: SqlStore, sql: str) -> None:
    with store.engine.connect() as connection:
        if not store.dialect.shares_clock:  # older releases of SQLite have no such function
            driver: Any = connection.connection.driver_connection
            driver.create_function("concat", -1, lambda *parts: "".join(map(str, parts)))
        for statement in store.dialect.no_limits:
            connection.execute(text(statement))
        connection.exec_driver_sql(sql.replace("%", "%%") if store.dialect.placeholder == "%s" else sql)
        connection.commit()


def keep(world: World) -> None:
    """Do what the chores do: count every ending and all live jobs."""
    while roll_up(world):
        continue
    count_live(world)


def give_precedence(server_pid: int | None) -> None:
    """Let this process and the server run before all others, so that a busy machine is not what is measured."""
    folders = [Path(f"/proc/{name}") for name in os.listdir("/proc") if name.isdigit()]
    parents = {int(each.name): stat.parent for each in folders if (stat := stat_of(int(each.name)))}
    pids = {os.getpid()} | ({server_pid} if server_pid else set())
    pids |= {pid for pid, parent in parents.items() if parent == server_pid}
    for pid in pids:
        for thread in (int(name) for name in os.listdir(f"/proc/{pid}/task")):
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


@contextmanager
def listening(store: SqlStore) -> Iterator[list[tuple[str, Any]]]:
    """Note the statements that are sent inside the block."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, sql: str, values: Any, *_: Any) -> None:
        asked.append((sql, values))

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def questions(world: World) -> dict[str, tuple[float, Callable[[], object]]]:
    """Return what is asked, by name, with the time that it may take."""

    def page(words: str, second: bool) -> object:
        wanted = narrow(Filter(), parse_filter(words, now=world.clock.now()))
        found, further = jobs.find_page(world, wanted)
        if second and further is not None:
            before = f"job_{further}" if isinstance(further, int) else further
            found, _ = jobs.find_page(world, wanted, before=before)
        return found

    asked: dict[str, tuple[float, Callable[[], object]]] = {
        "counts": (MOST_COUNT, lambda: jobs.counts(world)),
        "a tenant's counts": (MOST_COUNT, lambda: jobs.counts(world, owner="tenant11")),
        "queue list": (MOST_COUNT, lambda: queues.list_queues(world)),
        "depth": (MOST_COUNT, lambda: world.store.read(lambda tx: tx.metrics.depths(world.clock.now()))),
        "metrics": (MOST_COUNT, lambda: survey(world)),
        "a tenant's metrics": (MOST_COUNT, lambda: jobs.metrics(world, owner="tenant11")),
    }
    for words in LISTS:
        asked[f"list {words or 'everything'}"] = (MOST_PAGE, lambda words=words: page(words, False))  # type: ignore[misc]
    asked["two pages of queue:queue3"] = (2 * MOST_PAGE, lambda: page("queue:queue3", True))
    asked["two pages of ended:>-1h"] = (2 * MOST_PAGE, lambda: page("ended:>-1h", True))
    return asked


def measure(world: World, store: SqlStore, only: str, pid: int | None) -> int:
    """Ask everything; print and count what takes too long, scans or sorts."""
    bad = 0
    for name, (most, ask) in questions(world).items():
        if only not in name:
            continue
        with listening(store) as asked:
            ask()
        wrong = [sql for sql, values in asked if reads_everything(explain(store, sql, values), sql)]
        times, meter = [], Meter(pid)
        for _ in range(TIMES):
            began = time.perf_counter()
            ask()
            times.append(time.perf_counter() - began)
        p95 = percentile(times, 0.95)
        bad += p95 > most or bool(wrong)
        verdict = "" if p95 <= most else f"  above {most * 1000:.0f} ms"
        median = percentile(times, 0.5)
        client, server = (1000 * each / TIMES for each in (meter.worker_seconds(), meter.server_seconds()))
        print(
            f"  {name:32} p95 {p95 * 1000:7.1f} ms, median {median * 1000:7.1f}, "
            f"processor {client:5.1f} + {server:5.1f}{verdict}",
            flush=True,
        )
        for sql in wrong:
            print(f"    scans or sorts: {' '.join(sql.split())[:300]}")
    return bad


def fill_world(url: str, live: int, finished: int, name: str) -> tuple[World, SqlStore]:
    """Make tables with that many jobs, counted and labelled, unless they are there; say how long it took."""
    engine = create_store_engine(url)
    migrate(engine)
    store = open_store(engine)
    with store.engine.connect() as connection:
        oldest = connection.execute(text("SELECT MIN(finished_at) FROM horae_runs")).scalar()
    begin = datetime.now(UTC) if oldest is None else instant(oldest)
    world = World(store, VirtualClock(begin + LASTS), SystemDice())
    if oldest is not None:
        return world, store
    began = time.monotonic()
    keep_partitions(world)
    fill(store, live, finished, begin)
    filled = time.monotonic()
    keep(world)
    analyse(store)
    print(
        f"{name}: {live:,} live and {finished:,} finished jobs, made in {filled - began:.0f} s, "
        f"counted in {time.monotonic() - filled:.0f} s",
        flush=True,
    )
    return world, store


def measure_database(name: str, url: str, live: int, finished: int, pid: int | None, wanted: argparse.Namespace) -> int:
    """Fill a database unless it is filled, and ask it; return how many answers are bad."""
    world, store = fill_world(url, live, finished, name)
    if wanted.precedence:
        give_precedence(pid)
    bad = measure(world, store, wanted.only, pid)
    store.close()
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.size", description=__doc__)
    parser.add_argument("--database", choices=list(KINDS), action="append", help="default: all three")
    parser.add_argument("--url", help="an empty database, or one that this benchmark filled; it stays as it is")
    parser.add_argument("--pid", type=int, help="the server's process of --url, to read its processor time")
    parser.add_argument("--live", type=int, default=FULL[0] // 50)
    parser.add_argument("--finished", type=int, default=FULL[1] // 50)
    parser.add_argument("--full", action="store_true", help="a million live and ten million finished jobs")
    parser.add_argument("--only", metavar="TEXT", default="", help="ask only questions whose name holds this")
    parser.add_argument("--precedence", action="store_true", help="ask with real-time priority; wants root")
    asked = parser.parse_args()
    live, finished = FULL if asked.full else (asked.live, asked.finished)
    if asked.url:
        return 1 if measure_database(asked.url, asked.url, live, finished, asked.pid, asked) else 0
    bad = 0
    with Servers() as servers, tempfile.TemporaryDirectory() as folder:
        for name in asked.database or KINDS:
            kind = KINDS[name]
            try:
                server = None if kind is None else servers.own(kind, durable=False)
            except ServerMissing as problem:
                print(f"{name}: {problem}")
                continue
            url = f"sqlite:///{Path(folder) / 'size.db'}" if server is None else server.create_database()
            bad += measure_database(name, url, live, finished, None if server is None else server.pid, asked)
            if server is not None:
                servers.discard(server)  # its data is large, and the next server makes as much
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
