"""What became of an action or a wait that a framework asked for; also where it is not known whether it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from horae.core.attention.facts import Fact, FactList
from horae.core.dataclass import dataclass

ENDINGS = (
    "action_ok", "action_failed", "action_partial", "action_unknown", "denied", "timed_out", "event", "grant_refused",
)  # fmt: skip
NOT_DONE = ("denied", "grant_refused")
TEXTS = {
    "denied": "A person has refused this; it was not done.",
    "grant_refused": "The approval no longer fits what was asked for; it was not done.",
    "action_failed": "It ended with an error. Whether it took effect before that is not known: look before you repeat "
    "it.",
    "action_partial": "It was done in part.",
    "action_unknown": "It is not known whether this happened: the process died while it was done. It may have taken "
    "effect. Do not repeat it and do not say that it failed; look up its state first, or tell a person.",
    "timed_out": "No answer came in time.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an action or a wait: the kind of the fact, and its data."""

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None

    @property
    def happened(self) -> bool | None:
        """Whether it was done; None where that is not known, as after an error or ``action_unknown``."""
        if self.kind in ("action_ok", "event"):
            return True
        if self.kind in NOT_DONE or (self.kind == "timed_out" and self.data.get("kind") == "confirm"):
            return False
        return None

    def for_model(self) -> dict[str, Any]:
        """Return it as a model should read it: never "not done" of something that may have happened."""
        said = {"happened": self.happened, **({"note": TEXTS[self.kind]} if self.kind in TEXTS else {})}
        return {"outcome": self.kind, **said, "data": dict(self.data), **({"key": self.key} if self.key else {})}

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "data": dict(self.data), "key": self.key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Answer:
        return cls(str(value["kind"]), dict(value.get("data") or {}), value.get("key"))

    @classmethod
    def of(cls, fact: Fact) -> Answer:
        return cls(fact.kind, dict(fact.data), fact.key)


def last_answer(facts: FactList) -> Answer:
    """Return the last fact that answers an action; without one, its end is unknown."""
    found = [fact for fact in facts if fact.kind in ENDINGS]
    return Answer.of(found[-1]) if found else Answer("action_unknown")
