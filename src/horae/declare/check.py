"""Check all declarations of an application together: modules, file, dependencies; and make its plan.

Each job was checked alone when it was declared; here is checked whether they fit together. ``horae check`` lists every
problem, and the start of a worker refuses what cannot work.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from horae.actions.schedules.declared import OFF_IN_CODE, OFF_IN_FILE, Plan
from horae.core.governance.budgets import job_budget
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.running_limits import GROUP, LimitSource
from horae.core.schedules.follows import cycle
from horae.core.schedules.schedule import Schedule
from horae.declare.declarations import Problem, make_schedule
from horae.declare.definitions import Definition, Definitions, define
from horae.declare.handles import Blueprint
from horae.declare.jobs_conf import JobsFile
from horae.declare.options import TIMING
from horae.declare.overrides import merge, schedules_of
from horae.declare.parameters import description_of, parameters_of
from horae.errors import DefinitionError, HoraeError
from horae.ports.definitions import StoredDefinition
from horae.ports.locks import Limiter
from horae.runtime.worker.context import Context
from horae.runtime.worker.services import Services, wishes_of


def problems_of(
    jobs: Blueprint, file: JobsFile, *, has_locks: bool, services: Services, seeds: Sequence[Seed] = ()
) -> list[Problem]:
    """Return every problem once, warnings too."""
    definitions, problems = merge(jobs.definitions.declared, file)
    schedules = schedules_of(definitions)
    found = [*jobs.problems_noted, *problems, *_about_followers(schedules)]
    if not has_locks:  # also for disabled ones: a trigger runs them too (C-39)
        found += [
            Problem.of(each.key, DefinitionError("single_node_without_locks"))
            for each in schedules
            if each.mode == "SINGLE_NODE"
        ]
    for definition in definitions:
        found += _about_dependencies(definition, services)
    found += _about_limits(jobs, file, schedules)
    found += seeds_of(seeds, jobs.definitions)[1]
    return list(dict.fromkeys(found))


def about_executors(jobs: Blueprint, file: JobsFile) -> list[Problem]:
    """Return what keeps declared executors from working in this process, and jobs that cannot use one.

    Only a process that runs jobs needs to know: one that enqueues does without the libraries of a cluster.
    """
    found = []
    for definition in merge(jobs.definitions.declared, file)[0]:
        if definition.remote is None:
            continue
        if definition.schedule is not None and definition.schedule.mode == "ALL_NODES":
            error = DefinitionError("all_nodes_elsewhere", executor=str(definition.executor))
            found.append(Problem.of(definition.name, error))
        try:
            getattr(definition.remote, "check", lambda: None)()
        except HoraeError as problem:
            found.append(Problem.of(definition.name, problem, is_whole=True))
    return found


def about_shard_keys(jobs: Blueprint, file: JobsFile, *, in_cluster: bool) -> list[Problem]:
    """Return the jobs with two kinds of key, which a cluster refuses for jobs of the house without a shard key.

    That is an error *in_cluster*, else a warning; and a warning where it may be for tenants alone, who need none.
    """
    found = []
    for each in merge(jobs.definitions.declared, file)[0]:
        if each.concurrency_key is not None and (each.debounce is not None or each.collect is not None):
            error = DefinitionError("two_shard_keys", other="debounce" if each.collect is None else "collect")
            found.append(Problem.of(each.name, error, "error" if in_cluster and not each.tenants else "warning"))
    return found


def needs_database(
    jobs: Blueprint, file: JobsFile, *, has_own_locks: bool, rates: Mapping[str, Limiter]
) -> list[Problem]:
    """Return everything declared that a worker behind a service cannot do, because it takes a database."""
    found = []
    for schedule in schedules_of(merge(jobs.definitions.declared, file)[0]):
        if schedule.mode == "ALL_NODES":
            found.append(Problem.of(schedule.key, DefinitionError("all_nodes_needs_database")))
        elif schedule.lock_ttl is not None and not has_own_locks:
            found.append(Problem.of(schedule.key, DefinitionError("lock_needs_database")))
    limiters: dict[str, Limiter | None] = {f"queue {name}": limiter for name, limiter in rates.items()}
    limiters |= {each.name: each.rate_limit for each in jobs.definitions}
    found += [
        Problem.of(name, DefinitionError("rate_limit_needs_database"))
        for name, limiter in limiters.items()
        if getattr(limiter, "counts_in_database", False)
    ]
    return found


def _about_followers(schedules: Sequence[Schedule]) -> Iterator[Problem]:
    edges = {schedule.key: schedule.after for schedule in schedules}
    circle = cycle(edges)
    if circle:
        yield Problem.of(circle[0], DefinitionError("jobs_in_circle", circle=circle))
    for key, followed in edges.items():
        for each in followed:
            if each not in edges:
                yield Problem.of(key, DefinitionError("followed_elsewhere", followed=each), "warning")


def _about_limits(jobs: Blueprint, file: JobsFile, schedules: Sequence[Schedule]) -> Iterator[Problem]:
    """Warn of a limit for a group that no job declares: probably misspelled, though a stored schedule may have it."""
    groups = {schedule.group for schedule in schedules}
    locations = {
        **dict.fromkeys(jobs.running_limits, "limit"),
        **{key: each.location for key, each in file.limits.items()},
    }
    for name, location in locations.items():
        group = name.removeprefix(GROUP)
        if name.startswith(GROUP) and group not in groups:
            close = difflib.get_close_matches(group, [each for each in groups if each], n=1)
            if close:
                error = DefinitionError("limited_group_misspelt", group=group, close=close[0])
            else:
                error = DefinitionError("limited_group_unknown", group=group)
            yield Problem.of(location, error, "warning")


def _about_dependencies(definition: Definition, services: Services) -> Iterator[Problem]:
    if definition.built is None:
        return
    try:
        wishes = wishes_of(definition.built, definition.name)
    except HoraeError as problem:
        yield Problem.of(definition.name, problem, is_whole=True)
        return
    for cause in services.problems(wishes, (Context,), sync=not definition.is_async):
        error = DefinitionError("class_unmakeable", function=definition.built.__qualname__, problem=str(cause))
        yield Problem.of(definition.name, error)


def plan_of(
    jobs: Blueprint,
    file: JobsFile,
    app: str,
    seeds: Sequence[Seed],
    loads_persisted: bool,
    *,
    enabled: bool = True,
) -> Plan:
    """Return what an application wants of the store; the switch of the file wins over that of the code (S3-39)."""
    definitions, _ = merge(jobs.definitions.declared, file)
    return Plan(
        app,
        schedules=tuple(schedules_of(definitions)),
        seeds=tuple(seeds_of(seeds, jobs.definitions)[0]),
        off=_switched_off(file, enabled),
        handlers=frozenset(definition.name for definition in definitions),
        loads_persisted=loads_persisted,
        limits=limits_of(jobs, file, app),
        definitions=tuple(stored_definition(each) for each in definitions),
    )


def stored_definition(definition: Definition) -> StoredDefinition:
    """Return a definition as it is stored: what a server without the code has to know."""
    function, sensitive = definition.function, definition.sensitive
    return StoredDefinition(
        definition.name,
        definition.queue,
        definition.tenants,
        sensitive=sensitive,
        parameters=parameters_of(function, definition.signature, sensitive),
        description=description_of(definition.built or function),
        budget=job_budget(definition.budget, definition.cost),
    )


def _switched_off(file: JobsFile, enabled: bool) -> str | None:
    if file.enabled is None:
        return None if enabled else OFF_IN_CODE
    return None if file.enabled else OFF_IN_FILE


def limits_of(jobs: Blueprint, file: JobsFile, app: str) -> dict[str, LimitSource]:
    """Return the limits that code and file declare; the file wins, also where it lifts one."""
    declared = {name: LimitSource(name, app, "code", most) for name, most in jobs.running_limits.items()}
    for name, override in file.limits.items():
        declared[name] = LimitSource(name, app, "file", override.value)
    return {name: limit for name, limit in declared.items() if limit.max_running is not None}


# -- seeds -------------------------------------------------------------------------------------------------------


Seed = Schedule | Mapping[str, Any]


def check_seed(seed: Seed) -> Seed:
    """Refuse a seed that cannot be one; its handler may be declared later (S4-9 to S4-11)."""
    if isinstance(seed, Schedule):
        return replace(seed, owner=SYSTEM)
    if not isinstance(seed, Mapping):
        raise DefinitionError("seed_no_mapping", seed=repr(seed))
    name = seed.get("id")
    if not isinstance(name, str) or not name.strip():
        raise DefinitionError("seed_without_id", seed=repr(dict(seed)))
    unknown = sorted(set(seed) - {"id", "handler", *TIMING})
    if unknown:
        raise DefinitionError("seed_key_unknown", seed=name, key=unknown[0], choices=list(TIMING))
    _make_seed(define(str(seed.get("handler", name)), _anything, context_type=Context), seed)
    return dict(seed)


def seeds_of(seeds: Sequence[Seed], definitions: Definitions) -> tuple[list[Schedule], list[Problem]]:
    """Return the schedules that seeds stand for, and what is wrong with the others."""
    found: list[Schedule] = []
    problems: list[Problem] = []
    for seed in seeds:
        if isinstance(seed, Schedule):
            found.append(seed)
            continue
        handler = str(seed.get("handler", seed["id"]))
        definition = definitions.find(handler)
        if definition is None:
            problems.append(Problem.of(f"seed {seed['id']}", DefinitionError("seed_handler_unknown", handler=handler)))
            continue
        try:
            found.append(_make_seed(definition, seed))
        except HoraeError as problem:
            problems.append(Problem.of(f"seed {seed['id']}", problem))
    return found, problems


def _make_seed(definition: Definition, seed: Mapping[str, Any]) -> Schedule:
    options = {key: value for key, value in seed.items() if key not in ("id", "handler")}
    schedule = make_schedule(definition, options)
    if schedule is None:
        raise DefinitionError("seed_without_times", seed=seed["id"])
    return replace(schedule, key=str(seed["id"]), declared=False, lock_ttl=None)


def _anything(**_: Any) -> None:
    """Stand in for a handler that is not declared yet; takes any arguments."""
