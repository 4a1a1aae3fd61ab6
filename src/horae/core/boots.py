"""A host from its start to its end: within one, time since the start is a clock that nobody can set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Boot:
    """One run of the host: its name, empty where the host does not say, and how long it has lasted, asleep or awake."""

    name: str
    lasted: timedelta
