"""``/tokens``, ``/sessions``, ``/owners`` and ``/secrets``: who may call, from which browsers, what is special about a
tenant, what its webhooks use.
"""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import ConfigDict, Field

from horae.actions.access.secrets import LONGEST_OVERLAP, OVERLAP
from horae.actions.access.tokens import DEFAULT_LIFE, LONGEST_LIFE, SHORTEST_LIFE
from horae.api.access.room import Owners, Secrets, Sessions, Tokens
from horae.api.access.values import (
    LoginCode,
    Owner,
    OwnerHours,
    Resealed,
    Secret,
    SecretMade,
    Session,
    Token,
    TokenMade,
)
from horae.api.operation import Page
from horae.core.access.callers import TOKEN_ID, Scope
from horae.core.access.owners import MOST_NETWORKS, MOST_PORTS, MOST_TASKS
from horae.core.access.secrets import LONGEST, SHORTEST
from horae.core.access.sessions import ID_LENGTH
from horae.core.jobs.turns import MAX_WEIGHT
from horae.service.fields import AS_TEXT_TOO, Path, Query
from horae.service.inputs import OperationReason, ReasonBody, ReasonQuery
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router()
TokenId = Annotated[str, Path(pattern=f"^{TOKEN_ID.pattern}$", description="The token's id, not its text.")]
SessionId = Annotated[str, Path(pattern=f"^[0-9a-f]{{{ID_LENGTH}}}$", description="The session's id.")]
OwnerName = Annotated[str, Path(min_length=1, max_length=255, description="The tenant's name.", examples=["alice"])]
SecretName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="What webhooks call it.", examples=["orders"])
]
Overlap = Annotated[
    float,
    Field(ge=0, le=LONGEST_OVERLAP.total_seconds(), allow_inf_nan=False),
    AS_TEXT_TOO,
    Field(description="For so long messages are signed with the secret before it as well."),
]
Life = Annotated[
    float, Field(ge=SHORTEST_LIFE.total_seconds(), le=LONGEST_LIFE.total_seconds(), allow_inf_nan=False), AS_TEXT_TOO
]


class NewToken(OperationReason):
    """The owner of a new token, and its permissions."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"owner": "alice", "scopes": ["tasks", "worker"], "expires_in": 7776000}]}
    )

    owner: str = Field(min_length=1, max_length=255, description="The tenant; `system` for the operator.")
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    name: str = Field("", max_length=255, description="What it is for, to tell it apart.")
    queues: list[str] = Field(default=[], max_length=100, description="Which queues it may serve; empty: all.")
    agent: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="The agent that holds it: it acts for no other, and never answers as a person.",
    )
    expires_in: Life | None = Field(
        DEFAULT_LIFE.total_seconds(),
        description="Seconds for which it is valid; `null`: until it is revoked.",
    )


class NewLoginCode(OperationReason):
    """For whom a browser is logged in; without owner and scopes for the caller, with its own token."""

    owner: str | None = Field(default=None, min_length=1, max_length=255, description="Needs the scope admin.")
    scopes: list[Scope] = Field(default=[], max_length=10, description="Needs the scope admin.")
    name: str = Field("", max_length=255, description="What the new token is for, to tell it apart.")


class QuietOwner(OperationReason):
    """The hours in which no job of an owner starts."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"quiet_hours": "22:00-07:00", "zone": "Europe/Berlin"}]})

    quiet_hours: str = Field(max_length=200, description="Hours of the day, several with commas.")
    zone: str = Field(default="UTC", max_length=64, description="The IANA zone of the hours.")


class PutOwner(OperationReason):
    """Settings of a tenant; what is left out is the default."""

    allow_networks: list[Annotated[str, Field(max_length=60)]] = Field(
        default=[],
        max_length=MOST_NETWORKS,
        description="Networks beyond the public internet that its webhooks may reach.",
        examples=[["10.1.0.0/16"]],
    )
    allow_http: bool = Field(default=False, description="Whether its webhooks may use plain http.")
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(
        default=[],
        max_length=MOST_PORTS,
        description="The ports its webhooks may use; empty: 443, 8443, and 80 where http is allowed.",
        examples=[[443, 8080]],
    )
    max_enabled_tasks: Annotated[int, Field(ge=0, le=MOST_TASKS)] | None = Field(
        default=None, description="How many of its tasks may be enabled; 0: any number; null: the default."
    )
    weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)] = Field(
        default=1, description="Its share of queues in which owners take turns, beside the weights of the others."
    )


class PutSecret(OperationReason):
    """A secret to keep."""

    model_config = ConfigDict(hide_input_in_errors=True)

    value: str | None = Field(
        default=None,
        min_length=SHORTEST,
        max_length=LONGEST,
        description="The secret, such as `Bearer …` or `whsec_…`; without one a signing secret is made and shown once.",
        examples=["Bearer 5f3a9c1e77d0"],
    )
    keep_previous_for: Overlap = 0.0


class RotateSecret(OperationReason):
    """The time for which the old secret still signs."""

    keep_previous_for: Overlap = OVERLAP.total_seconds()


NOTHING, ROTATE, OWN = ReasonBody(), RotateSecret(), NewLoginCode()


@router.post(
    "/tokens", tags=["tokens"], operation_id="create_token", summary="Make a token, shown this once", status_code=201,
    response_model=TokenMade, responses=refuses(409),
)  # fmt: skip
async def create_token(body: NewToken, rooms: CallerRooms = rooms_for(Tokens.create)) -> Response:
    return answer(await rooms.tokens.create(**body.model_dump()), 201)


@router.get(
    "/tokens", tags=["tokens"], operation_id="list_tokens", summary="The tokens there are, newest first",
    response_model=Page[Token],
)  # fmt: skip
async def list_tokens(
    owner: Annotated[str | None, Query(max_length=255, description="Only this tenant's.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Tokens.list),
) -> Response:
    return answer(await rooms.tokens.list(owner=owner).page(cursor, limit=limit))


@router.delete(
    "/tokens/{token_id}", tags=["tokens"], operation_id="revoke_token",
    summary="Revoke a token", response_model=Token, responses=refuses(404),
)  # fmt: skip
async def revoke_token(
    token_id: TokenId, reason: ReasonQuery = "", rooms: CallerRooms = rooms_for(Tokens.revoke)
) -> Response:
    """The token is refused from the next request on. Revoking it again is no error."""
    return answer(await rooms.tokens.revoke(token_id, reason=reason))


@router.post(
    "/sessions/codes", tags=["sessions"], operation_id="create_login_code",
    summary="A code that logs one browser in", status_code=201, response_model=LoginCode, responses=refuses(404),
)  # fmt: skip
async def create_login_code(body: NewLoginCode = OWN, rooms: CallerRooms = rooms_for(Sessions.create_code)) -> Response:
    """Open `/console/login?code=…` within ten minutes. It is valid once, and is shown only now."""
    return answer(await rooms.sessions.create_code(**body.model_dump()), 201)


@router.get(
    "/sessions", tags=["sessions"], operation_id="list_sessions", summary="Browsers that are logged in",
    response_model=Page[Session],
)  # fmt: skip
async def list_sessions(
    owner: Annotated[str | None, Query(max_length=255, description="Only this tenant's.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Sessions.list),
) -> Response:
    return answer(await rooms.sessions.list(owner=owner).page(cursor, limit=limit))


@router.delete(
    "/sessions/{session_id}", tags=["sessions"], operation_id="end_session", summary="Log a browser out",
    status_code=204, responses=refuses(404),
)  # fmt: skip
async def end_session(
    session_id: SessionId, reason: ReasonQuery = "", rooms: CallerRooms = rooms_for(Sessions.end)
) -> Response:
    await rooms.sessions.end(session_id, reason=reason)
    return Response(status_code=204)


@router.get(
    "/owners", tags=["owners"], operation_id="list_owners", summary="Tenants and what is special about each",
    response_model=Page[Owner],
)  # fmt: skip
async def list_owners(
    limit: Limit = 100, cursor: Cursor = None, rooms: CallerRooms = rooms_for(Owners.list)
) -> Response:
    return answer(await rooms.owners.list().page(cursor, limit=limit))


@router.get(
    "/owners/{owner:path}", tags=["owners"], operation_id="get_owner", summary="What is special about a tenant",
    response_model=Owner,
)  # fmt: skip
async def get_owner(owner: OwnerName, rooms: CallerRooms = rooms_for(Owners.get)) -> Response:
    return answer(await rooms.owners.get(owner))


@router.put(
    "/owners/{owner:path}", tags=["owners"], operation_id="put_owner", summary="Decide about a tenant",
    response_model=Owner,
)  # fmt: skip
async def put_owner(owner: OwnerName, body: PutOwner, rooms: CallerRooms = rooms_for(Owners.put)) -> Response:
    """Replaces what was decided before: networks, http, ports, and how many tasks may be enabled."""
    return answer(await rooms.owners.put(owner, **body.model_dump()))


@router.get(
    "/quiet-owners", tags=["owners"], operation_id="list_quiet_owners", summary="Tenants that have quiet hours",
    response_model=Page[OwnerHours],
)  # fmt: skip
async def list_quiet_owners(rooms: CallerRooms = rooms_for(Owners.list_quiet)) -> Response:
    return answer(await rooms.owners.list_quiet())


@router.put(
    "/quiet-owners/{owner:path}", tags=["owners"], operation_id="quiet_owner",
    summary="Start no job of a tenant in some hours", response_model=OwnerHours,
)  # fmt: skip
async def quiet_owner(owner: OwnerName, body: QuietOwner, rooms: CallerRooms = rooms_for(Owners.quiet)) -> Response:
    """In whatever queue. Running jobs go on; what comes due in these hours starts when they end."""
    return answer(await rooms.owners.quiet(owner, body.quiet_hours, zone=body.zone, reason=body.reason))


@router.delete(
    "/quiet-owners/{owner:path}", tags=["owners"], operation_id="lift_quiet_owner",
    summary="Lift the quiet hours of a tenant", status_code=204, responses=refuses(404),
)  # fmt: skip
async def lift_quiet_owner(
    owner: OwnerName, reason: ReasonQuery = "", rooms: CallerRooms = rooms_for(Owners.lift_quiet)
) -> Response:
    """What was put off already starts when they would have ended."""
    await rooms.owners.lift_quiet(owner, reason=reason)
    return Response(status_code=204)


@router.get(
    "/secrets", tags=["secrets"], operation_id="list_secrets", summary="Names of your secrets, never their values",
    response_model=Page[Secret],
)  # fmt: skip
async def list_secrets(rooms: CallerRooms = rooms_for(Secrets.list)) -> Response:
    return answer(await rooms.secrets.list())


@router.put(
    "/secrets/{name}", tags=["secrets"], operation_id="put_secret", summary="Keep a secret, or replace it",
    response_model=SecretMade, responses=refuses(409),
)  # fmt: skip
async def put_secret(name: SecretName, body: PutSecret, rooms: CallerRooms = rooms_for(Secrets.put)) -> Response:
    """`value` of the answer is the secret where it was made here, this once; null where the caller sent it."""
    return answer(await rooms.secrets.put(name, **body.model_dump()))


@router.post(
    "/secrets/reseal", tags=["secrets"], operation_id="reseal_secrets", summary="Seal all secrets with the current key",
    response_model=Resealed, responses=refuses(409),
)  # fmt: skip
async def reseal_secrets(body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Secrets.reseal)) -> Response:
    return answer(await rooms.secrets.reseal(reason=body.reason))


@router.post(
    "/secrets/{name}/rotate", tags=["secrets"], operation_id="rotate_secret",
    summary="A new signing secret, shown once", response_model=SecretMade, responses=refuses(404, 409),
)  # fmt: skip
async def rotate_secret(
    name: SecretName, body: RotateSecret = ROTATE, rooms: CallerRooms = rooms_for(Secrets.rotate)
) -> Response:
    return answer(await rooms.secrets.rotate(name, **body.model_dump()))


@router.delete(
    "/secrets/{name}", tags=["secrets"], operation_id="delete_secret", summary="Forget a secret", status_code=204,
    responses=refuses(404),
)  # fmt: skip
async def delete_secret(
    name: SecretName, reason: ReasonQuery = "", rooms: CallerRooms = rooms_for(Secrets.delete)
) -> Response:
    await rooms.secrets.delete(name, reason=reason)
    return Response(status_code=204)
