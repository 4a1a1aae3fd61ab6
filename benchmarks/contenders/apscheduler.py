"""APScheduler 3 with its SQLAlchemy job store: one process only, but it arms a timer."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.contenders import POLL, Record, Until

_record: Record = lambda at: None  # noqa: E731 - replaced when a worker starts


def touch(at: float) -> None:
    _record(at)


class Contender:
    def __init__(self, url: str) -> None:
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self.url = url

    def _scheduler(self) -> Any:
        store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore(url=self.url)
        make = import_module("apscheduler.schedulers.asyncio").AsyncIOScheduler
        return make(jobstores={"default": store}, timezone="UTC", job_defaults={"misfire_grace_time": None})

    def prepare(self) -> None:
        return

    def bulk(self, count: int, at: float) -> None:
        raise NotImplementedError("no bulk enqueue")

    def singles(self, times: list[float]) -> None:
        async def one_by_one() -> None:
            scheduler = self._scheduler()
            scheduler.start(paused=True)
            for at in times:
                due = datetime.fromtimestamp(at, UTC) if at else datetime.now(UTC)
                scheduler.add_job("benchmarks.contenders.apscheduler:touch", "date", run_date=due, args=(at,))
            scheduler.shutdown(wait=False)

        asyncio.run(one_by_one())

    def serve(self, record: Record, until: Until) -> float | None:
        global _record
        _record = record

        async def work() -> None:
            scheduler = self._scheduler()
            scheduler.start()
            while not until():
                await asyncio.sleep(POLL)
            scheduler.shutdown(wait=False)

        asyncio.run(work())
        return None
