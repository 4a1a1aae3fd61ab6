"""What a verifier answers: a verdict, or that an agent has to think about it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Any, Self

from horae.core.attention.lanes import lane_name
from horae.core.dataclass import dataclass
from horae.core.governance import machines
from horae.core.governance.verdicts import Finding, finding_from
from horae.core.jobs.payloads import encode
from horae.core.jobs.payloads import name as checked_name
from horae.core.time.spans import Span, span
from horae.errors import InvalidInput

ATTEND = "attend"
MOST_PRIORITY = 20  # thinking about memories never takes the focus from real work
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=30)
MAX_PAYLOAD = 64 * 1024
ATTEND_FIELDS = {"lane", "kind", "timeout", "payload", "priority"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verifier found: ``Verdict.confirmed(evidence=["web:1"], confidence=0.9, cost={"tokens": 120})``.

    *evidence* are references to what it looked at, *cost* is what it really spent, and a cognition is adopted only
    where a counter-example was *survived*.
    """

    verdict: machines.Verdict
    evidence: Sequence[str] = ()
    confidence: float | None = None
    survived: bool = False
    cost: Mapping[str, int] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        finding_from(self.as_json())  # refused here, where the traceback shows who made it

    @classmethod
    def confirmed(cls, **found: Any) -> Self:
        """It holds."""
        return cls("confirmed", **found)

    @classmethod
    def refuted(cls, **found: Any) -> Self:
        """It does not hold."""
        return cls("refuted", **found)

    @classmethod
    def inconclusive(cls, **found: Any) -> Self:
        """Nothing decides it now; it is looked at again later."""
        return cls("inconclusive", **found)

    @classmethod
    def unknowable(cls, **found: Any) -> Self:
        """No observation could decide it."""
        return cls("unknowable", **found)

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels."""
        body: dict[str, Any] = {"verdict": self.verdict, "evidence": self.evidence}
        if isinstance(self.evidence, tuple):
            body["evidence"] = list(self.evidence)
        optional = {"confidence": self.confidence, "cost": self.cost, "note": self.note}
        body |= {name: value for name, value in optional.items() if value not in (None, "", {})}
        return body | ({"counterexample": "survived"} if self.survived else {})


@dataclass(frozen=True, slots=True)
class Attend:
    """The answer of a verifier that must think: an agent gets a task in its *lane*, and its result is the verdict.

    The task has a low priority, so that it never takes the focus from real work. Without an answer within *timeout*
    the verdict is inconclusive. *payload* is given to the task beside the object.
    """

    lane: str
    kind: str
    timeout: Span
    payload: Any = None
    priority: int = MOST_PRIORITY

    def __post_init__(self) -> None:
        lane_name(self.lane)
        checked_name(self.kind, "kind of task")
        if not SHORTEST <= self.limit <= LONGEST:
            raise InvalidInput("attend_timeout_outside", most_days=LONGEST.days)
        is_whole = isinstance(self.priority, int) and not isinstance(self.priority, bool)
        if not is_whole or not 0 <= self.priority <= MOST_PRIORITY:
            raise InvalidInput("attend_priority_outside", most=MOST_PRIORITY)
        encode(self.payload, "payload", MAX_PAYLOAD)

    @property
    def limit(self) -> timedelta:
        return span(self.timeout)

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels: the timeout in seconds."""
        body = {"lane": self.lane, "kind": self.kind, "timeout": self.limit.total_seconds(), "priority": self.priority}
        return {ATTEND: body | ({} if self.payload is None else {"payload": self.payload})}


Answer = Finding | Attend


def answer_from(given: Any) -> Answer:
    """Read what a verifier returned or sent; refuse what is neither a verdict nor a task for an agent, in words."""
    if isinstance(given, Verdict):
        given = given.as_json()
    if isinstance(given, Attend):
        return given
    if isinstance(given, Mapping) and ATTEND in given:
        body = given[ATTEND]
        missing = not isinstance(body, Mapping) or not {"lane", "kind", "timeout"} <= set(body) <= ATTEND_FIELDS
        if missing or len(given) > 1:
            raise InvalidInput("attend_unreadable", fields=sorted(ATTEND_FIELDS))
        return Attend(**body)
    return finding_from(given)


def answer_as_json(given: Any, verifier: str) -> dict[str, Any]:
    """Return the answer of a verifier as its job's result; refuse one that is unreadable, in words."""
    answer_from(given)
    body: dict[str, Any] = given.as_json() if isinstance(given, Verdict | Attend) else dict(given)
    return body if ATTEND in body else {"verifier": verifier, **body}
