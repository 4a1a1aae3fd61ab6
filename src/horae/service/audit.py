"""The audit: who did what to which thing, and why."""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from horae.core.access import Caller
from horae.core.audit import Entry
from horae.core.cursors import cursor_from, read_cursor
from horae.errors import InvalidInput
from horae.service.inputs import Tenant, Word
from horae.service.job_shapes import Instant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.state import Here, needs

router = APIRouter(prefix="/audit", tags=["audit"])
Admin = Annotated[Caller, Depends(needs("admin"))]


class AuditEntry(BaseModel):
    id: int = Field(examples=[812])
    at: Instant
    actor: str = Field(examples=["token/6f1c2a"])
    verb: str = Field(examples=["pause"])
    object_type: str = Field(examples=["schedule"])
    object_id: str = Field(examples=["nightly"])
    owner: str
    reason: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    evidence: list[str]

    @classmethod
    def of(cls, number: int, entry: Entry) -> Self:
        own = {"id", "before", "after", "evidence"}
        same = {name: getattr(entry, name) for name in cls.model_fields if name not in own}
        evidence = list(entry.evidence)
        return cls(id=number, before=dict(entry.before), after=dict(entry.after), evidence=evidence, **same)


class AuditPage(BaseModel):
    entries: list[AuditEntry]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


@router.get("", operation_id="list_audit", summary="Accountable acts, the newest first", responses=refuses(404))
def list_audit(
    world: Here,
    caller: Admin,
    object_id: Word = None,
    object_type: Word = None,
    owner: Tenant = None,
    actor: Word = None,
    verb: Word = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> AuditPage:
    begin = read_cursor(cursor, int)
    if begin is not None and not 0 <= begin[0] < 2**63:
        raise InvalidInput("This cursor was not made here; use next_cursor of the page before, as it is.")
    mine = caller.among(owner)
    found = world.store.read(
        lambda tx: tx.audit.find(
            object_id=object_id,
            object_type=object_type,
            owner=mine,
            actor=actor,
            verb=verb,
            limit=limit + 1,
            before=None if begin is None else begin[0],
        )
    )
    more = cursor_from([found[limit - 1][0]]) if len(found) > limit else None
    return AuditPage(entries=[AuditEntry.of(*each) for each in found[:limit]], next_cursor=more)
