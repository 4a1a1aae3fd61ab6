"""Public values of governed objects, what was found about them, and what will become of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar

from horae.api.jobs.room import Reason
from horae.api.values import Get, enrich
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.governance import objects as core
from horae.core.governance.evidence import EvidenceKind
from horae.core.governance.gates import Outcome
from horae.core.governance.machines import Action, Kind, Standing
from horae.core.governance.policies import Category, Impact, Mode, Risk, UnknownType
from horae.core.governance.recalls import Usable
from horae.core.governance.verdicts import reads_as_share
from horae.core.values import PYDANTIC

ENTRY = (
    "at", "actor", "verb", "object_type", "object_id", "owner", "reason", "before", "after", "evidence", "event_kind",
    "risk", "decision", "job", "correlation",
)  # fmt: skip


def _of_entry(name: str) -> Get:
    return lambda found: getattr(found[1], name)


@dataclass(frozen=True, kw_only=True)
class GovernedObject:
    """A memory, an experience or a piece of cognition as it stands; shares are numbers from 0 to 1."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "confidence": lambda found: reads_as_share(found.confidence),
        "tamper": lambda found: reads_as_share(found.tamper),
        "job": lambda found: None if found.job is None else job_id(found.job),
    }

    owner: str
    kind: Kind
    id: str
    status: str
    epistemic_state: str | None = None
    standing: Standing
    version: int
    agent: str = "*"
    subject: str = ""
    category: Category = "fact"
    risk: Risk = "medium"
    impact: Impact = "low"
    confidence: float | None = None
    tamper: float | None = None
    contested: bool = False
    protected: bool = False
    rejected: bool = False
    needs_person: bool = False
    stalled: bool = False
    unknown_type: UnknownType | None = None
    mode: Mode | None = None
    superseded_by: str | None = None
    created_at: datetime
    state_since: datetime
    verified_at: datetime | None = None
    checked_at: datetime | None = None
    review_due_at: datetime | None = None
    used_at: datetime | None = None
    reinforced_at: datetime | None = None
    stale_since: datetime | None = None
    uncertain_until: datetime | None = None
    expires_at: datetime | None = None
    erased_at: datetime | None = None
    verify_used: int = 0
    inconclusives: int = 0
    reinstate_checks: int = 0
    next_action: Action | None = None
    next_action_at: datetime | None = None
    job: str | None = None
    queue: str = core.GOVERNANCE
    proposer: str = ""
    source_type: str = ""
    source: str = ""
    decision: str | None = None


@dataclass(frozen=True, kw_only=True)
class RecalledObject(GovernedObject):
    """An object with its content, and whether it may be used: ``yes``, ``caution`` or ``no``, with the reason."""

    __pydantic_config__ = PYDANTIC

    content: str | None = None
    usable: Usable
    why: str
    rests_on: tuple[str, ...] = ()
    evidence: int = 0


@dataclass(frozen=True, kw_only=True)
class ProposedObject(GovernedObject):
    """An object that was proposed; ``deduplicated`` where it was there before: same id, same content."""

    __pydantic_config__ = PYDANTIC

    deduplicated: bool = False


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Where something can be found that speaks for or against an object."""

    __pydantic_config__ = PYDANTIC

    id: str
    reference: str
    kind: EvidenceKind
    at: datetime
    actor: str
    source: str = ""
    derived: bool = False
    survived: bool = False
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class ObjectToVerify(GovernedObject):
    """An object as its verifier sees it: with its content, all its evidence, and the action that is due.

    ``stored`` is False where a job names an object that is kept elsewhere: only kind, id, owner and action are known.
    """

    action: Action
    content: str | None = None
    rests_on: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    stored: bool = True


@dataclass(frozen=True, kw_only=True)
class AddedEvidence:
    """An object after evidence came: the pieces that are new, and those that it had."""

    __pydantic_config__ = PYDANTIC

    object: GovernedObject
    new: tuple[Evidence, ...] = ()
    known: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ObjectEntry:
    """What the audit says about an object; ``id`` is that of the entry, ``reason`` is gone where it was erased."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "id": lambda found: f"aud_{found[0]}",
        **{name: _of_entry(name) for name in ENTRY},
    }  # fmt: skip

    id: str
    at: datetime
    actor: str
    verb: str
    object_type: str
    object_id: str
    owner: str
    event_kind: str | None = None
    reason: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    risk: str | None = None
    decision: str | None = None
    job: str | None = None
    correlation: str | None = None


@dataclass(frozen=True, kw_only=True)
class WhyObject:
    """Why an object stands as it does: what moved it last, what it waits for, and by which rule."""

    __pydantic_config__ = PYDANTIC

    object: GovernedObject
    usable: Usable
    why: str
    policy: int
    rule: str | None = None
    waits: tuple[Reason, ...] = ()  # for what its next action waits
    last: ObjectEntry | None = None
    evidence: tuple[Evidence, ...] = ()
    verbs: tuple[str, ...] = ()  # what the caller may do with it now


@dataclass(frozen=True, kw_only=True)
class ObjectVersion:
    """An object after one change. ``content`` stands where it changed, ``facts`` are those that changed with it."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "status": lambda found: found.state.partition("/")[0],
        "epistemic_state": lambda found: found.state.partition("/")[2] or None,
        "facts": lambda found: dict(found.fields),
    }

    version: int
    at: datetime
    verb: str
    status: str
    epistemic_state: str | None = None
    content: str | None = None
    digest: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CitingDecision:
    """A decision that cites an object, in short."""

    __pydantic_config__ = PYDANTIC

    id: str
    outcome: Outcome
    risk: Risk
    agent: str
    action: str
    decided_at: datetime
    rolled_back_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ObjectLinks:
    """The neighbours of an object: what it rests on, what rests on it, and what was decided on it; the newest of each.

    ``more`` says that some of them are left out.
    """

    __pydantic_config__ = PYDANTIC

    rests_on: tuple[GovernedObject, ...] = ()
    carries: tuple[GovernedObject, ...] = ()
    decisions: tuple[CitingDecision, ...] = ()
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class StateCount:
    """How many objects of a kind have one state."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "status": lambda found: found.state.partition("/")[0],
        "epistemic_state": lambda found: found.state.partition("/")[2] or None,
    }

    kind: Kind
    status: str
    epistemic_state: str | None = None
    count: int
    contested: int = 0
    stalled: int = 0


@dataclass(frozen=True, kw_only=True)
class GovernanceOverview:
    """Objects by kind and state, what is due, and questions to a person. A count goes no further than 10,000.

    ``counts`` are of the newest 10,000 objects; ``complete`` where there are no others. ``late``: due for more than
    five minutes.
    """

    __pydantic_config__ = PYDANTIC

    counts: tuple[StateCount, ...] = ()
    looked_at: int
    complete: bool
    late: int
    due_in_a_day: int
    open_reviews: int
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ForecastStep:
    """One action that will come due if nothing new arrives, and the state that it leaves."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Get]] = {
        "status": lambda found: found.state.partition("/")[0],
        "epistemic_state": lambda found: found.state.partition("/")[2] or None,
    }

    at: datetime
    action: Action
    rule: str
    events: tuple[str, ...] = ()
    status: str
    epistemic_state: str | None = None


def recalled(view: Any) -> RecalledObject:
    """Return an object with its content and usability."""
    found: RecalledObject = enrich(
        RecalledObject,
        view.object,
        content=view.content,
        usable=view.usability.usable,
        why=view.usability.why,
        rests_on=view.rests_on,
        evidence=view.evidence,
    )
    return found
