"""The audit: accountable acts, and the check that none was changed since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from horae.actions.audit import export_audit, find_entries, missing_guards, seal_all, verify_reachable
from horae.api.here import Here
from horae.api.operation import LINES, PAGES, POST, Call, Listing, Page, Room, S
from horae.api.values import drop_none, to_public
from horae.core.audit.chain import Complaint, Verified
from horae.core.audit.entries import Entry
from horae.core.audit.exports import ExportCheck, Line
from horae.core.audit.guard import ADVICE, describe_missing
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput

ADMIN = ("admin",)
LONGER = 300.0  # seconds that a service may take to recompute long chains


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One accountable act; about governed objects also what kind of event it is, and the decision behind it.

    Where ``reason_digest`` is set, the chain holds that digest instead of ``reason``, which can be erased.
    """

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
    event_kind: str | None = None
    risk: str | None = None
    decision: str | None = None
    job: str | None = None
    correlation: str | None = None
    reason_digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chain:
    """The entries of one owner, and what is wrong with them."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[Mapping[str, Any]] = {"complaints": lambda found: tuple(map(str, found.complaints))}

    owner: str
    entries: int
    head: str
    complaints: tuple[str, ...] = ()
    database: str | None = None  # of a cluster, in which each has a chain of its own


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether every chain is as it was sealed.

    ``incomplete`` names databases of a cluster that were away: their chains were not verified, and nothing is
    ``sound`` as a whole until they are.
    """

    __pydantic_config__ = PYDANTIC

    sound: bool
    chains: tuple[Chain, ...] = ()
    complaints: tuple[str, ...] = ()  # about an exported file as a whole
    warnings: tuple[str, ...] = ()  # where the database does not guard the audit, and what to do
    incomplete: tuple[str, ...] = ()


class Audit(Room[S]):
    """The audit: who did what to which object, and why."""

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

        first = Call[Page[AuditEntry]](Page[AuditEntry], query=drop_none(**wanted, owner=owner))
        return Listing(first, limit, fetch, order=attrgetter("at", "id"), drained=True)

    @POST("/audit/verify", *ADMIN)
    def verify(self, *, owner: str | None = None, heads: Mapping[str, str] | None = None) -> Call[Verification]:
        """Recompute the chains of the audit, or one owner's, and name what was changed, removed or moved.

        *heads* are heads that were kept elsewhere, by owner, or for the chain of one database of a cluster by
        ``database:owner``; each must still be in its chain. Workers and servers seal entries in about a minute; what
        is not sealed yet is sealed first.
        """
        kept = dict(heads or {})

        def act(here: Here) -> Verification:
            seal_all(here.world)
            missing = missing_guards(here.world)
            warnings = (f"{describe_missing(missing)} {ADVICE}",) if missing else ()
            found, away = verify_reachable(here.world, owner=owner, heads=kept)
            return _verification(found, warnings=warnings, incomplete=away)

        query = drop_none(owner=owner, head=[f"{name}={link}" for name, link in kept.items()] or None)
        return Call(Verification, act, query=query, repeats=True, longer=LONGER)

    @LINES("/audit/export", *ADMIN)
    def export(self, *, owner: str | None = None) -> Call[Line]:
        """Iterate over the lines of an export: a header, each chain with its entries and its head, and an end.

        Written to a file as JSON lines, it can be verified without the database: :func:`verify_export`. A tenant
        exports its own chain. What is not sealed yet is sealed first.
        """

        def act(here: Here) -> Iterator[Line]:
            seal_all(here.world)
            return export_audit(here.world, owner=here.caller.filter_owner(owner))

        return Call(dict[str, Any], act, query=drop_none(owner=owner), longer=LONGER)


def verify_export(lines: Iterable[str], heads: Mapping[str, str] | None = None) -> Verification:
    """Verify the lines of an exported file, from the file alone; *heads* as in :meth:`Audit.verify`."""
    check = ExportCheck(heads)
    check.read(lines)
    return _verification(*check.result(), incomplete=check.incomplete)


def parse_heads(given_heads: Iterable[str]) -> dict[str, str]:
    """Read heads that were kept elsewhere, each written ``owner=hash``."""
    heads: dict[str, str] = {}
    for text in given_heads:
        owner, _, link = text.rpartition("=")
        if not owner or not re.fullmatch("[0-9a-f]{64}", link):
            raise InvalidInput("audit_head_unreadable", head=text[:400])
        if heads.setdefault(owner, link) != link:
            raise InvalidInput("audit_heads_differ", owner=owner)
    return heads


def _verification(
    found: Iterable[Verified],
    complaints: Iterable[Complaint] = (),
    *,
    warnings: tuple[str, ...] = (),
    incomplete: tuple[str, ...] = (),
) -> Verification:
    chains: tuple[Chain, ...] = to_public(tuple[Chain, ...], tuple(found))
    about_file = tuple(map(str, complaints))
    sound = not about_file and not incomplete and not any(each.complaints for each in chains)
    return Verification(
        sound=sound, chains=chains, complaints=about_file, warnings=warnings, incomplete=tuple(incomplete)
    )


def _public(number: int, entry: Entry) -> AuditEntry:
    facts = {each.name: getattr(entry, each.name) for each in fields(Entry) if not each.metadata.get("beside")}
    return AuditEntry(**{**facts, "id": number, "before": dict(entry.before), "after": dict(entry.after)})
