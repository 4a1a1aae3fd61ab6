"""Lines that handlers have logged: the last ones of an attempt, bounded, without secrets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from horae.core.dataclass import dataclass
from horae.core.jobs.masking import mask_text

MOST_LINES = 200  # of one attempt, and
MOST_BYTES = 64 * 1024  # of their text; earlier lines are dropped
LONGEST = 8_000  # characters of one line
CUT = " … (cut)"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a handler has logged."""

    at: datetime
    level: str
    text: str

    @property
    def size(self) -> int:
        return len(self.text.encode())


@dataclass(frozen=True, slots=True)
class Lines:
    """The last lines of an attempt; *dropped* earlier ones were not kept."""

    lines: tuple[LogLine, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class AttemptLines:
    """The lines of one attempt at a job."""

    token: int
    attempt: int
    lines: tuple[LogLine, ...]
    dropped: int = 0


def log_line(at: datetime, level: str, text: str) -> LogLine:
    """Return a line that every database can store, cut to what is kept of one."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    kept = clean if len(clean) <= LONGEST else clean[: LONGEST - len(CUT)] + CUT
    return LogLine(at, level if level in LEVELS else "INFO", kept)


def bound(lines: Iterable[LogLine], dropped: int = 0) -> Lines:
    """Return the last lines, as many as are kept of an attempt."""
    kept, size = list[LogLine](), 0
    given = list(lines)
    for line in reversed(given[-MOST_LINES:]):
        size += line.size
        if size > MOST_BYTES:
            break
        kept.append(line)
    return Lines(tuple(reversed(kept)), dropped + len(given) - len(kept))


def mask_lines(lines: Sequence[LogLine], secrets: Collection[str]) -> tuple[LogLine, ...]:
    """Return lines without what looks like a secret, and without these."""
    return tuple(replace(line, text=mask_text(line.text, secrets)) for line in lines)
