"""Readiness of this process: the store answers, tables and clocks fit, workers are there.

Anyone may ask, so an answer names neither queues nor tenants nor addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from horae.actions.metrics import lately, served_by
from horae.core.dataclass import dataclass
from horae.errors import HoraeError, SchemaMissing, SchemaTooNew
from horae.ports.store import Tx
from horae.ports.world import World

Status = Literal["ready", "degraded", "unready"]
Verdict = Literal["ok", "warning", "failed", "unknown"]
MAX_OFFSET = timedelta(seconds=5)
PATIENCE = timedelta(minutes=1)  # how long due work may wait before a queue without a worker is worth a warning


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    name: str
    status: Verdict
    detail: str
    seconds: float | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks."""

    checks: tuple[Check, ...]

    @property
    def status(self) -> Status:
        found = {check.status for check in self.checks}
        return "unready" if "failed" in found else "degraded" if "warning" in found else "ready"


def checkup(opens: Callable[[], World]) -> Report:
    """Run all checks; those that need a store that does not answer are unknown, not ok."""
    try:
        world = opens()
        world.route().store.check_schema()
        store, tables = Check("store", "ok", "The store answers."), Check("migrations", "ok", "The tables are current.")
    except (SchemaMissing, SchemaTooNew) as problem:
        advice = "Run: horae db migrate"
        if isinstance(problem, SchemaTooNew):
            advice = "The tables are newer than this Horae: upgrade it."
        elif problem.reason == "tables_too_old":
            advice = "The tables are too old for this Horae: horae db export with the older one, horae db import here."
        store, tables = Check("store", "ok", "The store answers."), Check("migrations", "failed", advice)
        return Report((store, tables, _unknown("clock"), _unknown("workers")))
    except HoraeError:
        away = Check("store", "failed", "The store does not answer.")
        return Report((away, _unknown("migrations"), _unknown("clock"), _unknown("workers")))
    return Report((store, tables, _clock(world), _workers(world)))


def _clock(world: World) -> Check:
    offset: timedelta = getattr(world.clock, "offset", timedelta(0))  # only a clock that follows another one has it
    seconds = round(offset.total_seconds(), 3)
    if abs(offset) > MAX_OFFSET:
        detail = f"This host's clock is more than {MAX_OFFSET.seconds} s off the database's: look at its time service."
        return Check("clock", "failed", detail, seconds=seconds)
    return Check("clock", "ok", "The clocks of this host and the database agree.", seconds=seconds)


def _workers(world: World) -> Check:
    """Warn where due work has no worker; workers are other processes, so this one stays ready."""
    now = world.clock.now()

    def read(tx: Tx) -> tuple[Any, Any]:
        return tx.nodes.all(), tx.metrics.waiting(now - PATIENCE)

    try:
        nodes, waiting = world.route().store.read(read)
    except HoraeError:
        return _unknown("workers")
    seen = lately(nodes, now)
    unserved = set(waiting) - set(served_by(seen))
    if unserved:
        detail = f"Due work waits in {len(unserved)} queue(s) that no worker serves: start one, `horae queue list`."
        return Check("workers", "warning", detail, count=len(seen))
    return Check("workers", "ok", f"{len(seen)} worker(s) seen lately.", count=len(seen))


def _unknown(name: str) -> Check:
    return Check(name, "unknown", "Not looked at: the store does not answer.")
