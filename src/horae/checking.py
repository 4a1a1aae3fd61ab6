"""What an application declares, looked at as a whole: all modules together, the file, the dependencies.

Declaring has checked each job for itself; only here can be seen whether they fit together. The same look serves
``horae check``, which lists everything, and the start of a worker, which refuses what cannot work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from horae.actions.declaring import Plan
from horae.configuration import JobsFile, merged
from horae.core.fires import Schedule, cycle
from horae.core.jobs import SYSTEM
from horae.declarations import TIMING, Problem, scheduled
from horae.definitions import Definition, Definitions
from horae.errors import DefinitionError, HoraeError
from horae.handles import Jobs
from horae.ports import StoredDefinition
from horae.runtime.context import Context
from horae.runtime.services import Services, wishes_of

HOW_TO_LOCK = (
    "SINGLE_NODE needs a lock manager and this application has none: set app.locks = 'database' (the default), "
    "'memory' for a single process, or a Redis URL; or declare mode='ALL_NODES'"
)


def problems_of(jobs: Jobs, file: JobsFile, *, has_locks: bool, services: Services) -> list[Problem]:
    """Every problem, the doubtful ones too, each once."""
    schedules, problems = merged(jobs.definitions, file)
    found = [*jobs.problems_noted, *problems, *_about_followers(schedules)]
    if not has_locks:  # also for disabled ones: a trigger runs them too (C-39)
        found += [Problem(each.key, HOW_TO_LOCK) for each in schedules if each.mode == "SINGLE_NODE"]
    for definition in jobs.definitions:
        found += _about_dependencies(definition, services)
    return list(dict.fromkeys(found))


def _about_followers(schedules: Sequence[Schedule]) -> Iterator[Problem]:
    edges = {schedule.key: schedule.after for schedule in schedules}
    circle = cycle(edges)
    if circle:
        yield Problem(circle[0], f"these jobs would wait for each other in a circle: {' → '.join(circle)}")
    for key, followed in edges.items():
        for each in followed:
            if each not in edges:
                text = f"after={each!r}: no scheduled job here has that id; if another application has it, all is well"
                yield Problem(key, text, "warning")


def _about_dependencies(definition: Definition, services: Services) -> Iterator[Problem]:
    if definition.built is None:
        return
    try:
        wishes = wishes_of(definition.built, definition.name)
    except HoraeError as problem:
        yield Problem(definition.name, str(problem), cause=problem)
        return
    for text in services.problems(wishes, (Context,), sync=not definition.is_async):
        yield Problem(definition.name, f"{definition.built.__qualname__} cannot be made: {text}")


def plan_of(jobs: Jobs, file: JobsFile, app: str, seeds: tuple[Schedule, ...], loads_persisted: bool) -> Plan:
    schedules, _ = merged(jobs.definitions, file)
    return Plan(
        app,
        schedules=tuple(schedules),
        seeds=seeds,
        enabled=file.enabled is not False,
        handlers=frozenset(definition.name for definition in jobs.definitions),
        loads_persisted=loads_persisted,
        definitions=tuple(StoredDefinition(each.name, each.queue, each.tenants) for each in jobs.definitions),
    )


def seed_from(seed: Schedule | Mapping[str, Any], definitions: Definitions) -> Schedule:
    """A default schedule from a mapping: ``id``, ``handler`` and timing options."""
    if isinstance(seed, Schedule):
        return replace(seed, owner=SYSTEM)
    if not isinstance(seed, Mapping):
        raise DefinitionError(f'The seed {seed!r} is no mapping; write {{"id": "nightly", "cron": "0 3 * * *"}}.')
    name = seed.get("id")
    if not isinstance(name, str) or not name.strip():
        raise DefinitionError(f'The seed {dict(seed)!r} names no schedule; add "id": "…".')
    definition = definitions.get(seed.get("handler", name))
    options = {key: value for key, value in seed.items() if key not in ("id", "handler")}
    strange = sorted(set(options) - set(TIMING))
    if strange:
        raise DefinitionError(f"The seed {name!r} has an unknown key {strange[0]!r}; known are {', '.join(TIMING)}.")
    schedule = scheduled(definition, options)
    if schedule is None:
        raise DefinitionError(f"The seed {name!r} says not when; give cron, every or after.")
    return replace(schedule, key=name, declared=False, lock_ttl=None)
