"""``jobs.conf``: what operations may change about declared jobs without touching the code.

The file names jobs by id and overrides single values; names and milliseconds are document 003's, snake case with
seconds or durations (``"5m"``) is ours. ``jobs.<environment>.conf`` beside it wins where it says something. An unknown
id or key is an error with the line and the nearest known word: a misspelled override would otherwise have no effect.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from horae.core.jobs.retry import span
from horae.core.jobs.running_limits import GROUP, QUEUE, check_limit_name, check_max_running
from horae.core.schedules.rules import Every
from horae.core.schedules.schedule import MODES, Schedule, check
from horae.declare.declarations import (
    Problem,
    about_mode,
    expression_of,
    payload_of,
    sources_of,
)
from horae.declare.definitions import Definition
from horae.declare.options import DEFAULT_LOCK_TTL
from horae.errors import ConfigurationError, HoraeError, InvalidInput
from horae.settings import span_from

FILE = "jobs.conf"
ITEMS = "[[jobs.items]]"


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("file_value_not_boolean")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("file_value_not_text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput("file_value_not_whole")
    return value


def _milliseconds(value: Any) -> timedelta:
    try:
        return timedelta(milliseconds=_number(value))
    except OverflowError:
        raise InvalidInput("file_value_too_many_ms") from None


def _span(value: Any) -> timedelta:
    if isinstance(value, str):
        return span_from(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("file_value_not_a_span")
    return span(value)


def _period(value: Any) -> timedelta:
    return Every(_span(value)).period


def _mode(value: Any) -> str:
    if value not in MODES:
        raise InvalidInput("file_mode_unknown", choices=list(MODES))
    return str(value)


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("file_value_not_a_table")
    return value


def _max_running(value: Any) -> int | None:
    return None if value == "none" else check_max_running(value)


# What an item may say: its word in the file, the value that it sets, and how it is read.
KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "enabled": ("enabled", _flag),
    "cron": ("cron", _text),
    "fixedRate": ("fixed_rate", lambda value: Every(_milliseconds(value)).period),
    "initialDelay": ("initial_delay", _milliseconds),
    "lockTtlMs": ("lock_ttl", _milliseconds),
    "mode": ("mode", _mode),
    "every": ("every", _period),
    "fixed_rate": ("fixed_rate", _period),
    "initial_delay": ("initial_delay", _span),
    "lock_ttl": ("lock_ttl", _span),
    "zone": ("zone", _text),
    "group": ("group", _text),
    "anchor": ("anchor", _text),
    "day_match": ("day_match", _text),
    "gap": ("gap", _text),
    "fold": ("fold", _text),
    "lenient": ("lenient", _flag),
    "misfire": ("misfire", _text),
    "catch_up": ("catch_up", _number),
    "spread": ("spread", _span),
    "grace": ("grace", _span),
    "overlap": ("overlap", _text),
    "jitter": ("jitter", _span),
    "timeout": ("timeout", _span),
    "stale_timeout": ("stale_timeout", _span),
    "arguments": ("arguments", _table),
}
RULES = ("cron", "every", "fixed_rate")


@dataclass(frozen=True)
class Override:
    """One value from a file."""

    value: Any
    place: str  # file and line
    word: str  # as the file spells it


@dataclass(frozen=True)
class JobsFile:
    """The contents of the files, merged: the file of the environment wins."""

    enabled: bool | None = None
    items: Mapping[str, Mapping[str, Override]] = field(default_factory=dict)
    limits: Mapping[str, Override] = field(default_factory=dict)  # how many jobs may run at once; None lifts
    places: Mapping[str, str] = field(default_factory=dict)  # where each item begins
    paths: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()


def module_of(made_in: Mapping[str, Any]) -> tuple[str, Path | None]:
    """Return the name and folder of the module that made an application, from its globals.

    A script has the name under which others would import it.
    """
    name, file = str(made_in.get("__name__", "app")), made_in.get("__file__")
    if not file:
        return name, None
    return Path(file).stem if name == "__main__" else name, Path(file).parent


def find_file(named: str | None, folders: Iterable[Path]) -> Path | None:
    """Return the file to read: the one named, which must exist, or the first ``jobs.conf`` in these folders."""
    if named:
        path = Path(named)
        if not path.is_file():
            raise ConfigurationError("jobs_file_missing", path=named)
        return path
    return next((folder / FILE for folder in folders if (folder / FILE).is_file()), None)


def read_files(path: Path | None, environment: str | None) -> JobsFile:
    """Read the file and, where an environment is named, ``jobs.<environment>.conf`` beside it, which wins."""
    if path is None:
        return JobsFile()
    special = path.with_name(f"{path.stem}.{environment}{path.suffix}") if environment else None
    files = [_read(path)] + ([_read(special)] if special is not None and special.is_file() else [])
    together = files[0]
    for stronger in files[1:]:
        items = {name: dict(item) for name, item in together.items.items()}
        for name, item in stronger.items.items():
            before = items.get(name, {})
            if any(key in item for key in RULES):  # another kind of rule replaces the weaker file's rule
                before = {key: value for key, value in before.items() if key not in RULES}
            items[name] = {**before, **item}
        together = JobsFile(
            together.enabled if stronger.enabled is None else stronger.enabled,
            items,
            {**together.limits, **stronger.limits},
            {**together.places, **stronger.places},
            together.paths + stronger.paths,
            together.problems + stronger.problems,
        )
    return together


def _read(path: Path) -> JobsFile:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors mark their files
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        return JobsFile(paths=(path,), problems=(Problem(str(path), f"cannot be read: {problem}"),))
    return _Reader(path, text).read(content)


class _Reader:
    """Reads one file and notes every problem with its line."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._starts = [n for n, line in enumerate(self._lines) if line.strip().startswith(ITEMS)]
        self._problems: list[Problem] = []

    def read(self, content: Mapping[str, Any]) -> JobsFile:
        self._refuse_unknown(content, ("jobs",), None)
        jobs = content.get("jobs", {})
        if not isinstance(jobs, dict):
            self._note("jobs", None, "write [jobs] and [[jobs.items]]")
            jobs = {}
        self._refuse_unknown(jobs, ("enabled", "items", "limits"), None)
        enabled = jobs.get("enabled")
        if enabled is not None and not isinstance(enabled, bool):
            self._note("enabled", None, f"enabled = {enabled!r}: write true or false, without quotes")
            enabled = None
        items: dict[str, dict[str, Override]] = {}
        places: dict[str, str] = {}
        listed = jobs.get("items", [])
        for number, item in enumerate(listed if isinstance(listed, list) else []):
            name = item.get("id") if isinstance(item, dict) else None
            if not isinstance(name, str) or not name.strip():
                self._note(None, number, 'this item names no job; add id = "…"')
            elif name in items:
                self._note("id", number, f"{name!r} is there twice; keep one item")
            else:
                items[name] = self._item(number, name, item)
                places[name] = self._locate("id", number)
        if not isinstance(listed, list):
            self._note("items", None, f"write {ITEMS} for each job")
        limits = self._limits(jobs.get("limits", {}))
        return JobsFile(enabled, items, limits, places, (self._path,), tuple(self._problems))

    def _limits(self, limits: Any) -> dict[str, Override]:
        """Read ``[jobs.limits]``: ``global``, and the tables ``groups`` and ``queues`` by name."""
        if not isinstance(limits, dict):
            self._note("limits", None, "write [jobs.limits] with global, groups and queues")
            return {}
        self._refuse_unknown(limits, ("global", "groups", "queues"), None)
        found: dict[str, Override] = {}
        rows = [("global", "global", limits["global"])] if "global" in limits else []
        for table, prefix in (("groups", GROUP), ("queues", QUEUE)):
            named = limits.get(table, {})
            if not isinstance(named, dict):
                self._note(table, None, f"write [jobs.limits.{table}], name by name")
                continue
            rows += [(word, prefix + word, most) for word, most in named.items()]
        for word, name, most in rows:
            try:
                found[check_limit_name(name)] = Override(_max_running(most), self._locate(word, None), word)
            except HoraeError as problem:
                self._note(word, None, f"{word} = {most!r}: {problem}")
        return found

    def _item(self, number: int, name: str, item: Mapping[str, Any]) -> dict[str, Override]:
        self._refuse_unknown(item, ("id", *KEYS), number)
        overrides: dict[str, Override] = {}
        for word, value in item.items():
            if word not in KEYS:
                continue
            option, read = KEYS[word]
            try:
                override = Override(read(value), self._locate(word, number), word)
            except HoraeError as problem:
                self._note(word, number, f"{word} = {value!r} of {name}: {problem}")
                continue
            if option in overrides:
                self._note(word, number, f"{word} and {overrides[option].word} of {name} say the same thing; keep one")
            overrides[option] = override
        rules = [overrides[key].word for key in RULES if key in overrides]
        if len(rules) > 1:
            self._note(rules[1], number, f"{' and '.join(rules)} of {name} exclude each other; keep one")
        return overrides

    def _refuse_unknown(self, table: Mapping[str, Any], known: tuple[str, ...], number: int | None) -> None:
        for word in table:
            if word not in known:
                close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
                self._note(word, number, f"unknown key {word!r}{hint}")

    def _note(self, word: str | None, number: int | None, text: str) -> None:
        self._problems.append(Problem(self._locate(word, number), text))

    def _locate(self, word: str | None, number: int | None) -> str:
        """Return file and line of a word, found by its text: the parser keeps no positions."""
        first, last = 0, len(self._lines)
        if number is not None and number < len(self._starts):
            first = self._starts[number]
            last = next((start for start in self._starts if start > first), last)
        elif number is not None:
            return str(self._path)
        pattern = re.compile(rf"""\s*(\[+\s*)?["']?{re.escape(word)}["']?\s*[=\].]""") if word else None
        for line in range(first, last):
            if pattern is None or pattern.match(self._lines[line]):
                return f"{self._path}:{line + 1}"
        return f"{self._path}:{first + 1}"


# -- merged with the declarations --------------------------------------------------------------------------------


def merge(definitions: Iterable[Definition], file: JobsFile) -> tuple[list[Schedule], list[Problem]]:
    """Return the schedules of an application, code and file merged, and what is wrong with the file."""
    listed = list(definitions)
    problems = list(file.problems)
    names = [definition.name for definition in listed]
    for name, place in file.places.items():
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "; `horae check` lists what is declared"
            problems.append(Problem(place, f"no job {name!r} is declared{hint}"))
    schedules = []
    for definition in listed:
        item = file.items.get(definition.name)
        if item:
            schedule, found = _override(definition, item, file.places[definition.name])
            problems += found
        else:
            schedule = definition.schedule
        if schedule is not None:
            schedules.append(schedule)
    return schedules, problems


def _override(
    definition: Definition, item: Mapping[str, Override], place: str
) -> tuple[Schedule | None, list[Problem]]:
    base = definition.schedule
    rule = next((key for key in RULES if key in item), None)
    if base is None and rule is None:
        text = f"{definition.name} has no schedule in code that could be changed; give cron or every"
        return None, [Problem(place, text)]
    try:
        schedule = base or Schedule(
            key=definition.name, handler=definition.name, kind="cron", expression="* * * * *", declared=True,
            payload=definition.arguments((), {}) if "arguments" not in item else {}, queue=definition.queue,
            priority=definition.priority, retry=definition.retry, timeout=definition.timeout,
            lock_ttl=DEFAULT_LOCK_TTL,
        )  # fmt: skip
        changes = dict(_changes(definition, item, rule))
        from_file = {field: "file" for field in changes if field != "payload"}
        sources = {**(base.sources if base else sources_of(schedule, set())), **from_file}
        schedule = replace(schedule, **changes, sources=sources)
        if schedule.mode == "ALL_NODES":
            schedule = replace(schedule, lock_ttl=None)
        elif schedule.lock_ttl is None:
            schedule = replace(schedule, lock_ttl=DEFAULT_LOCK_TTL)
        check(schedule)
    except HoraeError as problem:
        return base, [Problem(place, f"{definition.name}: {problem}")]
    return schedule, list(_doubts(schedule, item, place))


def _changes(definition: Definition, item: Mapping[str, Override], rule: str | None) -> Iterator[tuple[str, Any]]:
    if rule is not None:
        kind = "cron" if rule == "cron" else "every"
        yield "kind", kind
        yield "expression", expression_of(kind, item[rule].value)
        yield "after", ()
    if rule == "fixed_rate":
        yield "anchor", "finish"  # document 003's engine rests for the interval after each run
    for key, override in item.items():
        if key == "arguments":
            yield "payload", payload_of(definition, override.value)
        elif key not in RULES:
            yield key, override.value
    if "catch_up" in item and "misfire" not in item:
        yield "misfire", "catch_up"


def _doubts(schedule: Schedule, item: Mapping[str, Override], place: str) -> Iterator[Problem]:
    stated = {key: override.value for key, override in item.items()}
    options = {"mode": schedule.mode, **({"lock_ttl": stated["lock_ttl"]} if "lock_ttl" in stated else {})}
    for problem in about_mode(schedule.key, options, scheduled=True, follows=schedule.kind == "after"):
        where = item["lock_ttl"].place if "lock_ttl" in item else place
        yield replace(problem, where=where, text=f"{schedule.key}: {problem.text}")
    if "initial_delay" in item and schedule.kind != "every":
        where = item["initial_delay"].place
        yield Problem(
            where, f"{schedule.key}: initial delay has an effect only on an interval; it is ignored", "warning"
        )
