"""Decisions: what an action came to, and what it rested on. The outcome of one never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.gates import Outcome
from horae.core.governance.machines import Standing
from horae.core.governance.policies import Risk


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision. Later it may be rolled back and have a successor; nothing else about it changes."""

    number: int
    owner: str
    id: str
    action: str
    risk: Risk
    outcome: Outcome
    mode: str
    reason: str
    standing: Standing
    decided_at: datetime
    actor: str
    agent: str = "*"
    gates: Mapping[str, Any] = field(default_factory=dict)
    correlation: str | None = None
    job: int | None = None
    review: str | None = None  # by which it was approved
    predecessor: str | None = None
    successor: str | None = None
    rolled_back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cite:
    """An object that a decision rests on, as it stood then."""

    decision: int
    object: int
    owner: str
    version: int
    state: str
