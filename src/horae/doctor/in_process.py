"""The same checks inside a running process, on the store that it has open, within a bounded time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

from horae.clock import SystemClock
from horae.core.dataclass import dataclass
from horae.doctor import database, machine, message_bus, work
from horae.doctor.examination import run_guarded
from horae.doctor.findings import Finding, Installation
from horae.ports.world import World
from horae.settings import Settings
from horae.stores.opening import sqlite_path

if TYPE_CHECKING:
    from horae.stores.store import SqlStore

LIMIT = timedelta(seconds=5)
NOT_HERE = (machine.port,)  # the port is in use: by this process
Run = tuple[str, Callable[[], Iterable[Finding]]]


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found; not *complete* where the time was up before the last check."""

    checked_at: datetime
    findings: tuple[Finding, ...]
    complete: bool = True

    @property
    def healthy(self) -> bool:
        return not any(finding.level == "problem" for finding in self.findings)


def examine_world(
    world: World, settings: Settings, environment: Mapping[str, str], *, limit: timedelta = LIMIT
) -> Examination:
    """Run the checks, those of the work in one moment; begin no check after *limit*."""
    store, clock = cast("SqlStore", world.store), SystemClock()
    installation = Installation(settings, environment, clock, sqlite_path(store.engine.url), world)
    checks: list[Run] = [
        (check.__name__, partial(check, installation))
        for check in (*machine.CHECKS, *message_bus.CHECKS)
        if check not in NOT_HERE
    ]
    checks += [
        (each.__name__, partial(each, store, installation))
        for each in (database.promise, database.primaries, database.audit_guard, database.clocks)
    ]
    ends = clock.monotonic() + limit.total_seconds()
    found: list[Finding] = []
    complete = _run(checks, found, lambda: clock.monotonic() < ends)
    with store.moment():  # a worker that comes or goes between two checks must not look like trouble
        inside: list[Run] = [(check.__name__, partial(check, installation)) for check in work.CHECKS]
        complete = _run(inside, found, lambda: clock.monotonic() < ends) and complete
    return Examination(world.clock.now(), tuple(found), complete)


def _run(checks: Iterable[Run], found: list[Finding], may_go_on: Callable[[], bool]) -> bool:
    """Run checks while there is time; return whether all of them were run."""
    for name, check in checks:
        if not may_go_on():
            return False
        found += run_guarded(name, check)
    return True
