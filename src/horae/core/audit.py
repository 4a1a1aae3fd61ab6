"""Audit entries: who did what to which thing, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One accountable act, written in the transaction that it describes."""

    at: datetime
    actor: str
    verb: str
    object_type: str
    object_id: str
    owner: str = "system"
    reason: str | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
