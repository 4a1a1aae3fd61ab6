"""Horae through its public interface, with the settings an application would choose for a quick queue."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta

from benchmarks.contenders import POLL, Record, Until
from horae import Horae
from horae.runtime.worker.worker import WorkerSettings
from horae.stores.schema import migrate

SLOTS = int(os.environ.get("HORAE_BENCH_SLOTS", "1000"))
LEASE = timedelta(seconds=float(os.environ.get("HORAE_BENCH_LEASE", "30")))


class Contender:
    def __init__(self, url: str) -> None:
        self.app = Horae(url)
        self.record: Record = lambda at: None

        @self.app.job("touch")
        async def touch(at: float) -> None:
            self.record(at)

        self.touch = touch

    def prepare(self) -> None:
        migrate(self.app.engine)

    def bulk(self, count: int, at: float) -> None:
        due = datetime.fromtimestamp(at, UTC) if at else None
        self.touch.using(run_at=due).enqueue_many([{"at": at} for _ in range(count)])

    def singles(self, times: list[float]) -> None:
        for at in times:
            handle = self.touch.using(run_at=datetime.fromtimestamp(at, UTC)) if at else self.touch
            handle.enqueue(at=at)

    def serve(self, record: Record, until: Until) -> float | None:
        self.record = record
        return asyncio.run(self._serve(until))

    async def _serve(self, until: Until) -> float:
        worker = self.app.worker(WorkerSettings(queues={"default": SLOTS}, lease=LEASE))
        serving = asyncio.create_task(worker.run())
        settled, ended = -1, time.time()
        while not serving.done() and not (until() and settled == sum(worker.counts.values())):
            if settled != sum(worker.counts.values()):
                settled, ended = sum(worker.counts.values()), time.time()
            await asyncio.sleep(POLL)
        worker.stop()
        await serving
        return ended
