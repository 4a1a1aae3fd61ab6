"""Personas: what an agent does not do, and what it values. Only a person changes one."""

from __future__ import annotations

from datetime import datetime

from horae.core.dataclass import dataclass
from horae.core.governance.gates import Boundary


@dataclass(frozen=True, slots=True)
class Persona:
    """The persona of one agent, or with ``*`` of every agent of an owner."""

    owner: str
    agent: str
    changed_at: datetime
    changed_by: str
    boundaries: tuple[Boundary, ...] = ()
    values: tuple[str, ...] = ()
    archived: bool = False
    version: int = 1
