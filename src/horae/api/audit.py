"""The audit: accountable acts, and the check that none was changed since."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from horae.actions.audit import find_entries, seal_audit, verify_audit
from horae.api.here import Here
from horae.api.operation import PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import PYDANTIC, given, published
from horae.core.audit.entries import Entry
from horae.core.cursors import cursor_from, read_cursor

ADMIN = ("admin",)
LONGER = 300.0  # seconds that a service may take to recompute long chains


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One accountable act."""

    __pydantic_config__ = PYDANTIC

    id: int
    at: datetime
    actor: str
    verb: str
    object_type: str
    object_id: str
    owner: str = "system"
    reason: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The entries of one owner, and what is wrong with them."""

    __pydantic_config__ = PYDANTIC

    owner: str
    entries: int
    head: str
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether every chain is as it was sealed."""

    __pydantic_config__ = PYDANTIC

    sound: bool
    chains: tuple[Chain, ...] = ()


class Audit(Room[S]):
    """Who did what to which thing, and why."""

    @PAGES("/audit", *ADMIN)
    def list(
        self,
        *,
        object_type: str | None = None,
        object_id: str | None = None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        limit: int | None = None,
    ) -> Listing[AuditEntry]:
        """List accountable acts, the newest first; a tenant sees those that concern it."""
        wanted = {"object_type": object_type, "object_id": object_id, "actor": actor, "verb": verb}

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[AuditEntry], str | None]:
            begin = read_cursor(cursor, int)
            before, owned_by = None if begin is None else begin[0], here.caller.filter_owner(owner)
            found = find_entries(here.world, limit=size + 1, before=before, owner=owned_by, **wanted)
            further = cursor_from([found[size - 1][0]]) if len(found) > size else None
            return [_public(*each) for each in found[:size]], further

        return Listing(Call(Page[AuditEntry], query=given(**wanted, owner=owner)), limit, fetch)

    @POST("/audit/verify", *ADMIN)
    def verify(self, *, owner: str | None = None) -> Call[Verification]:
        """Recompute the chains of the audit, or one owner's, and name what was changed, removed or moved.

        Workers and servers seal entries in about a minute; what is not sealed yet is sealed first.
        """

        def act(here: Here) -> Verification:
            while seal_audit(here.world):
                continue
            chains: tuple[Chain, ...] = published(tuple[Chain, ...], verify_audit(here.world, owner=owner))
            return Verification(sound=not any(each.complaints for each in chains), chains=chains)

        return Call(Verification, act, query=given(owner=owner), repeats=True, longer=LONGER)


def _public(number: int, entry: Entry) -> AuditEntry:
    facts = {each.name: getattr(entry, each.name) for each in fields(Entry)}
    return AuditEntry(**{**facts, "id": number, "before": dict(entry.before), "after": dict(entry.after)})
