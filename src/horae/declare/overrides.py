"""Merge ``jobs.conf`` with the declarations: a job is declared again, with the options of the file over its own.

So every rule about options holds in the file as it does in code, and what the file changes holds for all jobs of a
definition: those that a schedule makes and those that are enqueued.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from horae.core.schedules.schedule import Schedule
from horae.declare.declarations import ONE_OF, Problem, define_job
from horae.declare.definitions import Definition
from horae.declare.jobs_conf import RULES, JobsFile, Override
from horae.declare.options import TIMING
from horae.errors import DefinitionError


def merge(definitions: Iterable[Definition], file: JobsFile) -> tuple[list[Definition], list[Problem]]:
    """Return the definitions of an application, code and file merged, and what is wrong with the file."""
    listed = list(definitions)
    problems = list(file.problems)
    names = [definition.name for definition in listed]
    for name, location in file.locations.items():
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            if close:
                problems.append(Problem.of(location, DefinitionError("file_job_misspelt", name=name, close=close[0])))
            else:
                problems.append(Problem.of(location, DefinitionError("file_job_unknown", name=name)))
    merged = []
    for definition in listed:
        item = file.items.get(definition.name)
        if item:
            definition, found = _override(definition, item, file.locations[definition.name])
            problems += found
        merged.append(definition)
    return merged, problems


def schedules_of(definitions: Iterable[Definition]) -> list[Schedule]:
    """Return the schedules of those that have one."""
    return [each.schedule for each in definitions if each.schedule is not None]


def _override(definition: Definition, item: Mapping[str, Override], location: str) -> tuple[Definition, list[Problem]]:
    """Return a definition with the options of the file; as it was in code where one of them is wrong."""
    if definition.schedule is None and not any(key in item for key in RULES) and any(key in TIMING for key in item):
        return definition, [Problem.of(location, DefinitionError("file_job_without_times", name=definition.name))]
    made, problems = _declare(definition, item)
    known = _declare(definition, {})[1]
    found = [problem for problem in problems if problem not in known]
    if any(problem.severity == "error" for problem in found):
        return definition, _blame(definition, item, [each for each in found if each.severity == "error"], location)
    return _with_sources(definition, made, item), [_located(each, item, location) for each in found]


def _declare(definition: Definition, item: Mapping[str, Override]) -> tuple[Definition, list[Problem]]:
    return define_job(definition.name, definition.built or definition.function, _merged(definition, item))


def _merged(definition: Definition, item: Mapping[str, Override]) -> dict[str, Any]:
    """Return the options of code and file; what the code says about a rule goes with the rule that is replaced."""
    options = dict(definition.options)
    given = {key: override.value for key, override in item.items()}
    if "fixed_rate" in given:  # document 003's engine rests for the interval after each run
        given = {"anchor": "finish", **given, "every": given["fixed_rate"]}
        del given["fixed_rate"]
    rule = next((key for key in ONE_OF if key in given), None)
    if rule is not None:
        if definition.schedule is None:
            options.setdefault("retry", definition.retry)
        options = {key: value for key, value in options.items() if key not in ONE_OF}
        if rule != "every":
            options.pop("initial_delay", None)
    if given.get("mode") == "ALL_NODES":
        options.pop("lock_ttl", None)
    if "catch_up" in given:
        options.pop("misfire", None)
    return {**options, **given}


def _blame(definition: Definition, item: Mapping[str, Override], errors: list[Problem], location: str) -> list[Problem]:
    """Return the errors at the lines of the options that are wrong by themselves; else at that of the item."""
    known = _declare(definition, {})[1]
    blamed = []
    for key, override in item.items():
        alone = _declare(definition, {key: override})[1]
        wrong = [each for each in alone if each.severity == "error" and each not in known]
        blamed += [_moved(each, override.location, f"{override.word} of {definition.name}") for each in wrong]
    return blamed or [_moved(each, location, definition.name) for each in errors]


def _moved(problem: Problem, location: str, about: str) -> Problem:
    """Return the problem at a line of the file."""
    return Problem(location, f"{about}: {problem.text}", problem.severity, error=problem.error)


def _located(problem: Problem, item: Mapping[str, Override], location: str) -> Problem:
    """Return a warning at the line of the first option that it names."""
    named = next((each.location for key, each in item.items() if problem.text.startswith(key)), location)
    return _moved(problem, named, problem.where)


def _with_sources(before: Definition, made: Definition, item: Mapping[str, Override]) -> Definition:
    """Return the definition with the source of each value of its schedule: the file, code, or a default."""
    if made.schedule is None:
        return made
    given = {*item, *(("anchor",) if "fixed_rate" in item else ()), *(("misfire",) if "catch_up" in item else ())}
    if any(key in item for key in RULES):
        given |= {"kind", "expression", "after"}
    from_code = made.schedule.sources if before.schedule is None else before.schedule.sources
    sources = {name: "file" if name in given else from_code[name] for name in made.schedule.sources}
    if before.schedule is None:
        declared = {*before.options}
        sources |= {name: "code" if name in declared else "default" for name in sources if name not in given}
        sources["handler"] = "code"
    return replace(made, schedule=replace(made.schedule, sources=sources))
