"""Rollbacks: what rested on a forged memory is taken back, step by step."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass

RollbackState = Literal["open", "done"]


@dataclass(frozen=True, slots=True)
class Rollback:
    """A cascade from one forged memory; while it is open, high-risk decisions of its agent are blocked.

    At its end ``found`` is ``moved`` and ``final`` together.
    """

    number: int
    owner: str
    id: str
    root: int
    started_at: datetime
    actor: str
    agent: str = "*"
    state: RollbackState = "open"
    position: int = 0  # how far the objects that rest on it have been walked
    found: int = 0
    moved: int = 0
    final: int = 0  # found in a state that could not be taken back further
    job: int | None = None  # that goes on with it
    finished_at: datetime | None = None
