"""``/governance/decisions``, ``/governance/personas``, ``/governance/reviews``: what was decided, and by whom."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator, Field

from horae.api.governance.decisions import ACTION, Decision, Decisions
from horae.api.governance.personas import Boundary, Persona, PersonaChange, Personas
from horae.api.governance.reviews import GivenAnswer, Review, Reviews
from horae.api.operation import Page
from horae.core.governance.boundaries import MAX_BOUNDARIES, MAX_TEXT
from horae.core.governance.gates import Outcome
from horae.core.governance.policies import Risk
from horae.core.governance.references import MAX_CITES, MAX_ID
from horae.core.governance.reviews import ReviewState
from horae.service.fields import OperationBody, Path, Query
from horae.service.inputs import (
    IfMatch,
    OperationReason,
    Tenant,
    TextFilter,
    check_one_line,
    check_storable,
    etag,
    version_from,
)
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/governance", tags=["governance"])
Id = Annotated[str, Path(min_length=1, max_length=MAX_ID), AfterValidator(check_one_line)]
Agent = Annotated[
    str,
    Path(min_length=1, max_length=100, description="The agent; `*` for every agent.", examples=["planner"]),
    AfterValidator(check_one_line),
]
LongText = Annotated[str, Field(max_length=4000), AfterValidator(check_storable)]
Reference = Annotated[str, Field(max_length=200, examples=["memory:mem_ab12cd34ef56"]), AfterValidator(check_storable)]


class Decide(OperationBody):
    """An action, and what it rests on."""

    action: Annotated[str, Field(min_length=1, max_length=ACTION), AfterValidator(check_storable)]
    cites: list[Reference] = Field(default=[], max_length=MAX_CITES)
    risk: Risk | None = None
    agent: Annotated[str, Field(max_length=100)] | None = None
    correlation: Annotated[str, Field(max_length=100)] | None = None
    reason: LongText = ""


class SetPersona(OperationReason):
    """A persona as a whole."""

    boundaries: list[str | Boundary] = Field(default=[], max_length=MAX_BOUNDARIES)
    values: list[Annotated[str, Field(max_length=MAX_TEXT)]] = Field(default=[], max_length=MAX_BOUNDARIES)
    archived: bool = False


class AskReview(OperationBody):
    """A question to a person."""

    about: Reference
    question: LongText


class AnswerReview(OperationBody):
    """A person's answer."""

    answer: GivenAnswer
    note: LongText = ""


# -- decisions ---------------------------------------------------------------------------------------------------------


@router.post(
    "/decisions", operation_id="decide", summary="Decide whether an action may be done", status_code=201,
    response_model=Decision, responses=refuses(404),
)  # fmt: skip
async def decide(body: Decide, owner: Tenant = None, rooms: CallerRooms = rooms_for(Decisions.decide)) -> Response:
    """Of high risk nothing is ever `executed`. An escalated decision opens a review."""
    return answer(await rooms.decisions.decide(**body.model_dump(), owner=owner), 201)


@router.get(
    "/decisions", operation_id="list_decisions", summary="Decisions, newest first", response_model=Page[Decision],
    responses=refuses(404),
)  # fmt: skip
async def list_decisions(
    agent: TextFilter = None,
    outcome: Outcome | None = None,
    risk: Risk | None = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Decisions.list),
) -> Response:
    found = rooms.decisions.list(agent=agent, outcome=outcome, risk=risk, owner=owner)
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/decisions/{decision_id}", operation_id="get_decision", summary="One decision", response_model=Decision,
    responses=refuses(404),
)  # fmt: skip
async def get_decision(
    decision_id: Id, owner: Tenant = None, rooms: CallerRooms = rooms_for(Decisions.get)
) -> Response:
    return answer(await rooms.decisions.get(decision_id, owner=owner))


# -- personas ----------------------------------------------------------------------------------------------------------


@router.get(
    "/personas", operation_id="list_personas", summary="Personas of an owner", response_model=Page[Persona],
    responses=refuses(404),
)  # fmt: skip
async def list_personas(owner: Tenant = None, rooms: CallerRooms = rooms_for(Personas.list)) -> Response:
    return answer(await rooms.personas.list(owner=owner))


@router.get(
    "/personas/{agent}", operation_id="get_persona", summary="What an agent does not do, and what it values",
    response_model=Persona, responses=refuses(404),
)  # fmt: skip
async def get_persona(agent: Agent, owner: Tenant = None, rooms: CallerRooms = rooms_for(Personas.get)) -> Response:
    found = await rooms.personas.get(agent, owner=owner)
    return answer(found, ETag=etag(found.version))


@router.put(
    "/personas/{agent}", operation_id="set_persona", summary="Set a persona as a whole", response_model=Persona,
    responses=refuses(404, 409, 412),
)  # fmt: skip
async def set_persona(
    agent: Agent,
    body: SetPersona,
    owner: Tenant = None,
    if_match: IfMatch = None,
    rooms: CallerRooms = rooms_for(Personas.set),
) -> Response:
    """Only a person may: a token that no agent holds."""
    changed = await rooms.personas.set(
        agent, boundaries=body.boundaries, values=body.values, archived=body.archived, reason=body.reason, owner=owner,
        expected_version=version_from(if_match),
    )  # fmt: skip
    return answer(changed, ETag=etag(changed.version))


@router.get(
    "/personas/{agent}/history", operation_id="get_persona_history", summary="Who set a persona to what",
    response_model=Page[PersonaChange], responses=refuses(404),
)  # fmt: skip
async def persona_history(
    agent: Agent,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Personas.history),
) -> Response:
    return answer(await rooms.personas.history(agent, owner=owner).page(cursor, limit=limit))


# -- reviews -----------------------------------------------------------------------------------------------------------


@router.post(
    "/reviews", operation_id="ask_review", summary="Ask a person", status_code=201, response_model=Review,
    responses=refuses(404),
)  # fmt: skip
async def ask_review(body: AskReview, owner: Tenant = None, rooms: CallerRooms = rooms_for(Reviews.ask)) -> Response:
    return answer(await rooms.reviews.ask(body.about, body.question, owner=owner), 201)


@router.get(
    "/reviews", operation_id="list_reviews", summary="Reviews, newest first", response_model=Page[Review],
    responses=refuses(404),
)  # fmt: skip
async def list_reviews(
    state: Annotated[list[ReviewState], Query(max_length=2)] = [],  # noqa: B006 - FastAPI copies it
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Reviews.list),
) -> Response:
    return answer(await rooms.reviews.list(state=state, owner=owner).page(cursor, limit=limit))


@router.get(
    "/reviews/{review_id}", operation_id="get_review", summary="One review", response_model=Review,
    responses=refuses(404),
)  # fmt: skip
async def get_review(review_id: Id, owner: Tenant = None, rooms: CallerRooms = rooms_for(Reviews.get)) -> Response:
    return answer(await rooms.reviews.get(review_id, owner=owner))


@router.post(
    "/reviews/{review_id}/answer", operation_id="answer_review", summary="Answer a review", response_model=Review,
    responses=refuses(404, 409),
)  # fmt: skip
async def answer_review(
    review_id: Id, body: AnswerReview, owner: Tenant = None, rooms: CallerRooms = rooms_for(Reviews.answer)
) -> Response:
    """Only a person may, and never the actor who proposed the object or took the decision. The first answer counts."""
    return answer(await rooms.reviews.answer(review_id, body.answer, note=body.note, owner=owner))
