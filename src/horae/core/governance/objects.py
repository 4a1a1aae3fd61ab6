"""A governed object: a memory, an experience or a piece of cognition, with its clocks and counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.machines import (
    Action,
    Kind,
    Standing,
    Verdict,
    epistemic_of,
    is_final,
    is_uncertain,
    standing_of,
    status_of,
)
from horae.core.governance.policies import DAY, Category, Impact, Mode, Risk, UnknownType
from horae.core.values import replacing, swift

PREFIXES: dict[str, str] = {"memory": "mem_", "experience": "exp_", "cognition": "cog_"}
MAX_CONTENT = 256 * 1024
MAX_SUBJECT = 200
GOVERNANCE = "governance"  # the queue of objects that came through Python; document 000's have `scheduler`


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict about a suspected object that waits for a second, independent one."""

    verifier: str
    verdict: Verdict
    evidence: tuple[str, ...] = ()


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
    rejected: bool = False  # once found forged, invalid or refuted; what says the same is suspected at once
    needs_person: bool = False  # only a person may clear it
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
    kept_until: datetime | None = None  # not archived before: the cap of a day was reached, or it is cited
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
    job: int | None = None  # its one live job
    queue: str = GOVERNANCE  # into which its jobs go: that of the door by which it came
    admitted_version: int | None = None  # while its job runs: the version that it was admitted with
    put_backs: int = 0  # by a gate, one after another
    reviews: int = 0  # opened by themselves, in its life
    reviewed_at: datetime | None = None  # when the last of those was opened
    # where it comes from
    proposer: str = ""
    source_type: str = ""
    source: str = ""
    subject_key: str = ""  # a digest by which its subject is found
    fingerprint: str | None = None  # of subject and content, by which a repetition is found
    opinions: tuple[Opinion, ...] = ()
    decision: str | None = None  # the last one about it, which entries of high risk link
    erased_at: datetime | None = None

    @property
    def status(self) -> str:
        return status_of(self.state)

    @property
    def epistemic_state(self) -> str | None:
        return epistemic_of(self.state)

    @property
    def standing(self) -> Standing:
        return standing_of(self.state)

    @property
    def is_final(self) -> bool:
        return is_final(self.kind, self.state)

    @property
    def is_uncertain(self) -> bool:
        return is_uncertain(self.state)

    @property
    def is_unknowable(self) -> bool:
        """Whether no observation could decide it: it is looked at a few times more in its life, and then rests."""
        lives = self.is_uncertain or self.status in ("candidate", "needs_review")
        return lives and self.unknown_type == "ontic_unknowable"

    @property
    def has_signal(self) -> bool:
        """Whether something new came since the last verdict: evidence, reinforcement, or a request to reinstate."""
        return self.reinstate_signal or self.reinforcements > 0 or self.new_evidence > 0 or self._is_reinforced

    @property
    def _is_reinforced(self) -> bool:
        """Whether it was reinforced after it had become stale, and no verdict has seen that yet."""
        if self.reinforced_at is None or self.stale_since is None:
            return False
        unseen = self.checked_at is None or self.reinforced_at > self.checked_at
        return unseen and self.reinforced_at >= self.stale_since


make_object = swift(GovernedObject)  # the constructor, and quicker
changed = replacing(GovernedObject)  # like dataclasses.replace, and quicker


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """An object as it was after one change; the first version has the content, a later one only where it changed.

    The digest is keyed: without the key the content behind it cannot be guessed. Erasure drops both content
    and key.
    """

    owner: str
    object: int
    version: int
    at: datetime
    verb: str
    state: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    content: str | None = None
    content_key: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """An object rests on another one of a lower kind."""

    owner: str
    object: int
    rests_on: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Removals:
    """How many objects of an owner went into the archive on one UTC day, and how many were live when it was asked."""

    owner: str
    day: datetime
    removed: int = 0
    live: int | None = None  # counted once a day, when the floor of the cap is reached


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many objects of a kind are in one state, and how many of those are contested or stalled."""

    kind: str
    state: str
    count: int
    contested: int = 0
    stalled: int = 0


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """A filter for objects; None means any."""

    owner: str | None = None
    kind: str | None = None
    states: tuple[str, ...] = ()
    agent: str | None = None
    subject_key: str | None = None
    risk: str | None = None
    contested: bool | None = None
    stalled: bool | None = None
    due_before: datetime | None = None
