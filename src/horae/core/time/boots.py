"""The current boot of the host. Within one boot, uptime is a clock that cannot be set."""

from __future__ import annotations

from datetime import datetime, timedelta

from horae.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of the host: its id (empty where there is none) and its uptime, time asleep included."""

    name: str
    uptime: timedelta


@dataclass(frozen=True, slots=True)
class LeaseLine:
    """The instant from which uptime is counted, and whether all processes know it by now."""

    began_at: datetime
    is_stored: bool = True
