"""Procrastinate with psycopg; a short poll, because its default of five seconds would not be a contest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.contenders import POLL, Record, Until

CONCURRENCY = 50
CHUNK = 1000


class Contender:
    def __init__(self, url: str) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        package = import_module("procrastinate")
        self.app = package.App(connector=package.PsycopgConnector(conninfo=url.replace("+psycopg", "")))
        self.record: Record = lambda at: None
        self.runner = asyncio.Runner()
        self.is_open = False

        @self.app.task(name="touch")  # type: ignore[untyped-decorator]
        async def touch(at: float) -> None:
            self.record(at)

        self.touch = touch

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """With a pool that stays open, so that connecting is not measured."""

        async def opened() -> None:
            if not self.is_open:
                await self.app.open_async()
                self.is_open = True
            await work()

        self.runner.run(opened())

    def prepare(self) -> None:
        self._run(self.app.schema_manager.apply_schema_async)

    def bulk(self, count: int, at: float) -> None:
        deferrer = self.touch.configure(schedule_at=datetime.fromtimestamp(at, UTC)) if at else self.touch

        async def in_chunks() -> None:
            for start in range(0, count, CHUNK):
                await deferrer.batch_defer_async(*[{"at": at}] * min(CHUNK, count - start))

        self._run(in_chunks)

    def singles(self, times: list[float]) -> None:
        async def one_by_one() -> None:
            for at in times:
                deferrer = self.touch.configure(schedule_at=datetime.fromtimestamp(at, UTC)) if at else self.touch
                await deferrer.defer_async(at=at)

        self._run(one_by_one)

    def serve(self, record: Record, until: Until) -> float | None:
        self.record = record

        async def work() -> None:
            serving = asyncio.create_task(
                self.app.run_worker_async(
                    concurrency=CONCURRENCY, fetch_job_polling_interval=0.05, install_signal_handlers=False
                )
            )
            while not until() and not serving.done():
                await asyncio.sleep(POLL)
            serving.cancel()
            await asyncio.wait([serving])

        self._run(work)
        return None
