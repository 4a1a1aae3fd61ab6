"""What is measured. Every case runs its contenders in turn, several rounds, and keeps each one's best round:
whatever else the machine does can only slow a round down.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from benchmarks.ground import Ground, Missing
from benchmarks.meter import percentile, resident_megabytes, tree_seconds

QUEUES = ("horae", "pgqueuer", "awa", "oban", "bare", "horae-sqlite", "bare-sqlite")
SLOW = ("procrastinate", "huey", "apscheduler")
SLOW_COUNT = 500
WARM_UP = 5  # jobs that find connections still to be opened


@dataclass(frozen=True)
class Size:
    rounds: int
    drained: int
    future: int
    lagging: int
    idle: float
    pinned: int = 50_000
    both: tuple[str, ...] = ("horae", "pgqueuer")
    until: float = float("inf")  # on the monotonic clock: no further round of a case begins after it

    def turns(self) -> Iterator[int]:
        """Yield once for each round: the first always, the others while there is time."""
        for turn in range(self.rounds):
            if turn == 0 or time.monotonic() < self.until:
                yield turn


def fewer(size: Size) -> Size:
    """Return fewer rounds, for cases whose rounds are long."""
    return replace(size, rounds=max(1, size.rounds // 2))


QUICK = Size(rounds=2, drained=20_000, future=100_000, lagging=100, idle=20.0)
FULL = Size(rounds=3, drained=100_000, future=1_000_000, lagging=300, idle=180.0, pinned=200_000)


@dataclass
class Row:
    """One contender in one case."""

    case: str
    contender: str
    figures: dict[str, float] = field(default_factory=dict)
    missing: str = ""

    def better(self, other: Row, by: str) -> Row:
        return other if other.figures.get(by, 0.0) > self.figures.get(by, 0.0) else self


Measure = Callable[[Ground, str, Size], dict[str, float]]


def _rounds(ground: Ground, size: Size, case: str, contenders: Sequence[str], measure: Measure, by: str) -> list[Row]:
    rows = {name: Row(case, name) for name in contenders}
    for _ in size.turns():
        for name, known in rows.items():
            if known.missing:
                continue
            try:
                rows[name] = known.better(Row(case, name, measure(ground, name, size)), by)
            except Missing as problem:
                rows[name] = Row(case, name, missing=str(problem))
    return list(rows.values())


# -- enqueue -----------------------------------------------------------------------------------------------------


def single(ground: Ground, size: Size) -> list[Row]:
    """Enqueue one job after the other, each durable before the next."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        count = 2_000
        report = ground.do(name, ground.database(name), work="singles", count=count)
        return {"jobs/s": count / report["seconds"], **_costs(report, count)}

    return _rounds(ground, size, "single enqueue", (*QUEUES, *SLOW), measure, "jobs/s")


def bulk(ground: Ground, size: Size) -> list[Row]:
    """Ten thousand jobs at once."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        count = 10_000
        report = ground.do(name, ground.database(name), work="bulk", count=count)
        return {"jobs/s": count / report["seconds"], **_costs(report, count)}

    return _rounds(ground, size, "bulk enqueue of 10,000", (*QUEUES, "procrastinate"), measure, "jobs/s")


def _costs(report: dict[str, Any], count: int) -> dict[str, float]:
    return {"worker µs/job": report["worker"] / count * 1e6, "server µs/job": report["server"] / count * 1e6}


# -- drain -------------------------------------------------------------------------------------------------------


def drain(ground: Ground, size: Size) -> list[Row]:
    """Empty a queue of jobs that do nothing with one worker."""
    return _rounds(ground, size, "drain, one worker", (*QUEUES, *SLOW), _drain, "jobs/s")


def drain_two(ground: Ground, size: Size) -> list[Row]:
    """Empty the same queue with two workers, each a process."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _drain(ground, name, size, workers=2)

    return _rounds(ground, size, "drain, two workers", ("horae", "pgqueuer", "awa", "oban", "bare"), measure, "jobs/s")


def drain_backlog(ground: Ground, size: Size) -> list[Row]:
    """Beside a large number of jobs that are due much later."""
    return _beside(ground, size, f"drain beside {size.future:,} future jobs", trouble={"future": size.future})


def drain_pinned(ground: Ground, size: Size) -> list[Row]:
    """While another connection holds an old snapshot, so that no dead row can be cleaned away."""
    return _beside(ground, fewer(size), "drain beside an old snapshot", count=size.pinned, trouble={"pinned": True})


def growth(ground: Ground, size: Size) -> list[Row]:
    """Empty a queue ten times as long."""
    long, once = 10 * size.drained, replace(fewer(size), both=("horae",))
    return _beside(ground, once, f"growth: drain of {long:,} due jobs, of {size.drained:,}", trouble={"count": long})


def _beside(ground: Ground, size: Size, case: str, *, count: int | None = None, trouble: dict[str, Any]) -> list[Row]:
    """Return the best round with the trouble in terms of the best round without."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _drain(ground, name, size, count=count)

    def troubled(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _drain(ground, name, size, **{"count": count, **trouble})

    known: dict[str, tuple[Row, Row]] = {name: (Row(case, name), Row(case, name)) for name in size.both}
    for _ in size.turns():
        for name, (without, beside) in known.items():
            known[name] = (
                _rounds(ground, replace(size, rounds=1), case, [name], measure, "jobs/s")[0].better(without, "jobs/s"),
                _rounds(ground, replace(size, rounds=1), case, [name], troubled, "jobs/s")[0].better(beside, "jobs/s"),
            )
    for without, beside in known.values():
        if not beside.missing and not without.missing:
            beside.figures["of without"] = beside.figures["jobs/s"] / without.figures["jobs/s"]
    return [beside for _, beside in known.values()]


def _drain(
    ground: Ground,
    name: str,
    size: Size,
    *,
    count: int | None = None,
    workers: int = 1,
    future: int = 0,
    pinned: bool = False,
) -> dict[str, float]:
    url = ground.database(name)
    _add_future(ground, name, url, future)
    with _snapshot(url if pinned else ""):
        count = SLOW_COUNT if name in SLOW else count or size.drained
        ground.do(name, url, work="singles" if name in SLOW else "bulk", count=count)
        share: dict[str, Any] = {"count": count, "shared": workers > 1, "seconds": 300.0}
        reports = ground.together([ground.start(name, url, work="serve", **share) for _ in range(workers)])
    seen = sum(each["seen"] for each in reports)
    seconds = max(each["ended"] for each in reports) - min(each["began"] for each in reports)
    return {
        "jobs/s": seen / seconds,
        "worker µs/job": sum(each["worker"] for each in reports) / seen * 1e6 if workers == 1 else 0.0,
        "server µs/job": reports[0]["server"] / seen * 1e6 if workers == 1 else 0.0,
    }


def _add_future(ground: Ground, name: str, url: str, count: int) -> None:
    """Enqueue jobs that are due much later."""
    if count:
        ground.do(name, url, work="bulk", count=count, at=time.time() + 10**6)


@contextmanager
def _snapshot(url: str) -> Iterator[None]:
    if not url:
        yield
        return
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield


# -- punctuality -------------------------------------------------------------------------------------------------


def lag(ground: Ground, size: Size) -> list[Row]:
    """Jobs due at instants to come, 20 ms apart, enqueued by another process: how late does each start?"""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _lags(ground, name, size.lagging, lead=3.0, pause=0.02)

    return _rounds(
        ground, fewer(size), "lag of a due job", ("horae", *SLOW[:2], "pgqueuer", "horae-sqlite"), measure, "-p99"
    )


def lag_beside(ground: Ground, size: Size) -> list[Row]:
    """The same beside a large number of jobs that are due much later, on SQLite."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _lags(ground, name, size.lagging, lead=3.0, pause=0.02, future=size.future)

    case = f"lag beside {size.future:,} future jobs"
    return _rounds(ground, replace(size, rounds=1), case, ("horae-sqlite",), measure, "-p99")


def latency(ground: Ground, size: Size) -> list[Row]:
    """Another process enqueues a job now and then: how soon does an idle worker start it?"""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        return _lags(ground, name, size.lagging, lead=0.0, pause=0.1)

    contenders = ("horae", "pgqueuer", "procrastinate", "horae-sqlite", "huey")
    return _rounds(ground, fewer(size), "enqueue to start, idle worker", contenders, measure, "-p99")


def _lags(ground: Ground, name: str, count: int, *, lead: float, pause: float, future: int = 0) -> dict[str, float]:
    url = ground.database(name)
    _add_future(ground, name, url, future)
    count += WARM_UP
    wait = lead + count * pause + 10.0
    worker = ground.start(name, url, work="serve", count=count, seconds=wait)
    worker.go()
    time.sleep(1.5)  # until it has found out that there is nothing to do
    ground.do(name, url, work="sow", count=count, lead=lead, pause=pause)
    report = worker.answer()
    lags = [seconds * 1e3 for seconds in report["lags"][WARM_UP:]]
    if not lags:
        raise Missing("nothing ran in time")
    p99 = percentile(lags, 0.99)
    early = sum(each < 0 for each in lags) / len(lags)
    return {
        "p50 ms": percentile(lags, 0.5),
        "p99 ms": p99,
        "early %": early * 100,
        "ran %": report["seen"] / count * 100,
        "-p99": 1e6 - p99,
    }


# -- rest and recovery -------------------------------------------------------------------------------------------


def idle(ground: Ground, size: Size) -> list[Row]:
    """Measure a worker with nothing to do: processor time, statements, memory."""

    def measure(ground: Ground, name: str, size: Size) -> dict[str, float]:
        url = ground.database(name)
        on_postgres = url.startswith("postgres")
        if on_postgres:
            _log_statements(url)
        settle = 5.0
        worker = ground.start(name, url, env={"HORAE_BENCH_POLL": "1"}, work="serve", seconds=size.idle + settle + 5.0)
        pid = worker.process.pid
        worker.go()
        time.sleep(settle)
        cpu, lines = tree_seconds(pid), _statements(ground) if on_postgres else 0
        time.sleep(size.idle)
        cpu, lines = tree_seconds(pid) - cpu, (_statements(ground) if on_postgres else 0) - lines
        memory = resident_megabytes(pid)
        worker.answer()
        figures = {"cpu %": cpu / size.idle * 100, "memory MB": memory, "-cpu": 100.0 - cpu}
        return figures | ({"statements/min": lines / size.idle * 60} if on_postgres else {})

    return _rounds(
        ground,
        replace(size, rounds=1),
        "idle worker",
        ("horae", "pgqueuer", "procrastinate", "horae-sqlite"),
        measure,
        "-cpu",
    )


def _log_statements(url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE \"{name}\" SET log_statement = 'all'".encode())


def _statements(ground: Ground) -> int:
    return len(re.findall(r"LOG:  (?:statement|execute)", ground.postgres.log.read_text(errors="replace")))


def recovery(ground: Ground, size: Size) -> list[Row]:
    """Measure when a second worker starts the job of one that died by kill -9."""
    rows = []
    for name in ("horae", "horae-sqlite"):
        try:
            rows.append(Row("recovery after kill -9", name, _recovery(ground, name)))
        except Missing as problem:
            rows.append(Row("recovery after kill -9", name, missing=str(problem)))
    return rows


def _recovery(ground: Ground, name: str) -> dict[str, float]:
    lease = 5.0
    url = ground.database(name)
    env = {"HORAE_BENCH_LEASE": str(lease)}
    victim = ground.start(name, url, env=env | {"HORAE_FAULT": "run.before:kill:1"}, work="serve", count=1, seconds=60)
    heir = ground.start(name, url, env=env, work="serve", count=1, seconds=60)
    victim.go()
    time.sleep(2.0)
    ground.do(name, url, work="sow", count=1, lead=0.0, pause=0.0)
    try:
        victim.process.wait(30)
    except subprocess.TimeoutExpired:
        victim.process.kill()
        raise Missing("the first worker did not die as planned") from None
    died = time.time()
    heir.go()
    report = heir.answer()
    if not report["seen"]:
        raise Missing("the job was not started again")
    return {"lease s": lease, "started again after s": report["began"] - died}


CASES: dict[str, Callable[[Ground, Size], list[Row]]] = {
    "single": single,
    "bulk": bulk,
    "drain": drain,
    "two": drain_two,
    "backlog": drain_backlog,
    "pinned": drain_pinned,
    "growth": growth,
    "lag": lag,
    "lag_beside": lag_beside,
    "latency": latency,
    "idle": idle,
    "recovery": recovery,
}
CORES = os.cpu_count()
