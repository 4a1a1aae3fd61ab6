"""What callers send about governed objects and policies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from horae.core.governance.evidence import EvidenceKind
from horae.core.governance.machines import Action, Kind, Verdict
from horae.core.governance.objects import MAX_SUBJECT
from horae.core.governance.policies import Category, Impact, Mode, Risk, UnknownType
from horae.core.governance.proposals import MAX_SOURCE
from horae.core.governance.references import MAX_CITES, MAX_ID
from horae.core.governance.verdicts import MAX_EVIDENCE, MAX_NOTE, MAX_REFERENCE
from horae.service.fields import Instant, OperationBody, Path, Query
from horae.service.inputs import OperationReason, ReasonBody, check_one_line, check_storable
from horae.service.routes.decisions import Reference

KindFilter = Annotated[Kind | None, Query(description="Needed where several kinds share the id.")]
KindPath = Annotated[Kind, Path(examples=["memory"])]
Text = Annotated[str, Field(max_length=MAX_REFERENCE), AfterValidator(check_storable)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
LONGEST = 100_000_000  # characters: what is too long is refused in words of its own, with 413


class GivenEvidence(OperationBody):
    """A piece of evidence: where it can be found."""

    reference: Text = Field(examples=["https://example.org/minutes#3"])
    kind: EvidenceKind | None = None
    source: Annotated[str, Field(max_length=MAX_SOURCE), AfterValidator(check_storable)] = ""
    survived: bool = False
    note: Annotated[str, Field(max_length=MAX_NOTE), AfterValidator(check_storable)] = ""

    def given(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


EvidenceList = Annotated[list[Text | GivenEvidence], Field(max_length=MAX_EVIDENCE)]


class Propose(OperationBody):
    """Something to remember."""

    kind: Kind
    content: Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(check_storable)]
    id: Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(check_one_line)] | None = None
    subject: Annotated[str, Field(max_length=MAX_SUBJECT), AfterValidator(check_one_line)] = ""
    agent: Annotated[str, Field(max_length=100)] | None = None
    category: Category = "fact"
    risk: Risk = "medium"
    impact: Impact = "low"
    confidence: Share | None = None
    tamper: Share | None = None
    source_type: Annotated[str, Field(max_length=40), AfterValidator(check_one_line)] = ""
    source: Annotated[str, Field(max_length=MAX_SOURCE), AfterValidator(check_one_line)] = ""
    rests_on: list[Reference] = Field(default=[], max_length=MAX_CITES)
    evidence: EvidenceList = Field(default=[])
    expires_at: Instant | None = None
    next_action_at: Instant | None = None
    protected: bool = False
    unknown_type: UnknownType | None = None
    mode: Mode | None = None

    def fields(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in Propose.model_fields}
        return named | {"evidence": pieces(self.evidence)}


class ProposeOne(Propose, ReasonBody):
    """Something to remember, and why."""

    decision: Annotated[str, Field(max_length=MAX_ID)] | None = None
    correlation: Annotated[str, Field(max_length=100)] | None = None


class ProposeMany(OperationReason):
    """Up to a thousand objects, all or none."""

    objects: Annotated[list[Propose], Field(min_length=1, max_length=1000)]


class OnObject(OperationReason):
    """A verb on an object, and why."""

    kind: Kind | None = None


class WithEvidence(OnObject):
    """The same, with evidence."""

    evidence: EvidenceList = Field(default=[])


class Conclude(OnObject):
    """A verdict."""

    verdict: Verdict
    evidence: Annotated[list[Text], Field(max_length=MAX_EVIDENCE)] = Field(default=[])
    confidence: Share | None = None
    counterexample: Literal["survived"] | None = None
    note: Annotated[str, Field(max_length=MAX_NOTE), AfterValidator(check_storable)] = ""
    next_action_at: Instant | None = None


class VerifyNow(OnObject):
    """An action that is asked for."""

    action: Action | None = None
    at: Instant | None = None


class Supersede(OnObject):
    """The object that takes the place of this one."""

    by: Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(check_one_line)]


class SetPolicy(OperationReason):
    """Settings that differ from the built-in policy: spans in seconds, shares from 0 to 1."""

    settings: dict[str, Any] = Field(examples=[{"verify_budget": 3, "stability": 1209600}])


class Replan(OperationReason):
    dry_run: bool = True


NOTHING, NO_EVIDENCE, NOW = OnObject(), WithEvidence(), VerifyNow()


def pieces(given: list[Any]) -> list[Any]:
    return [each if isinstance(each, str) else each.given() for each in given]


class RollBack(OperationReason):
    """A rollback, or a look at what it would reach."""

    dry_run: bool = False


class Erase(OperationReason):
    """What to erase: one object by its id, or all about a subject."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(check_one_line)] | None = None
    subject: Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT), AfterValidator(check_one_line)] | None = None
    kind: Literal["memory", "experience", "cognition"] | None = None
