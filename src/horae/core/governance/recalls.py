"""Recall: whether what an agent remembers may be used, and why. Recalling changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.timers import crossing

Usable = Literal["yes", "caution", "no"]


@dataclass(frozen=True, slots=True)
class Usability:
    """Whether an object may be used, and the reason as a word."""

    usable: Usable
    why: str


def usability(it: GovernedObject, policy: Policy, now: datetime) -> Usability:
    """Return whether an object may be used now.

    Age is a reason to look again, never a verdict: what is past its time is used with caution.
    """
    if it.is_final:
        return Usability("no", "retracted")
    if it.superseded_by is not None:
        return Usability("no", "superseded")
    if it.status == "archived":
        return Usability("no", "archived")
    if it.standing == "refuted":
        return Usability("no", "refuted")
    if it.expires_at is not None and it.expires_at <= now:
        return Usability("no", "expired")
    if it.contested:
        return Usability("no" if it.risk == "high" else "caution", "contested")
    if it.status == "candidate":
        return Usability("caution", "not_verified")
    if it.standing == "uncertain":
        return Usability("caution", "uncertain")
    if it.verified_at is None or it.verified_at + crossing(it, policy) <= now:
        return Usability("caution", "due_for_a_look")
    return Usability("yes", "supported")
