"""All checks in order. Nothing is changed, and a check that fails itself is a finding, not the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from horae.clock import SystemClock, SystemDice, clock_of, zone_database_version
from horae.doctor import database, machine, work
from horae.doctor.findings import Finding, Place, problem
from horae.errors import HoraeError
from horae.ports import World
from horae.settings import Settings


def examine(settings: Settings, environment: Mapping[str, str], file: Path | None) -> Iterator[Finding]:
    """Look at everything that can be looked at."""
    place = Place(settings, environment, SystemClock(), file)
    for check in machine.CHECKS:
        yield from _guarded(check.__name__, partial(check, place))
    try:
        store = database.opened(settings)
    except (HoraeError, OSError) as trouble:
        yield problem("database", str(trouble), "horae config show --origin")
        return
    try:
        first = list(_guarded("database", partial(database.reached, store, place)))
        yield from first
        if any(finding.level == "problem" for finding in first):
            return
        for look in (database.promise, database.clocks, database.hints):
            yield from _guarded(look.__name__, partial(look, store, place))
        clock = clock_of(store, fix=False)
        there = replace(place, world=World(store, clock, SystemDice(), tzdata=zone_database_version()))
        with store.moment():  # a worker that comes or goes between two checks must not look like trouble
            looked = [list(_guarded(check.__name__, partial(check, there))) for check in work.CHECKS]
        yield from chain.from_iterable(looked)
    finally:
        store.close()


def _guarded(name: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except Exception as trouble:
        yield problem(name, f"This check could not be made: {type(trouble).__name__}: {trouble}")
