"""PgQueuer with the asyncpg driver and its best batch size on this kind of machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from importlib import import_module
from typing import Any

from benchmarks.contenders import POLL, Record, Until

BATCH = 1000


class Contender:
    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")
        self.asyncpg = import_module("asyncpg")
        self.queries = import_module("pgqueuer.queries").Queries
        self.manager = import_module("pgqueuer.qm").QueueManager
        self.runner = asyncio.Runner()
        self.connection: Any = None

    def _run(self, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """On a connection that stays open, so that connecting is not measured."""

        async def on_connection() -> None:
            self.connection = self.connection or await self.asyncpg.connect(self.url)
            await work(self.queries.from_asyncpg_connection(self.connection))

        self.runner.run(on_connection())

    def prepare(self) -> None:
        self._run(lambda queries: queries.install())

    def bulk(self, count: int, at: float) -> None:
        payloads: list[bytes] = [repr(at).encode()] * count
        wait = timedelta(seconds=max(0.0, at - time.time())) if at else None
        self._run(lambda queries: queries.enqueue(["touch"] * count, payloads, [0] * count, [wait] * count))

    def singles(self, times: list[float]) -> None:
        async def one_by_one(queries: Any) -> None:
            for at in times:
                wait = timedelta(seconds=max(0.0, at - time.time())) if at else None
                await queries.enqueue("touch", repr(at).encode(), execute_after=wait)

        self._run(one_by_one)

    def serve(self, record: Record, until: Until) -> float | None:
        async def work(queries: Any) -> None:
            manager = self.manager(queries)

            @manager.entrypoint("touch")  # type: ignore[untyped-decorator]
            async def touch(job: Any) -> None:
                record(float(job.payload))

            serving = asyncio.create_task(manager.run(batch_size=BATCH))
            while not until() and not serving.done():
                await asyncio.sleep(POLL)
            manager.shutdown.set()
            await serving

        self._run(work)
        return None
