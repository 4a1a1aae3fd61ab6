"""Awa with its COPY ingestion and as many workers on one queue as Horae has slots."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.contenders import POLL, Record, Until

WORKERS = int(os.environ.get("HORAE_BENCH_SLOTS", "500"))
POLL_MS = 10  # its default of 200 would not be a contest


@dataclass
class Touch:
    at: float


class Contender:
    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg", "")
        self.package = import_module("awa")
        self.runner = asyncio.Runner()
        self.client: Any = None

    def _run(self, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """With a pool that stays open, so that connecting is not measured."""

        async def on_client() -> None:
            self.client = self.client or self.package.AsyncClient(self.url)
            await work(self.client)

        self.runner.run(on_client())

    def prepare(self) -> None:
        async def install(client: Any) -> None:
            await client.migrate()
            await client.install_queue_storage(schema="awa")

        self._run(install)

    def bulk(self, count: int, at: float) -> None:
        due = datetime.fromtimestamp(at, UTC) if at else None
        jobs = [Touch(at) for _ in range(count)]
        self._run(lambda client: client.enqueue_many_copy(jobs, run_at=due))

    def singles(self, times: list[float]) -> None:
        async def one_by_one(client: Any) -> None:
            for at in times:
                await client.insert(Touch(at), run_at=datetime.fromtimestamp(at, UTC) if at else None)

        self._run(one_by_one)

    def serve(self, record: Record, until: Until) -> float | None:
        async def work(client: Any) -> None:
            @client.task(Touch)  # type: ignore[untyped-decorator]
            async def touch(job: Any) -> None:
                record(job.args.at)

            await client.start([("default", WORKERS)], poll_interval_ms=POLL_MS)
            while not until():
                await asyncio.sleep(POLL)
            await client.shutdown()

        self._run(work)
        return None
