"""Public values of the timetable: fires by hour, behind and ahead."""

from __future__ import annotations

from datetime import datetime

from horae.api.schedules.values import PileUp
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC


@dataclass(frozen=True, kw_only=True)
class TimetableHour:
    """One hour: fires to come, and of those that came how many ran and how many were skipped, merged or failed."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    fires: int = 0
    ran: int = 0
    missed: int = 0


@dataclass(frozen=True, kw_only=True)
class TimetableEntry:
    """A schedule in one hour."""

    __pydantic_config__ = PYDANTIC

    key: str
    owner: str
    handler: str
    queue: str
    fires: int = 0
    ran: int = 0
    missed: int = 0


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """Fires by hour, behind and ahead of ``now``; hours without any are left out.

    It reaches from ``since`` to ``until``; ``past_complete`` and ``complete`` say whether that is as far as was asked
    for. ``schedules`` is how many were looked at. ``pile_ups`` are minutes in which many schedules fire; those that
    fire evenly, every hour or more often, are not counted there. ``entries`` are the schedules of the hour asked for,
    at most 200.
    """

    __pydantic_config__ = PYDANTIC

    now: datetime
    since: datetime
    until: datetime
    complete: bool
    past_complete: bool
    schedules: int
    zone: str = "UTC"
    hours: tuple[TimetableHour, ...] = ()
    pile_ups: tuple[PileUp, ...] = ()
    entries: tuple[TimetableEntry, ...] = ()
    incomplete: tuple[str, ...] = ()
