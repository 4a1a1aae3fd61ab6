"""All checks, in order. They change nothing; a check that fails itself is a finding, not the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from horae.clock import SystemClock, SystemDice, clock_of, zone_database_version
from horae.doctor import database, machine, message_bus, work
from horae.doctor.cluster import cluster_members
from horae.doctor.findings import Finding, Installation, problem
from horae.errors import HoraeError
from horae.ports.world import World
from horae.settings import Settings


def examine(settings: Settings, environment: Mapping[str, str], file: Path | None) -> Iterator[Finding]:
    """Run every check that the state of the installation allows."""
    installation = Installation(settings, environment, SystemClock(), file)
    for check in (*machine.CHECKS, *message_bus.CHECKS):
        yield from run_guarded(check.__name__, partial(check, installation))
    try:
        store = database.open_database(settings)
    except (HoraeError, OSError) as trouble:
        yield problem("database", "database_trouble", "horae config show --origin", problem=str(trouble))
        return
    try:
        first = list(run_guarded("database", partial(database.reached, store, installation)))
        yield from first
        if any(finding.level == "problem" for finding in first):
            return
        for check_database in (
            database.promise,
            database.primaries,
            database.audit_guard,
            database.clocks,
            database.hints,
        ):
            yield from run_guarded(check_database.__name__, partial(check_database, store, installation))
        clock = clock_of(store, fix=False)
        opened = replace(installation, world=World(store, clock, SystemDice(), tzdata=zone_database_version()))
        with store.moment():  # a worker that comes or goes between two checks must not look like trouble
            findings = [list(run_guarded(check.__name__, partial(check, opened))) for check in work.CHECKS]
        yield from chain.from_iterable(findings)
        yield from run_guarded("cluster", partial(cluster_members, store, opened))  # last: it closes them
    finally:
        store.close()


def run_guarded(name: str, run: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from run()
    except Exception as trouble:
        yield problem(name, "check_failed", problem=f"{type(trouble).__name__}: {trouble}")
