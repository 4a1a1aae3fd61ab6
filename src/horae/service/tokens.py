"""Tokens over HTTP, for operators: make one, list them, revoke one."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from horae.actions import tokens
from horae.core.access import ID_LENGTH, Caller, Scope
from horae.core.cursors import cursor_from, read_cursor
from horae.core.instants import instant, micros
from horae.errors import InvalidInput
from horae.service.inputs import storable
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.state import Here, needs

router = APIRouter(tags=["tokens"])
LONGEST_DAYS = 3650
LATEST = 2**55  # microseconds: no token was made later, and a year can still be told


def operator(caller: Annotated[Caller, Depends(needs("admin"))]) -> Caller:
    """Who may see and make tokens: ``read`` is not enough, not even for looking."""
    caller.require("admin")
    return caller


Operator = Annotated[Caller, Depends(operator)]
TOKEN_ID = re.compile(f"[0-9a-f]{{{ID_LENGTH}}}")
TokenId = Annotated[str, Path(pattern=f"^{TOKEN_ID.pattern}$", description="The token's id, not its secret.")]


class NewToken(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"owner": "alice", "scopes": ["tasks", "worker"], "expires_in_days": 90}]},
    )

    owner: str = Field(min_length=1, max_length=255, description="The tenant; `system` for the operator.")
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    name: str = Field("", max_length=255, description="What it is for, to tell it apart.")
    queues: list[str] = Field(default=[], max_length=100, description="Which queues it may serve; empty: all.")
    expires_in_days: float | None = Field(
        90, ge=1 / 1440, le=LONGEST_DAYS, allow_inf_nan=False, description="`null`: until it is revoked."
    )


class ShownToken(BaseModel):
    id: str = Field(examples=["6f1c0d2b9a47"])
    owner: str = Field(examples=["alice"])
    name: str = Field(examples=["laptop"])
    scopes: list[str] = Field(examples=[["tasks", "worker"]])
    queues: list[str] = Field(examples=[[]])
    state: str = Field(description="valid, expired or revoked", examples=["valid"])
    created_at: str = Field(examples=["2030-01-07T12:00:00Z"])
    created_by: str = Field(examples=["cli/bob"])
    expires_at: str | None = Field(examples=["2030-04-07T12:00:00Z"])
    used_at: str | None = Field(examples=[None])
    used_from: str | None = Field(examples=["192.0.2.7"])
    revoked_at: str | None = Field(examples=[None])
    revoked_by: str | None = Field(examples=[None])


class MadeToken(ShownToken):
    token: str = Field(description="The token itself; shown only now.", examples=["horae_6f1c0d2b9a47_…"])


class TokenPage(BaseModel):
    items: list[ShownToken]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


@router.post(
    "/tokens",
    operation_id="create_token",
    summary="Make a token, shown this once",
    status_code=201,
    responses=refuses(409),
)
def create_token(wanted: NewToken, world: Here, caller: Operator) -> MadeToken:
    made, text = tokens.create_token(
        world,
        owner=wanted.owner,
        scopes=wanted.scopes,
        title=wanted.name,
        queues=wanted.queues,
        expires_in=None if wanted.expires_in_days is None else timedelta(days=wanted.expires_in_days),
        actor=caller.actor,
    )
    return MadeToken.model_validate({**made.shown(world.clock.now()), "token": text})


@router.get("/tokens", operation_id="list_tokens", summary="The tokens there are, newest first")
def list_tokens(
    world: Here,
    caller: Operator,
    owner: Annotated[str | None, Query(max_length=255, description="Only this tenant's.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> TokenPage:
    now = world.clock.now()
    found = tokens.find_tokens(world, owner=owner, limit=limit, after=_after(cursor))
    last = found[-1] if len(found) == limit else None
    following = None if last is None else cursor_from([micros(last.created_at), last.token_id])
    return TokenPage.model_validate({"items": [token.shown(now) for token in found], "next_cursor": following})


def _after(cursor: str | None) -> tuple[datetime, str] | None:
    values = read_cursor(cursor, int, str)
    if values is None:
        return None
    made, token_id = values
    if not 0 <= made <= LATEST or not TOKEN_ID.fullmatch(token_id):
        raise InvalidInput("This cursor was not made here; use next_cursor of the page before, as it is.")
    return instant(made), token_id


@router.delete(
    "/tokens/{token_id}",
    operation_id="revoke_token",
    summary="Let nobody be recognised by it any more",
    responses=refuses(404),
)
def revoke_token(
    token_id: TokenId,
    world: Here,
    caller: Operator,
    reason: Annotated[str, Query(max_length=2000, description="For the audit."), AfterValidator(storable)] = "",
) -> ShownToken:
    """From the next request on. Revoking twice is no mistake."""
    revoked = tokens.revoke_token(world, token_id, actor=caller.actor, reason=reason)
    return ShownToken.model_validate(revoked.shown(world.clock.now()))
