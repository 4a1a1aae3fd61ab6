"""Answers to jobs in other shards that wait for a job of this database.

A row of ``horae_asks`` says that a job elsewhere waits for one here. Its state is a work list, as that of needs is:

    open      the job lives; its row is marked, so that the transaction that ends it comes here
    ended     something became of it, and the answer is still to be written
    told      the answer was written; kept, because a dead job may be revived and a cancelled one brought back

An answer says how the job stands at the moment of writing. The transaction that ends a job writes up to ``INLINE`` of
them; what delivers messages writes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from horae.core.cluster.messages import HINT, LIVE, UNKNOWN, UNPLACED, Answer, Kind
from horae.core.cluster.numbers import FIRST_NUMBER, vshard_in
from horae.core.time.instants import micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks

ASKED = 2  # beside 1 in the column `linked` of a job: jobs elsewhere ask about it
INLINE = 100
CHUNK = 500
Row = tuple[Any, ...]  # of horae_asks: needed_id, job_id, version

SEND = (
    "INSERT INTO horae_messages (kind, sender, receiver, vshard, version, content, created_at, due_at, tries) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 0) ON CONFLICT (kind, sender, receiver) DO UPDATE SET "
    "version = excluded.version, content = excluded.content, due_at = excluded.due_at, tries = 0 "
    "WHERE horae_messages.version <= excluded.version"
)


def numbered_in_cluster(numbers: Iterable[int]) -> list[int]:
    """Return those that a cluster has numbered: a single database has none, and asks nothing about them."""
    return [number for number in numbers if number >= FIRST_NUMBER]


def send(
    driver: Driver,
    kind: Kind,
    sender: int,
    receiver: int,
    version: int,
    content: str,
    now: datetime,
    *,
    vshard: int | None = None,
) -> None:
    """Write a message in this transaction; it replaces an older one of the same two that was not delivered yet.

    A job's number carries its virtual shard, that of a schedule does not.
    """
    at, known = micros(now), vshard_in(receiver) if vshard is None else vshard
    place = UNPLACED if known is None else known
    driver.change(SEND, [kind, sender, receiver, place, version, content, at, at])


class Asks:
    """The flows; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def tell(self, driver: Driver, numbers: Sequence[int], now: datetime) -> set[str]:
        """Answer those who asked about jobs that have ended or live again; return hints."""
        if not numbers:
            return set()
        there = f"needed_id IN ({marks(len(numbers))})"
        if not driver.change(f"UPDATE horae_asks SET state = 'ended' WHERE {there}", numbers):
            return set()
        self.write_answers(driver, self._lock(driver, f"AND {there}", [*numbers, INLINE]), now)
        return {HINT}

    def settle_left(self, driver: Driver, now: datetime, limit: int) -> int:
        """Write answers that were left to be written; return how many."""
        found = driver.rows("SELECT DISTINCT needed_id FROM horae_asks WHERE state = 'ended' LIMIT %s", [limit])
        if not found:
            return 0
        listed, parents = marks(len(found)), sorted(row[0] for row in found)
        # Jobs before asks, as all others lock them.
        driver.rows(
            f"SELECT id FROM horae_jobs WHERE id IN ({listed}) ORDER BY id{self._dialect.waiting_lock}", parents
        )
        rows = self._lock(driver, f"AND needed_id IN ({listed})", [*parents, limit])
        self.write_answers(driver, rows, now)
        return len(rows)

    def find_lost(self, driver: Driver) -> int:
        """Mark asks about jobs that have ended, or live again, without an answer: a safety net."""
        lives = "EXISTS (SELECT 1 FROM horae_jobs WHERE id = needed_id AND state IN ('queued', 'running'))"
        return driver.change(
            f"UPDATE horae_asks SET state = 'ended' WHERE (state = 'open' AND NOT {lives}) "
            f"OR (state = 'told' AND {lives})"
        )

    def keep(self, driver: Driver, child: int, parent: int, known: int, now: datetime, *, is_live: bool) -> None:
        """Note that a job elsewhere waits for one here, which is locked; answer at once unless it lives.

        *known* is the version of the last answer that the child has; a child that asks again gets a later one.
        """
        state = "open" if is_live and not known else "ended"
        driver.change(
            "INSERT INTO horae_asks (needed_id, job_id, state, version, created_at) VALUES (%s, %s, %s, %s, %s) "
            "ON CONFLICT (needed_id, job_id) DO UPDATE SET "
            "state = CASE WHEN horae_asks.version > 0 THEN 'ended' ELSE excluded.state END, "
            "version = CASE WHEN horae_asks.version > excluded.version THEN horae_asks.version "
            "ELSE excluded.version END",
            [parent, child, state, known, micros(now)],
        )
        driver.change(f"UPDATE horae_jobs SET linked = linked | {ASKED} WHERE id = %s", [parent])
        own = "AND needed_id = %s AND job_id = %s"
        self.write_answers(driver, self._lock(driver, own, [parent, child, 1]), now)

    def write_answers(self, driver: Driver, rows: Sequence[Row], now: datetime) -> None:
        """Write to each who asked how the job stands; forget those for whom nothing can follow."""
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            known = self.look_up(driver, sorted({row[0] for row in chunk}))
            for parent, child, version in chunk:
                self._write(driver, parent, child, version, known.get(parent, Answer(UNKNOWN)), now)

    def _write(self, driver: Driver, parent: int, child: int, version: int, answer: Answer, now: datetime) -> None:
        is_news = answer.state != LIVE or version > 0  # without an answer a child takes its parent to be alive
        if is_news:
            send(driver, "answer", parent, child, version + 1, answer.as_text(), now)
        own = "WHERE needed_id = %s AND job_id = %s"
        if answer.is_final:
            driver.change(f"DELETE FROM horae_asks {own}", [parent, child])
            return
        state = "open" if answer.state == LIVE else "told"
        driver.change(
            f"UPDATE horae_asks SET state = %s, version = %s {own}", [state, version + is_news, parent, child]
        )
        driver.change(f"UPDATE horae_jobs SET linked = linked | {ASKED} WHERE id = %s", [parent])

    def look_up(self, driver: Driver, numbers: Sequence[int]) -> dict[int, Answer]:
        """Return how jobs of this database stand; what it does not know is missing."""
        listed, result = marks(len(numbers)), self._dialect.json_as_text.format("result")
        final = f"SELECT job_id, state, handler, {result}, error FROM horae_runs WHERE job_id IN ({listed}) "
        found = {row[0]: Answer(*row[1:]) for row in driver.rows(final + "AND state IS NOT NULL", numbers)}
        sql = f"SELECT id, state, handler, last_error FROM horae_jobs WHERE id IN ({listed})"
        for number, state, handler, error in driver.rows(sql, numbers):
            found[number] = Answer("dead", handler, None, error) if state == "dead" else Answer(LIVE)
        return found

    def _lock(self, driver: Driver, narrowed: str, parameters: Sequence[Any]) -> list[Row]:
        sql = f"SELECT needed_id, job_id, version FROM horae_asks WHERE state = 'ended' {narrowed} "
        return driver.rows(f"{sql}ORDER BY needed_id, job_id LIMIT %s{self._dialect.waiting_lock}", parameters)
