"""Reasons that people write down: kept beside the audit, so that they can be erased while the chain stays valid."""

from __future__ import annotations

from typing import Any

from horae.core.audit.entries import PrivateReason
from horae.core.jobs.payloads import encode
from horae.errors import InvalidInput
from horae.ports.world import HasDice

MAX_REASON = 4000
KEY_LENGTH = 32


def reason_text(text: str) -> str:
    """Return a reason that every database can keep, or refuse it."""
    if not isinstance(text, str) or len(text) > MAX_REASON:
        raise InvalidInput("governed_reason_outside", most=MAX_REASON)
    encode(text, "reason")
    return text.strip()


def private_reason(world: HasDice, text: str) -> dict[str, Any]:
    """Return the fields of an entry that hold a reason, if there is one."""
    kept = reason_text(text)
    if not kept:
        return {}
    reason = PrivateReason(kept, world.dice.name(KEY_LENGTH))
    return {"reason_digest": reason.digest, "private_reason": reason}
