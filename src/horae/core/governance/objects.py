"""A governed object: a memory, an experience or a piece of cognition, with its clocks and counters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from horae.core.governance.machines import Action, Kind, epistemic_of, is_final, is_uncertain, standing_of, status_of
from horae.core.governance.policies import DAY, Category, Impact, Mode, Risk, UnknownType

PREFIXES: dict[str, str] = {"memory": "mem_", "experience": "exp_", "cognition": "cog_"}
MAX_CONTENT = 256 * 1024
MAX_SUBJECT = 200


@dataclass(frozen=True, slots=True)
class GovernedObject:
    """One object as it stands. Content lives in versions; shares are parts of a million."""

    number: int
    owner: str
    kind: Kind
    id: str
    state: str
    created_at: datetime
    state_since: datetime
    agent: str = "*"
    subject: str = ""
    category: Category = "fact"
    version: int = 1
    risk: Risk = "medium"
    impact: Impact = "low"
    confidence: int | None = None
    tamper: int | None = None
    contested: bool = False
    protected: bool = False
    stalled: bool = False
    unknown_type: UnknownType | None = None
    mode: Mode | None = None
    superseded_by: str | None = None
    # the clock of truth
    stability: timedelta = 14 * DAY
    verified_at: datetime | None = None
    checked_at: datetime | None = None  # the last verdict, whatever it was
    review_due_at: datetime | None = None
    # the clock of use
    used_at: datetime | None = None
    reinforced_at: datetime | None = None
    # ends
    stale_since: datetime | None = None
    uncertain_until: datetime | None = None
    expires_at: datetime | None = None
    review_deadline: datetime | None = None
    asked_action: Action | None = None  # of a caller, once
    asked_at: datetime | None = None
    # counters; the last two never go back
    verify_used: int = 0
    reinforcements: int = 0  # since the last verdict
    new_evidence: int = 0  # since the last verdict
    reinstate_signal: bool = False
    inconclusives: int = 0
    reinstate_checks: int = 0
    # what is planned
    next_action: Action | None = None
    next_action_at: datetime | None = None

    @property
    def status(self) -> str:
        return status_of(self.state)

    @property
    def epistemic_state(self) -> str | None:
        return epistemic_of(self.state)

    @property
    def standing(self) -> str:
        return standing_of(self.state)

    @property
    def is_final(self) -> bool:
        return is_final(self.kind, self.state)

    @property
    def is_uncertain(self) -> bool:
        return is_uncertain(self.state)

    @property
    def is_unknowable(self) -> bool:
        return self.unknown_type == "ontic_unknowable"

    @property
    def has_signal(self) -> bool:
        """Whether something new came since the last verdict: evidence, reinforcement, or a request to reinstate."""
        reinforced = self.reinforced_at is not None and self.stale_since is not None
        fresh = reinforced and self.reinforced_at >= self.stale_since  # type: ignore[operator]
        return self.reinstate_signal or self.reinforcements > 0 or self.new_evidence > 0 or fresh
