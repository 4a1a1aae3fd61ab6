"""Audit entries: who did what to which thing, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, field, fields
from datetime import datetime
from functools import cache
from typing import Any, Literal, cast

from horae.core.dataclass import dataclass
from horae.core.time.instants import iso

# What an entry about governed objects is an instance of.
EventKind = Literal[
    "state_transition", "decision_gate", "scheduler_job", "rollback", "investigation", "policy_override"
]


@dataclass(frozen=True, slots=True)
class PrivateReason:
    """A reason that can be erased: the chain holds its keyed digest, the text is stored beside the entries.

    Without the key the text behind a digest cannot be guessed; both go when the text is erased.
    """

    text: str
    key: str

    @property
    def digest(self) -> str:
        import hmac  # few processes write a private reason

        return hmac.new(self.key.encode(), self.text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One accountable act, written in the transaction that it describes.

    A new field needs a default, and is hashed only where it differs from it, so that chains of earlier releases stay
    valid. Fields hold text, whole numbers, truth values, lists and mappings; never a floating point number.
    """

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
    event_kind: EventKind | None = None
    risk: str | None = None
    decision: str | None = None
    job: str | None = None
    correlation: str | None = None
    reason_digest: str | None = None
    private_reason: PrivateReason | None = field(default=None, metadata={"beside": True})  # only where one is written


# Hashed in every entry, set or not, since the first release. This list never changes.
ALWAYS_HASHED = frozenset(
    ("at", "actor", "verb", "object_type", "object_id", "owner", "reason", "before", "after", "evidence")
)


def entry_body(seq: int, number: int, entry: Entry) -> dict[str, Any]:
    """Return what is hashed of an entry, and exported: plain JSON."""
    body = {
        "seq": seq, "id": number, "at": iso(entry.at), "actor": entry.actor, "verb": entry.verb,
        "object_type": entry.object_type, "object_id": entry.object_id, "owner": entry.owner, "reason": entry.reason,
        "before": dict(entry.before), "after": dict(entry.after), "evidence": list(entry.evidence),
    }  # fmt: skip
    for name, default in _optional_fields(cast(Hashable, type(entry))):
        value = getattr(entry, name)
        if value != default:
            body[name] = value
    return body


def hash_entry(previous: str, seq: int, number: int, entry: Entry) -> str:
    """Return the hash of an entry at its position, which covers every entry of its owner before it."""
    from horae.core.audit.chain import hash_link

    return hash_link(previous, entry_body(seq, number, entry))


def without_floats(value: Any) -> Any:
    """Return a value without floating point numbers: whole ones as integers, others as their decimal text.

    Two readers need not agree on how to write a floating point number, and a hash must not depend on it.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, Mapping):
        return {name: without_floats(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_floats(each) for each in value]
    return value


@cache
def _optional_fields(kind: Hashable) -> tuple[tuple[str, Any], ...]:
    """Return the fields that are hashed only where they are set, each with its default."""
    known = fields(cast(type[Entry], kind))
    later = [each for each in known if each.name not in ALWAYS_HASHED and not each.metadata.get("beside")]
    assert all(each.default is not MISSING for each in later), "a new field of an entry needs a plain default"
    return tuple((each.name, each.default) for each in later)
