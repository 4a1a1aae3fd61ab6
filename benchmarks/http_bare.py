"""The least that an HTTP server with a database does: Starlette, one statement a request, committed.

``python -m benchmarks.http_bare URL`` prints its port as JSON. No tokens, no checks, no quotas: what to reach for.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.contenders.bare import Postgres, Sqlite
from horae.server.socket import listen

THREADS = 8
LEASE = 120_000_000  # microseconds
ONE = "INSERT INTO bare (queue, state, due, payload) VALUES ('q', 'queued', {0}, {0}) RETURNING id"
MANY = "INSERT INTO bare (queue, state, due, payload) SELECT 'q', 'queued', 0, %s FROM generate_series(1, %s)"
CLAIM = (
    "UPDATE bare SET state = 'running', token = token + 1, worker = 'w', leased_until = {0} WHERE id IN (SELECT id "
    "FROM bare WHERE queue = 'q' AND state = 'queued' AND due <= {0} ORDER BY due, id LIMIT {0} {1}) "
    "RETURNING id, token, payload"
)
ENDED = "DELETE FROM bare WHERE id {0} AND state = 'running' RETURNING id, token, worker, payload"
KEPT = "INSERT INTO bare_history (job, token, outcome, worker, payload, finished) VALUES (?, ?, 'ok', ?, ?, 0)"
Jobs = list[dict[str, Any]]


class PostgresTables:
    """Each thread has a connection of its own, in autocommit, with prepared statements."""

    def __init__(self, url: str) -> None:
        Postgres(url).prepare()
        self._url, self._own = url.replace("+psycopg", ""), threading.local()

    def _run(self, sql: str, values: list[Any]) -> list[Any]:
        if not hasattr(self._own, "connection"):
            self._own.connection = psycopg.connect(self._url, autocommit=True)
        rows: list[Any] = self._own.connection.execute(sql, values, prepare=True).fetchall()
        return rows

    def insert(self, payload: str) -> int:
        return int(self._run(ONE.format("%s"), [_now(), payload])[0][0])

    def sow(self, payload: str, count: int) -> None:
        self._run(MANY + " RETURNING id", [payload, count])

    def claim(self, limit: int) -> list[Any]:
        return self._run(CLAIM.format("%s", "FOR UPDATE SKIP LOCKED"), [_now() + LEASE, _now(), limit])

    def settle(self, numbers: list[int]) -> None:
        sql = f"WITH gone AS ({ENDED.format('= ANY(%s)')}) INSERT INTO bare_history SELECT id, token, 'ok', worker, "
        self._run(sql + "payload, 0 FROM gone RETURNING job", [numbers])


class SqliteTables:
    """One connection behind a lock, as the file has one writer."""

    def __init__(self, url: str) -> None:
        Sqlite(url).prepare()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            url.removeprefix("sqlite:///"), check_same_thread=False, isolation_level=None
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def _write(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            found = work(self._connection)
            self._connection.execute("COMMIT")
            return found

    def insert(self, payload: str) -> int:
        return int(self._write(lambda tx: tx.execute(ONE.format("?"), [_now(), payload]).fetchone()[0]))

    def sow(self, payload: str, count: int) -> None:
        self._write(lambda tx: tx.executemany(ONE.format("?").partition(" RETURNING")[0], [(0, payload)] * count))

    def claim(self, limit: int) -> list[Any]:
        values = [_now() + LEASE, _now(), limit]
        found: list[Any] = self._write(lambda tx: tx.execute(CLAIM.format("?", ""), values).fetchall())
        return found

    def settle(self, numbers: list[int]) -> None:
        sql = ENDED.format(f"IN ({', '.join('?' * len(numbers))})")
        self._write(lambda tx: tx.executemany(KEPT, tx.execute(sql, numbers).fetchall()))


def _now() -> int:
    return int(time.time() * 1e6)


def application(url: str) -> Starlette:
    tables = PostgresTables(url) if url.startswith("postgres") else SqliteTables(url)
    threads = ThreadPoolExecutor(THREADS)

    async def on_thread(work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, work, *given)

    async def enqueue(request: Request) -> Response:
        number = await on_thread(tables.insert, json.dumps(json.loads(await request.body())["payload"]))
        return answer({"id": f"job_{number}", "state": "queued"}, 201)

    async def batch(request: Request) -> Response:
        await on_thread(tables.sow, '{"image": 7}', len(json.loads(await request.body())["jobs"]))
        return answer({}, 201)

    async def claim(request: Request) -> Response:
        rows = await on_thread(tables.claim, json.loads(await request.body())["limit"])
        return answer({"items": [{"id": f"job_{row[0]}", "token": row[1], "payload": row[2]} for row in rows]})

    async def settle(request: Request) -> Response:
        endings: Jobs = json.loads(await request.body())["endings"]
        await on_thread(tables.settle, [int(each["job_id"][4:]) for each in endings])
        return answer({"items": [{"job_id": each["job_id"], "accepted": True} for each in endings]})

    doors = {"/jobs": enqueue, "/jobs/batch": batch, "/jobs/claim": claim, "/jobs/settle": settle}
    return Starlette(routes=[Route(path, door, methods=["POST"]) for path, door in doors.items()])


def answer(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")


def main() -> None:
    listening = listen("127.0.0.1", 0)
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
    config = uvicorn.Config(application(sys.argv[1]), log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
