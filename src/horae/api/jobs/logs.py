"""What attempts at a job have logged, as people see it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from horae.api.here import Here
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC


@dataclass(frozen=True, kw_only=True)
class LoggedLine:
    """A line that a handler has logged through ``ctx.logger``; what looks like a secret is masked."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    level: str
    text: str


@dataclass(frozen=True, kw_only=True)
class AttemptLog:
    """The last lines of one attempt, the oldest first; ``dropped`` earlier ones were not kept."""

    __pydantic_config__ = PYDANTIC

    run_id: str
    attempt: int
    lines: tuple[LoggedLine, ...] = ()
    dropped: int = 0


def read_logs(here: Here, job_id: str) -> Any:
    """Return what each attempt that has ended has logged."""
    from horae.actions.jobs.lines import read_lines

    found = read_lines(here.world, job_id, **here.reach)
    return [
        AttemptLog(
            run_id=f"{job_id}.{each.token}",
            attempt=each.attempt,
            lines=tuple(LoggedLine(at=line.at, level=line.level, text=line.text) for line in each.lines),
            dropped=each.dropped,
        )
        for each in found
    ]
