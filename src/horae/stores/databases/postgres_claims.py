"""Claims on PostgreSQL: one statement takes what needs no further question, with SKIP LOCKED."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any

import psycopg

from horae.core.jobs.job import OPEN_HANDLERS, PRIORITIES, Job, Order
from horae.core.time.instants import micros
from horae.ports.claims import Claim
from horae.stores.databases.dialects import POSTGRES
from horae.stores.databases.hot import BANDS
from horae.stores.jobs.claimed import RARE, USUAL, Row, has_rare, read_claimed
from horae.stores.jobs.hints import HEAD
from horae.stores.tables.jobs import JOBS

CLAIM_SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
# Which candidates a claim may take as they are. A system job is decided by its own row; only a tenant's asks further,
# and draws on the budget of its handler, which the longer way writes into its row.
ADMITTED = (
    "concurrency_key IS NULL AND (owner = 'system' OR "
    "COALESCE((SELECT d.tenants = 1 AND d.budget IS NULL FROM horae_definitions d "
    f"WHERE d.name = handler), handler IN ({', '.join(map(repr, OPEN_HANDLERS))})) AND NOT EXISTS ("
    "SELECT 1 FROM horae_quiet_owners q WHERE q.owner = c.owner AND (q.quiet_until > %s OR q.quiet_at <= %s)))"
)


# What a claim returns; it knows itself what else it has written. Of forty columns most jobs leave thirty as they were:
# then these are not sent, and one condition says so. The planner makes a plain test of each column of it.
_HAS_RARE = f"(linked <> 0 OR NOT (ROW({', '.join(RARE)}) IS NULL))"
_ALL, _BRIEF = JOBS.sql(POSTGRES, (*USUAL, *RARE)), f"{JOBS.sql(POSTGRES, USUAL)}, {_HAS_RARE}"
_WIDTHS = {_ALL: len(USUAL) + len(RARE), _BRIEF: len(USUAL) + 1}
_TOKEN, _BAND, _RUN_AT = map(USUAL.index, ("token", "band", "run_at"))
# How rows are sorted as :func:`in_order` sorts jobs; the number of a job stands first.
_BY_PRIORITY, _BY_RUN_AT = itemgetter(_BAND, _RUN_AT, 0), itemgetter(_RUN_AT, _BAND, 0)


CANDIDATE = "ctid AS at, id, concurrency_key, run_at, band, owner, handler"
LIMITED = "EXISTS (SELECT 1 FROM horae_limits WHERE name IN ('global', 'queue:' || %s) OR name LIKE 'group:%%')"


@lru_cache(maxsize=64)
def claim_sql(order: str | None, limit: int, fair: bool = False, returned: str = _BRIEF) -> str:
    """Return the SQL of one claim, band by band, in one statement.

    The inner limit is a literal, so that the planner trusts the index; the outer one is exact, so that no more rows are
    locked than are claimed.

    A queue with settings of its own, a candidate with a concurrency key, or a tenant's job whose handler is not open
    or has a budget, needs the longer way: then a row without a number is returned, and no such job has been changed.

    Picked rows are locked, so they are found again by where they lie. One that was changed since the statement began
    is not seen there: it stays as it is, and is due for the next claim.
    """
    special = "paused_at IS NOT NULL OR quiet_at <= %s" + ("" if fair else " OR fair IS NOT NULL")
    special += "" if order else " OR sorting <> 'priority'"
    arms = " UNION ALL ".join(
        f"SELECT * FROM (SELECT {CANDIDATE} FROM horae_jobs WHERE (SELECT ok FROM plain) "
        f"AND queue = %s AND state = 'queued' AND held = '' AND band = {band} AND run_at <= %s "
        f"AND (run_at, id) > (%s, %s) ORDER BY run_at, id LIMIT {limit} FOR UPDATE SKIP LOCKED) b{band}"
        for band in BANDS
    )
    sorting = " ORDER BY run_at, band, id" if order == "run_at" else ""
    return _claiming(special, f"SELECT at, {ADMITTED} AS admitted FROM ({arms}) c{sorting} LIMIT %s", returned)


@lru_cache(maxsize=2)
def turns_sql(returned: str) -> str:
    """Return the SQL of a claim in turns: so many jobs of each owner, and jobs of the house by their numbers."""
    due = "queue = %s AND state = 'queued' AND held = '' AND run_at <= %s"
    arms = " UNION ALL ".join(
        f"SELECT * FROM (SELECT {CANDIDATE} FROM horae_jobs WHERE (SELECT ok FROM plain) "
        f"AND owner = o.name AND owner <> 'system' AND band = {band} AND {due} "
        f"ORDER BY run_at, id LIMIT o.most FOR UPDATE SKIP LOCKED) b{band}"
        for band in BANDS
    )
    # Compared so that no index but the primary key serves (docs/decisions/0022-plans-along-the-index.md).
    house = (
        f"SELECT {CANDIDATE} FROM horae_jobs WHERE (SELECT ok FROM plain) AND id = ANY(%s::bigint[]) "
        "AND queue || '' = %s AND state || '' = 'queued' AND held || '' = '' AND run_at <= %s"
    )
    picked = (
        f"SELECT c.* FROM unnest(%s::text[], %s::int[]) o (name, most) "
        f"CROSS JOIN LATERAL (SELECT * FROM ({arms}) a LIMIT o.most) c "
        f"UNION ALL SELECT * FROM ({house} FOR UPDATE SKIP LOCKED) h"
    )
    special = "paused_at IS NOT NULL OR quiet_at <= %s OR fair IS NULL OR sorting <> 'priority'"
    return _claiming(special, f"SELECT at, {ADMITTED} AS admitted FROM ({picked}) c", returned)


def _claiming(special: str, picked: str, returned: str) -> str:
    return (
        f"WITH plain AS MATERIALIZED (SELECT NOT EXISTS (SELECT 1 FROM horae_queues WHERE name = %s AND ({special})) "
        f"AND NOT {LIMITED} AS ok), "
        f"picked AS MATERIALIZED ({picked}), "
        "taken AS (UPDATE horae_jobs SET state = 'running', token = token + 1, worker_id = %s, leased_until = %s, "
        "started_at = %s WHERE ctid = ANY(ARRAY(SELECT at FROM picked WHERE admitted)) "
        f"RETURNING {returned}) SELECT taken.* FROM taken UNION ALL "
        f"SELECT {', '.join(['NULL'] * _WIDTHS[returned])} WHERE NOT (SELECT ok FROM plain) "
        "OR EXISTS (SELECT 1 FROM picked WHERE NOT admitted)"
    )


ReadAgain = Callable[[list[int]], list[Row]]


class Claims:
    """Claims in one statement: what is usual is read at once, what few jobs have is read again where one has it.

    The next claim of a queue begins with what the last one needed, so that jobs that all have a tag are not read twice
    each time.
    """

    def __init__(self) -> None:
        self._rare: set[str] = set()  # queues whose last claim met something rare; a wrong guess is a second reading

    def take(
        self,
        connection: psycopg.Connection[Any],
        claim: Claim,
        now: datetime,
        starts: Sequence[tuple[int, int]],
        fair: bool = False,
    ) -> tuple[list[Row], bool]:
        """Claim in one statement; return the rows, and whether others need the longer way."""
        size = next((size for size in CLAIM_SIZES if size >= claim.limit), CLAIM_SIZES[-1])
        at, queue = micros(now), claim.queue
        bands = [value for start in starts or [HEAD] * len(BANDS) for value in (queue, at, *start)]
        parameters = [queue, at, queue, at, at, *bands, min(claim.limit, size), *_written(claim, now)]
        sql = claim_sql(claim.order, size, fair, self._columns(queue))
        rows = connection.execute(sql, parameters, prepare=True).fetchall()
        special = _take_mark(rows)
        rows.sort(key=_BY_RUN_AT if claim.order == "run_at" else _BY_PRIORITY)  # before a job is made of each: a third
        return rows, special

    def take_turns(
        self,
        connection: psycopg.Connection[Any],
        claim: Claim,
        now: datetime,
        given: Mapping[str, int],
        house: Sequence[int],
    ) -> tuple[list[Row], bool]:
        """Claim jobs of the owners whose turn it is; return the rows, and whether others need the longer way."""
        at, queue = micros(now), claim.queue
        owners, due = (list(given), list(given.values())), [queue, at] * len(BANDS)
        parameters = [queue, at, queue, at, at, *owners, *due, list(house), queue, at, *_written(claim, now)]
        rows = connection.execute(turns_sql(self._columns(queue)), parameters, prepare=True).fetchall()
        return rows, _take_mark(rows)

    def _columns(self, queue: str) -> str:
        return _ALL if queue in self._rare else _BRIEF

    def make_jobs(self, rows: list[Row], claim: Claim, now: datetime, read_again: ReadAgain) -> list[Job]:
        """Make jobs of claimed rows; *read_again* reads those that have something rare about them, by number.

        One that was lost meanwhile is left out.
        """
        if rows and len(rows[0]) == _WIDTHS[_ALL]:
            if not any(map(has_rare, rows)):
                self._rare.discard(claim.queue)
        elif tokens := {row[0]: row[_TOKEN] for row in rows if row[-1]}:
            self._rare.add(claim.queue)
            held = {row[0]: row for row in read_again(list(tokens)) if row[_TOKEN] == tokens[row[0]]}
            rows = [held[row[0]] if row[-1] else row for row in rows if not row[-1] or row[0] in held]
        return read_claimed(rows, claim.queue, *_written(claim, now))


def read_again(connection: psycopg.Connection[Any], numbers: list[int]) -> list[Row]:
    """Read all columns of claimed jobs."""
    return connection.execute(_AGAIN, [numbers], prepare=True).fetchall()


_AGAIN = f"SELECT {_ALL} FROM horae_jobs WHERE id = ANY(%s::bigint[])"


def _written(claim: Claim, now: datetime) -> tuple[str, int, int]:
    """Return what a claim writes: by whom, until when, and since when."""
    return claim.worker_id, micros(claim.until(now)), micros(now)


def _take_mark(rows: list[Row]) -> bool:
    """Remove the row without a number; return whether it was there."""
    is_marked = bool(rows) and rows[-1][0] is None
    if is_marked:
        rows.pop()
    return is_marked


def in_order(jobs: Sequence[Job], order: Order | None) -> list[Job]:
    """Sort claimed jobs as their queue serves them; a queue with an order of its own never comes here."""

    def sort_key(job: Job) -> tuple[Any, ...]:
        band = PRIORITIES.index(job.priority)
        return (job.run_at, band, job.number) if order == "run_at" else (band, job.run_at, job.number)

    return sorted(jobs, key=sort_key)
