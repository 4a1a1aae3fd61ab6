"""Whoever is measured: Horae, its peers through their public packages, and the bare driver.

Each runs in a process of its own (``benchmarks.child``). A job carries ``at``, the epoch second at which it should
start, and its handler calls ``record(at)``, nothing else.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Protocol

POLL = float(os.environ.get("HORAE_BENCH_POLL", "0.005"))  # how often a serving contender asks whether to end
Record = Callable[[float], None]
Until = Callable[[], bool]

# name: module, class, database it needs
CONTENDERS = {
    "horae": ("benchmarks.contenders.horae", "Contender", "postgres"),
    "bare": ("benchmarks.contenders.bare", "Postgres", "postgres"),
    "pgqueuer": ("benchmarks.contenders.pgqueuer", "Contender", "postgres"),
    "awa": ("benchmarks.contenders.awa", "Contender", "postgres"),
    "oban": ("benchmarks.contenders.oban", "Contender", "postgres"),
    "procrastinate": ("benchmarks.contenders.procrastinate", "Contender", "postgres"),
    "apscheduler": ("benchmarks.contenders.apscheduler", "Contender", "postgres"),
    "horae-sqlite": ("benchmarks.contenders.horae", "Contender", "sqlite"),
    "bare-sqlite": ("benchmarks.contenders.bare", "Sqlite", "sqlite"),
    "huey": ("benchmarks.contenders.huey", "Contender", "sqlite"),
}


class Contender(Protocol):
    """What each must be able to do; one that cannot raises ``NotImplementedError``."""

    def __init__(self, url: str) -> None: ...
    def prepare(self) -> None:
        """Make the tables."""

    def bulk(self, count: int, at: float) -> None:
        """Enqueue many jobs as quickly as it can."""

    def singles(self, times: list[float]) -> None:
        """Enqueue one job after the other; each is durable before the next."""

    def serve(self, record: Record, until: Until) -> float | None:
        """Run a worker until ``until()``, looked at often, is true; when the last ending was durable, if known."""


def make(name: str, url: str) -> Contender:
    module, kind, _ = CONTENDERS[name]
    found: Any = getattr(importlib.import_module(module), kind)
    contender: Contender = found(url)
    return contender
