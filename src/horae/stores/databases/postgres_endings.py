"""The ends of attempts on PostgreSQL: a batch in one statement, each behind the fence of its token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import psycopg

from horae.core.jobs.job import Settlement
from horae.core.time.instants import micros
from horae.stores.databases.arrays import arrays
from horae.stores.databases.bulk import type_of, unnested
from horae.stores.jobs.endings import are_alike
from horae.stores.tables.jobs import ATTEMPT, ENDING, SNAPSHOT, ending_row, runs

_ENDED = (*ENDING, "state")  # what an ending says beyond whose it is
_ENDINGS = (
    f"ended AS MATERIALIZED (SELECT * FROM unnest({unnested(runs, ('job_id', 'token', *_ENDED))}) "
    f"AS e (id, token, {', '.join(_ENDED)}))"
)
_RUN_COLUMNS = ", ".join(("job_id", "token", *ATTEMPT, *_ENDED, "finished_at"))
_COPIED = ", ".join((*ATTEMPT, *SNAPSHOT))


def _listed(prefix: str, names: Iterable[str]) -> str:
    return ", ".join(f"{prefix}{name}" for name in names)


# Ends a batch in one statement: fenced delete of the jobs, feeding their final run rows; tells which were accepted.
# The lateral lookup and `= ANY(ARRAY(…))` leave the planner no choice but the primary key; as a plain join it read the
# whole table, or compared every ending with every job. For the same reason the state is compared as an expression:
# the planner must not scan the index of leases, full of dead entries, to find one job by its number.
_HELD = "state || '' = 'running' AND linked = 0"
FINISH = (
    f"WITH {_ENDINGS}, held AS MATERIALIZED (SELECT j.*, {_listed('e.', _ENDED)} FROM ended e "
    f"CROSS JOIN LATERAL (SELECT id, token, {_COPIED} FROM horae_jobs WHERE id = e.id "
    f"AND token = e.token AND {_HELD} FOR UPDATE) j), "
    "gone AS (DELETE FROM horae_jobs WHERE id = ANY(ARRAY(SELECT id FROM held))) "
    f"INSERT INTO horae_runs ({_RUN_COLUMNS}, {', '.join(SNAPSHOT)}) SELECT id, token, {', '.join(ATTEMPT)}, "
    f"{', '.join(_ENDED)}, %s::bigint, {', '.join(SNAPSHOT)} FROM held RETURNING job_id"
)
# The same for a batch in which all ended alike and have the same token, as most do: no row of endings to be read, no
# second lookup, and no lock beside the delete. The answer is one row, which names the accepted only if not all were.
FINISH_ALIKE = (
    f"WITH gone AS (DELETE FROM horae_jobs WHERE id = ANY(%s::bigint[]) AND token = %s::bigint AND {_HELD} "
    f"RETURNING id, token, {_COPIED}), "
    f"written AS (INSERT INTO horae_runs ({_RUN_COLUMNS}, {', '.join(SNAPSHOT)}) SELECT id, token, "
    f"{', '.join(ATTEMPT)}, {', '.join(f'%s::{type_of(runs.c[name])}' for name in _ENDED)}, %s::bigint, "
    f"{', '.join(SNAPSHOT)} FROM gone RETURNING job_id) "
    "SELECT CASE WHEN count(*) < %s THEN coalesce(array_agg(job_id), '{}') END FROM written"
)


def _write_run(final: bool) -> str:
    names, source = ("", "") if not final else (", " + ", ".join(SNAPSHOT), ", " + _listed("j.", SNAPSHOT))
    return (
        f"WITH {_ENDINGS} INSERT INTO horae_runs ({_RUN_COLUMNS}{names}) SELECT j.id, j.token, "
        f"{_listed('j.', ATTEMPT)}, {_listed('e.', _ENDED)}, %s::bigint{source} "
        "FROM ended e CROSS JOIN LATERAL (SELECT * FROM horae_jobs WHERE id = e.id OFFSET 0) j"
    )


WRITE_RUN = {final: _write_run(final) for final in (True, False)}


def write_runs(settlements: Iterable[Settlement], now: datetime, *, final: bool) -> tuple[str, list[Any]]:
    """Return the statement that writes the runs of these endings, and its parameters."""
    rows = ((s.number, s.token, *ending_row(s), s.change.state if final else None) for s in settlements)
    return WRITE_RUN[final], [*arrays(rows), micros(now)]


def finish(connection: psycopg.Connection[Any], settlements: Sequence[Settlement], now: datetime) -> set[int]:
    """End a batch of plain endings; return the numbers of those that were not accepted."""
    numbers, first = {s.number for s in settlements}, settlements[0]
    if are_alike(settlements):
        ids = "{" + ",".join(map(str, numbers)) + "}"
        ending = (first.token, *ending_row(first), first.change.state)
        parameters = [ids, *ending, micros(now), len(numbers)]
        [(accepted,)] = connection.execute(FINISH_ALIKE, parameters, prepare=True).fetchall()
        return set() if accepted is None else numbers.difference(accepted)
    once = {(s.number, s.token): s for s in settlements}.values()
    rows = ((s.number, s.token, *ending_row(s), s.change.state) for s in once)
    answer = connection.execute(FINISH, [*arrays(rows), micros(now)], prepare=True).fetchall()
    return numbers.difference([number for (number,) in answer])
