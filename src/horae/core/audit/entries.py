"""Audit entries: who did what to which thing, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from horae.core.audit.chain import hash_link
from horae.core.time.instants import iso


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


def hash_entry(previous: str, seq: int, number: int, entry: Entry) -> str:
    """Return the hash of an entry at its place: it holds every entry of its owner before it in place."""
    body = {
        "seq": seq, "id": number, "at": iso(entry.at), "actor": entry.actor, "verb": entry.verb,
        "object_type": entry.object_type, "object_id": entry.object_id, "owner": entry.owner, "reason": entry.reason,
        "before": dict(entry.before), "after": dict(entry.after), "evidence": list(entry.evidence),
    }  # fmt: skip
    return hash_link(previous, body)
