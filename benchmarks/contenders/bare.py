"""The bare driver: what the database itself allows. Claim a batch with a lease, delete it, write one history row each.

No handlers, no values, no checks: the ceiling, not a queue.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import psycopg

from benchmarks.contenders import Record, Until

BATCH = 500
TABLES = (
    "CREATE TABLE bare (id {serial}, queue text NOT NULL, state text NOT NULL, due bigint NOT NULL, token bigint NOT "
    "NULL DEFAULT 0, worker text, leased_until bigint, payload text NOT NULL){options}",
    "CREATE INDEX bare_waiting ON bare (queue, due, id) WHERE state = 'queued'",
    "CREATE TABLE bare_history (job bigint, token bigint, outcome text, worker text, payload text, finished bigint)",
)


class Postgres:
    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self.url, autocommit=True)
        connection.execute("SET plan_cache_mode = force_generic_plan")
        return connection

    def prepare(self) -> None:
        with self._connect() as connection:
            for sql in TABLES:
                ddl = sql.format(serial="bigserial PRIMARY KEY", options=" WITH (fillfactor = 70)")
                connection.execute(ddl.encode())

    def bulk(self, count: int, at: float) -> None:
        rows = "{" + ",".join(['"{\\"at\\": 0}"'] * count) + "}"
        with self._connect() as connection:
            connection.execute(
                "INSERT INTO bare (queue, state, due, payload) SELECT 'q', 'queued', %s, p FROM unnest(%s::text[]) p "
                "RETURNING id",
                [int(at * 1e6), rows],
            ).fetchall()

    def singles(self, times: list[float]) -> None:
        sql = "INSERT INTO bare (queue, state, due, payload) VALUES ('q', 'queued', %s, %s) RETURNING id"
        with self._connect() as connection:
            for at in times:
                connection.execute(sql, [int(at * 1e6), '{"at": 0}'], prepare=True).fetchone()

    def serve(self, record: Record, until: Until) -> float | None:
        claim = (
            "UPDATE bare SET state = 'running', token = token + 1, worker = 'w', leased_until = %s WHERE id = ANY("
            "ARRAY(SELECT id FROM bare WHERE queue = 'q' AND state = 'queued' AND due <= %s ORDER BY due, id "
            f"LIMIT {BATCH} FOR UPDATE SKIP LOCKED)) RETURNING id, token, payload"
        )
        finish = (
            "WITH gone AS (DELETE FROM bare WHERE id = ANY(%s::bigint[]) AND state || '' = 'running' RETURNING *) "
            "INSERT INTO bare_history SELECT id, token, 'ok', worker, payload, %s FROM gone RETURNING job"
        )
        with self._connect() as connection:
            while not until():
                now = int(time.time() * 1e6)
                rows = connection.execute(claim, [now + 30_000_000, now], prepare=True).fetchall()
                if rows:
                    numbers = "{" + ",".join([str(row[0]) for row in rows]) + "}"
                    connection.execute(finish, [numbers, now], prepare=True).fetchall()
                    for _ in rows:
                        record(0.0)
        return None


class Sqlite:
    def __init__(self, url: str) -> None:
        self.path = url.removeprefix("sqlite:///")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def prepare(self) -> None:
        connection = self._connect()
        for sql in TABLES:
            connection.execute(sql.format(serial="integer PRIMARY KEY AUTOINCREMENT", options=""))
        connection.close()

    def bulk(self, count: int, at: float) -> None:
        connection = self._connect()
        connection.execute("BEGIN IMMEDIATE")
        sql = "INSERT INTO bare (queue, state, due, payload) VALUES ('q', 'queued', ?, ?)"
        connection.executemany(sql, [(int(at * 1e6), '{"at": 0}')] * count)
        connection.execute("COMMIT")
        connection.close()

    def singles(self, times: list[float]) -> None:
        connection = self._connect()
        sql = "INSERT INTO bare (queue, state, due, payload) VALUES ('q', 'queued', ?, ?)"
        for at in times:
            connection.execute(sql, (int(at * 1e6), '{"at": 0}'))
        connection.close()

    def serve(self, record: Record, until: Until) -> float | None:
        connection = self._connect()
        claim = (
            "UPDATE bare SET state = 'running', token = token + 1, worker = 'w', leased_until = ? WHERE id IN ("
            f"SELECT id FROM bare WHERE queue = 'q' AND state = 'queued' AND due <= ? ORDER BY due, id LIMIT {BATCH}) "
            "RETURNING id, token, payload"
        )
        history = "INSERT INTO bare_history SELECT id, token, 'ok', worker, payload, ? FROM bare WHERE id = ?"
        while not until():
            now = int(time.time() * 1e6)
            connection.execute("BEGIN IMMEDIATE")
            rows = connection.execute(claim, (now + 30_000_000, now)).fetchall()
            connection.execute("COMMIT")
            if rows:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(history, [(now, row[0]) for row in rows])
                connection.executemany("DELETE FROM bare WHERE id = ? AND token = ?", [row[:2] for row in rows])
                connection.execute("COMMIT")
                for _ in rows:
                    record(0.0)
        connection.close()
        return None
