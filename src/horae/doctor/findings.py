"""The result of a check, and what a check may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.reasons import Reason
from horae.errors import Fact
from horae.ports.world import Clock, World
from horae.settings import Settings

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing, and what to type where it is not well."""

    check: str
    level: Level
    why: Reason
    mend: str | None = None

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.why.text

    def as_json(self) -> dict[str, str | None]:
        """Return it for programs; its sentence is English."""
        return {"check": self.check, "level": self.level, "text": self.text, "mend": self.mend}


@dataclass(frozen=True)
class Installation:
    """The input of the checks: the settings of this process, and the database once it is open."""

    settings: Settings
    environment: Mapping[str, str]
    clock: Clock
    file: Path | None = None  # where the database is a file
    world: World | None = None

    @property
    def now(self) -> datetime:
        return self.clock.now() if self.world is None else self.world.clock.now()


Check = Callable[[Installation], Iterable[Finding]]


def ok(check: str, reason: str, **facts: Fact) -> Finding:
    return Finding(check, "ok", Reason(check, reason, facts))


def warning(check: str, reason: str, mend: str | None = None, **facts: Fact) -> Finding:
    return Finding(check, "warning", Reason(check, reason, facts), mend)


def problem(check: str, reason: str, mend: str | None = None, **facts: Fact) -> Finding:
    return Finding(check, "problem", Reason(check, reason, facts), mend)


def disk_usage_command(file: Path) -> str:
    """Return the shell command that shows what uses the disk of a file."""
    folder = next(each for each in file.absolute().parents if each.exists())
    return f"du -xh {folder} | sort -h | tail"


def some(names: Iterable[str], most: int = 5) -> list[str]:
    """Return a few names, and a mark where there are more."""
    listed = list(names)
    return [*listed[:most], "…"] if len(listed) > most else listed
