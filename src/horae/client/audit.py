"""The audit of who did what."""

from __future__ import annotations

from horae.api.operation import PAGES, Call, Listing, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Entry


class Audit(Room[S]):
    """Who did what to which thing, and why."""

    @PAGES("/audit")
    def list(
        self,
        *,
        object_type: str | None = None,
        object_id: str | None = None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        limit: int | None = None,
    ) -> Listing[Entry]:
        """List accountable acts, the newest first."""
        query = given(object_type=object_type, object_id=object_id, owner=owner, actor=actor, verb=verb)
        return Listing(Call(read=reading.page(Entry, "entries"), query=query), limit)
