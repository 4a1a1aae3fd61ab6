"""Huey on SQLite with fsync, so that both are equally durable."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from importlib import import_module

from benchmarks.contenders import POLL, Record, Until


class Contender:
    def __init__(self, url: str) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        self.huey = import_module("huey").SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False)
        self.record: Record = lambda at: None

        @self.huey.task(name="touch")  # type: ignore[untyped-decorator]
        def touch(at: float) -> None:
            self.record(at)

        self.touch = touch

    def prepare(self) -> None:
        self.huey.pending_count()

    def bulk(self, count: int, at: float) -> None:
        raise NotImplementedError("no bulk enqueue")

    def singles(self, times: list[float]) -> None:
        for at in times:
            if at:
                self.touch.schedule(args=(at,), eta=datetime.fromtimestamp(at))  # noqa: DTZ006 - it wants local time
            else:
                self.touch(at)

    def serve(self, record: Record, until: Until) -> float | None:
        self.record = record
        consumer = self.huey.create_consumer(workers=1, periodic=False, initial_delay=0.005, max_delay=0.05)
        consumer.start()
        while not until():
            time.sleep(POLL)
        consumer.stop(graceful=True)
        return None
