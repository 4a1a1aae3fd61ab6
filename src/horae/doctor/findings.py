"""The result of a check, and what a check may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from horae.ports import Clock, World
from horae.settings import Settings

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing, and what to type where it is not well."""

    check: str
    level: Level
    text: str
    mend: str | None = None


@dataclass(frozen=True)
class Installation:
    """What the checks look at: the settings of this process, and the database once it is open."""

    settings: Settings
    environment: Mapping[str, str]
    clock: Clock
    file: Path | None = None  # where the database is a file
    world: World | None = None

    @property
    def now(self) -> datetime:
        return self.clock.now() if self.world is None else self.world.clock.now()


Check = Callable[[Installation], Iterable[Finding]]


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def warning(check: str, text: str, mend: str | None = None) -> Finding:
    return Finding(check, "warning", text, mend)


def problem(check: str, text: str, mend: str | None = None) -> Finding:
    return Finding(check, "problem", text, mend)


def disk_usage_command(file: Path) -> str:
    """Return the shell command that shows what uses the disk of a file."""
    folder = next(each for each in file.absolute().parents if each.exists())
    return f"du -xh {folder} | sort -h | tail"


def some(names: Iterable[str], most: int = 5) -> str:
    """Return a few names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
