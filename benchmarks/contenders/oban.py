"""Oban for Python, with as many slots on one queue as Horae has. It needs Python 3.12."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.contenders import POLL, Record, Until

SLOTS = int(os.environ.get("HORAE_BENCH_SLOTS", "500"))


class Contender:
    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")
        self.package = import_module("oban")
        self.runner = asyncio.Runner()
        self.pool: Any = None
        self.client: Any = None
        self.record: Record = lambda at: None
        contender = self

        @self.package.worker(queue="default")
        class Touch:
            async def process(self, job: Any) -> None:
                contender.record(job.args["at"])

        self.touch: Any = Touch

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """With a pool that stays open, so that connecting is not measured."""

        async def opened() -> None:
            self.pool = self.pool or await self.package.Oban.create_pool(dsn=self.url)
            await work()

        self.runner.run(opened())

    def prepare(self) -> None:
        self._run(lambda: import_module("oban.schema").install(self.pool))

    def _new(self, at: float) -> Any:
        due = {"scheduled_at": datetime.fromtimestamp(at, UTC)} if at else {}
        return self.touch.new({"at": at}, **due)

    def bulk(self, count: int, at: float) -> None:
        async def all_at_once() -> None:
            self.client = self.client or self.package.Oban(pool=self.pool)
            await self.client.enqueue_many([self._new(at) for _ in range(count)])

        self._run(all_at_once)

    def singles(self, times: list[float]) -> None:
        async def one_by_one() -> None:
            self.client = self.client or self.package.Oban(pool=self.pool)
            for at in times:
                await self.client.enqueue(self._new(at))

        self._run(one_by_one)

    def serve(self, record: Record, until: Until) -> float | None:
        self.record = record

        async def work() -> None:
            async with self.package.Oban(pool=self.pool, queues={"default": SLOTS}):
                while not until():
                    await asyncio.sleep(POLL)

        self._run(work)
        return None
