"""Statistics recounted in plain Python, to be compared with the roll-up."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from horae.core.histograms import histogram
from horae.core.statistics import DAY, HOUR, MINUTE, SCOPES, Statistic
from horae.ports.store import Store, Tx
from horae.stores.tables.audit import audit
from horae.stores.tables.jobs import runs

LENGTHS = {"minute": MINUTE, "hour": HOUR, "day": DAY}
TIMED = ("succeeded", "failed", "timed_out")


def recount(store: Store, grain: str, *, until: int) -> dict[tuple[int, str, str], Statistic]:
    """Return what the roll-up should hold for each span that is over, read row by row from the history."""

    def read(tx: Tx) -> tuple[list[Any], set[tuple[str, int]]]:
        deaths = select(audit.c.object_id, audit.c.at).where(audit.c.verb == "dead")
        return list(tx.connection.execute(select(runs))), {tuple(row) for row in tx.connection.execute(deaths)}

    rows, deaths = store.read(read)
    grouped: dict[tuple[int, str, str], list[Any]] = defaultdict(list)
    for row in rows:
        at = row.finished_at // LENGTHS[grain] * LENGTHS[grain]
        if at + LENGTHS[grain] > until:
            continue
        if row.queue == "horae":
            grouped[at, "queue", "horae"].append(row)
            continue
        for scope, name in (("total", ""), ("queue", row.queue), ("handler", row.handler), ("owner", row.owner)):
            grouped[at, scope, name].append(row)
    found = {key: _figures(rows, deaths) for key, rows in grouped.items()}
    for (at, scope, name), figures in list(found.items()):
        if (scope, name) == ("queue", "horae"):
            found.setdefault((at, "total", ""), Statistic()).seen += figures.seen
    return found


def _figures(rows: list[Any], deaths: set[tuple[str, int]]) -> Statistic:
    outcomes = [row.outcome for row in rows]
    timed = [row for row in rows if row.outcome in TIMED and row.started_at is not None]
    durations = [row.finished_at - row.started_at for row in timed]
    delays = [row.started_at - row.run_at for row in timed if row.run_at is not None]
    failures = [row for row in rows if row.state is None and row.outcome in ("failed", "timed_out", "lost")]
    dead = sum((f"job_{row.job_id}", row.finished_at) in deaths for row in failures)
    return Statistic(
        len(rows), len(rows), outcomes.count("succeeded"), outcomes.count("failed") + outcomes.count("timed_out"),
        len(failures) - dead, dead, sum(row.state == "cancelled" for row in rows), outcomes.count("lost"),
        sum(row.state is not None and row.attempt > 0 for row in rows), sum(durations), sum(delays),
        histogram(timedelta(microseconds=span) for span in durations),
        histogram(timedelta(microseconds=span) for span in delays),
    )  # fmt: skip


def rolled_up(store: Store, grain: str) -> dict[tuple[int, str, str], Statistic]:
    """Return what the roll-up holds."""

    def read(tx: Tx) -> dict[tuple[int, str, str], Statistic]:
        length = LENGTHS[grain]
        return {
            (at, scope, name): figures
            for at in tx.statistics.starts(grain, 0, 2**62)  # type: ignore[arg-type]
            for marginals in tx.statistics.marginals(grain, at, at + length)
            for (scope, name), figures in marginals.items()
            if scope in SCOPES
        }

    return store.read(read)
