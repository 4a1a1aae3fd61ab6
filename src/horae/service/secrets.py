"""Secrets that webhooks refer to by name. Values go in and never come out, except once for those made here."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from horae.actions import secrets
from horae.core.access import Caller
from horae.core.instants import iso
from horae.core.secrets import LONGEST, SHORTEST
from horae.errors import SecretsLocked
from horae.ports import Sealed, Sealer
from horae.service.problems import refuses
from horae.service.state import Here, How, needs

router = APIRouter(tags=["secrets"])
Tenant = Annotated[Caller, Depends(needs("tasks"))]
Operator = Annotated[Caller, Depends(needs("admin"))]
Name = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="What webhooks call it.", examples=["orders"])
]
MOST_SECONDS = int(secrets.LONGEST_OVERLAP.total_seconds())
KEY_MISSING = (
    "This service cannot keep secrets yet. The operator sets HORAE_SECRET_KEY (or HORAE_SECRET_KEY_FILE) for the "
    "service and its workers, and starts them again. Make a key with: "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
)


class Told(BaseModel):
    """A body that says nothing we do not know."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class SecretView(BaseModel):
    """A secret as anybody may see it."""

    name: str = Field(examples=["orders"])
    created_at: str = Field(examples=["2030-01-07T12:00:00Z"])
    updated_at: str = Field(examples=["2030-01-07T12:00:00Z"])
    previous_until: str | None = Field(
        description="Until then messages are also signed with the secret before this one.",
        examples=["2030-01-08T12:00:00Z"],
    )


class SecretList(BaseModel):
    items: list[SecretView]


class SecretMade(SecretView):
    """A secret that was made here; this is the only answer that shows it."""

    value: str | None = Field(
        description="The secret, this once; null when the caller sent it.",
        examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
    )


class SecretPut(Told):
    value: str | None = Field(
        default=None,
        min_length=SHORTEST,
        max_length=LONGEST,
        description="The secret, such as `Bearer …` or `whsec_…`; without one a signing secret is made and shown once.",
        examples=["Bearer 5f3a9c1e77d0"],
    )
    keep_previous_for: int = Field(
        default=0, ge=0, le=MOST_SECONDS, description="Seconds for which the secret before it still signs as well."
    )


class SecretRotate(Told):
    keep_previous_for: int = Field(
        default=int(secrets.OVERLAP.total_seconds()),
        ge=0,
        le=MOST_SECONDS,
        description="Seconds for which messages are signed with both.",
        examples=[86400],
    )


class Resealed(BaseModel):
    resealed: int = Field(examples=[3])


@router.get("/secrets", operation_id="list_secrets", summary="Names of your secrets, never their values")
def list_secrets(world: Here, caller: Tenant) -> SecretList:
    return SecretList(items=[_view(each) for each in secrets.find_secrets(world, owner=caller.owner)])


@router.put(
    "/secrets/{name}", operation_id="put_secret", summary="Keep a secret, or replace it", responses=refuses(409)
)
def put_secret(name: Name, body: SecretPut, world: Here, service: How, caller: Tenant) -> SecretMade:
    sealer = _sealer(service)
    made = None if body.value is not None else secrets.new_signing_text(world)
    stored = secrets.put_secret(
        world,
        sealer,
        name,
        body.value or made or "",
        owner=caller.owner,
        keep_previous_for=timedelta(seconds=body.keep_previous_for),
        actor=caller.actor,
    )
    return SecretMade(**_view(stored).model_dump(), value=made)


@router.post(
    "/secrets/{name}/rotate",
    operation_id="rotate_secret",
    summary="A new signing secret, shown once",
    responses=refuses(404, 409),
)
def rotate_secret(
    name: Name, world: Here, service: How, caller: Tenant, body: SecretRotate | None = None
) -> SecretMade:
    wanted = body or SecretRotate()
    stored, text = secrets.rotate_secret(
        world,
        _sealer(service),
        name,
        owner=caller.owner,
        keep_previous_for=timedelta(seconds=wanted.keep_previous_for),
        actor=caller.actor,
    )
    return SecretMade(**_view(stored).model_dump(), value=text)


@router.delete(
    "/secrets/{name}", operation_id="delete_secret", summary="Forget a secret", status_code=204, responses=refuses(404)
)
def delete_secret(name: Name, world: Here, caller: Tenant) -> Response:
    secrets.delete_secret(world, name, owner=caller.owner, actor=caller.actor)
    return Response(status_code=204)


@router.post(
    "/secrets/reseal",
    operation_id="reseal_secrets",
    summary="Seal all secrets with the current key",
    responses=refuses(409),
)
def reseal_secrets(world: Here, service: How, caller: Operator) -> Resealed:
    return Resealed(resealed=secrets.reseal_secrets(world, _sealer(service), actor=caller.actor))


def _sealer(service: How) -> Sealer:
    sealer = service.options.sealer
    if sealer is None:
        raise SecretsLocked(KEY_MISSING)
    return sealer


def _view(sealed: Sealed) -> SecretView:
    return SecretView(
        name=sealed.name,
        created_at=iso(sealed.created_at),
        updated_at=iso(sealed.updated_at),
        previous_until=None if sealed.previous_until is None else iso(sealed.previous_until),
    )
