"""``jobs.conf``: what operations may change about declared jobs without touching the code.

The file names jobs by id and overrides options of ``@app.job``, by their names; some also have document 003's, which
count milliseconds. ``jobs.<environment>.conf`` beside it wins where it says something. An unknown
id or key is an error with the line and the nearest known word: a misspelled override would otherwise have no effect.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.running_limits import GROUP, QUEUE, check_limit_name, check_max_running
from horae.declare.declarations import Problem
from horae.declare.file_values import KEYS
from horae.declare.options import not_in_file
from horae.errors import ConfigurationError, DefinitionError, HoraeError

FILE = "jobs.conf"
ITEMS = "[[jobs.items]]"


def _max_running(value: Any) -> int | None:
    return None if value == "none" else check_max_running(value)


RULES = ("cron", "every", "fixed_rate", "after")


@dataclass(frozen=True)
class Override:
    """One value from a file."""

    value: Any
    location: str  # file and line
    word: str  # as the file spells it


@dataclass(frozen=True)
class JobsFile:
    """The contents of the files, merged: the file of the environment wins."""

    enabled: bool | None = None
    items: Mapping[str, Mapping[str, Override]] = field(default_factory=dict)
    limits: Mapping[str, Override] = field(default_factory=dict)  # how many jobs may run at once; None lifts
    locations: Mapping[str, str] = field(default_factory=dict)  # where each item begins
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
            {**together.locations, **stronger.locations},
            together.paths + stronger.paths,
            together.problems + stronger.problems,
        )
    return together


def _read(path: Path) -> JobsFile:
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors mark their files
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        error = DefinitionError("file_unreadable", problem=str(problem))
        return JobsFile(paths=(path,), problems=(Problem.of(str(path), error),))
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
            self._note("jobs", None, DefinitionError("file_jobs_no_table"))
            jobs = {}
        self._refuse_unknown(jobs, ("enabled", "items", "limits"), None)
        enabled = jobs.get("enabled")
        if enabled is not None and not isinstance(enabled, bool):
            self._note("enabled", None, DefinitionError("file_enabled_not_boolean", value=repr(enabled)))
            enabled = None
        items: dict[str, dict[str, Override]] = {}
        locations: dict[str, str] = {}
        listed = jobs.get("items", [])
        for number, item in enumerate(listed if isinstance(listed, list) else []):
            name = item.get("id") if isinstance(item, dict) else None
            if not isinstance(name, str) or not name.strip():
                self._note(None, number, DefinitionError("file_item_without_id"))
            elif name in items:
                self._note("id", number, DefinitionError("file_item_twice", name=name))
            else:
                items[name] = self._item(number, name, item)
                locations[name] = self._locate("id", number)
        if not isinstance(listed, list):
            self._note("items", None, DefinitionError("file_items_no_list"))
        limits = self._limits(jobs.get("limits", {}))
        return JobsFile(enabled, items, limits, locations, (self._path,), tuple(self._problems))

    def _limits(self, limits: Any) -> dict[str, Override]:
        """Read ``[jobs.limits]``: ``global``, and the tables ``groups`` and ``queues`` by name."""
        if not isinstance(limits, dict):
            self._note("limits", None, DefinitionError("file_limits_no_table"))
            return {}
        self._refuse_unknown(limits, ("global", "groups", "queues"), None)
        found: dict[str, Override] = {}
        rows = [("global", "global", limits["global"])] if "global" in limits else []
        for table, prefix in (("groups", GROUP), ("queues", QUEUE)):
            named = limits.get(table, {})
            if not isinstance(named, dict):
                self._note(table, None, DefinitionError("file_limits_not_by_name", table=table))
                continue
            rows += [(word, prefix + word, most) for word, most in named.items()]
        for word, name, most in rows:
            try:
                found[check_limit_name(name)] = Override(_max_running(most), self._locate(word, None), word)
            except HoraeError as problem:
                error = DefinitionError("file_limit_invalid", key=word, value=repr(most), problem=str(problem))
                self._note(word, None, error)
        return found

    def _item(self, number: int, name: str, item: Mapping[str, Any]) -> dict[str, Override]:
        reasons = not_in_file()
        self._refuse_unknown(
            {word: value for word, value in item.items() if word not in reasons}, ("id", *KEYS), number
        )
        for word in item:
            if word in reasons:
                error = DefinitionError("file_option_refused", key=word, name=name, advice=reasons[word])
                self._note(word, number, error)
        overrides: dict[str, Override] = {}
        for word, value in item.items():
            if word not in KEYS:
                continue
            option, read = KEYS[word]
            try:
                override = Override(read(value), self._locate(word, number), word)
            except HoraeError as problem:
                refused = DefinitionError(
                    "file_option_invalid", key=word, value=repr(value), name=name, problem=str(problem)
                )
                self._note(word, number, refused)
                continue
            if option in overrides:
                both = f"{word} and {overrides[option].word}"
                self._note(word, number, DefinitionError("file_options_same", options=both, name=name))
            overrides[option] = override
        rules = [overrides[key].word for key in RULES if key in overrides]
        if len(rules) > 1:
            error = DefinitionError("file_options_exclusive", options=" and ".join(rules), name=name)
            self._note(rules[1], number, error)
        return overrides

    def _refuse_unknown(self, table: Mapping[str, Any], known: tuple[str, ...], number: int | None) -> None:
        for word in table:
            if word not in known:
                close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
                if close:
                    self._note(word, number, DefinitionError("file_key_misspelt", key=word, close=close[0]))
                else:
                    self._note(word, number, DefinitionError("file_key_unknown", key=word, choices=list(known)))

    def _note(self, word: str | None, number: int | None, error: HoraeError) -> None:
        self._problems.append(Problem.of(self._locate(word, number), error))

    def _locate(self, word: str | None, number: int | None) -> str:
        """Return file and line of a word, found by its text: the parser keeps no positions."""
        first, last = 0, len(self._lines)
        if number is not None and number < len(self._starts):
            first = self._starts[number]
            last = next((start for start in self._starts if start > first), last)
        elif number is not None:
            return str(self._path)
        pattern = re.compile(rf"""\s*(\[+\s*(jobs\.items\.)?)?["']?{re.escape(word)}["']?\s*[=\].]""") if word else None
        for line in range(first, last):
            if pattern is None or pattern.match(self._lines[line]):
                return f"{self._path}:{line + 1}"
        return f"{self._path}:{first + 1}"
