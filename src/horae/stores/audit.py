"""Audit entries, appended in the transaction that they describe."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert, select, text, update

from horae.core.audit.chain import GENESIS
from horae.core.audit.entries import Entry
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables import AUDIT, audit, chains

NUMBERED = (*AUDIT.select, audit.c.id)


class Audit:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def append(self, entry: Entry) -> None:
        self.connection.execute(insert(audit), AUDIT.row(entry))

    def append_many(self, entries: Iterable[Entry]) -> None:
        rows = [AUDIT.row(entry) for entry in entries]
        if rows:
            self.connection.execute(insert(audit), rows)

    def find(
        self,
        *,
        object_id: str | None,
        limit: int,
        before: int | None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        object_type: str | None = None,
    ) -> list[tuple[int, Entry]]:
        """Return a page of entries, newest first; with *owner*, only that tenant's."""
        query = select(*NUMBERED).order_by(audit.c.id.desc()).limit(limit)
        wanted = {"object_id": object_id, "owner": owner, "actor": actor, "verb": verb, "object_type": object_type}
        query = query.where(*AUDIT.equal(wanted))
        if before is not None:
            query = query.where(audit.c.id < before)
        return [(row.id, AUDIT.read(row)) for row in self.connection.execute(query)]

    # -- the chain -----------------------------------------------------------------------------------------------

    def open_entries(self, limit: int) -> list[tuple[int, Entry]]:
        """Return what has not been sealed yet, the oldest first."""
        query = select(*NUMBERED).where(audit.c.chain_seq.is_(None)).order_by(audit.c.id).limit(limit)
        return [(row.id, AUDIT.read(row)) for row in self.connection.execute(query)]

    def lock_chains(self) -> None:
        """Lock the chains, so that one process seals at a time."""
        self._begin("")
        self.connection.execute(select(chains.c.seq).where(chains.c.owner == "").with_for_update())

    def head(self, owner: str) -> tuple[int, str]:
        """Return how far an owner's chain has come, and the hash of its last entry."""
        row = self.connection.execute(select(chains.c.seq, chains.c.hash).where(chains.c.owner == owner)).first()
        return (0, GENESIS) if row is None else (row.seq, row.hash)

    def seal(self, number: int, owner: str, seq: int, hash_text: str) -> None:
        conditions = (audit.c.id == number, audit.c.chain_seq.is_(None))
        self.connection.execute(update(audit).where(*conditions).values(chain_seq=seq, hash=hash_text))
        self._begin(owner)
        self.connection.execute(update(chains).where(chains.c.owner == owner).values(seq=seq, hash=hash_text))

    def owners(self) -> list[str]:
        """Return the owners that have a chain."""
        query = select(chains.c.owner).where(chains.c.owner != "").order_by(chains.c.owner)
        return list(self.connection.execute(query).scalars())

    def chain(self, owner: str, *, after: int, limit: int) -> list[tuple[int, int, str, Entry]]:
        """Return sealed entries of an owner in their order: place, number, hash, entry."""
        conditions = (audit.c.owner == owner, audit.c.chain_seq > after)
        query = (
            select(*NUMBERED, audit.c.chain_seq, audit.c.hash)
            .where(*conditions)
            .order_by(audit.c.chain_seq, audit.c.id)
            .limit(limit)
        )
        rows = self.connection.execute(query)
        return [(row.chain_seq, row.id, row.hash, AUDIT.read(row)) for row in rows]

    def _begin(self, owner: str) -> None:
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        sql = f"{before} {chains.name} (owner, seq, hash) VALUES (:owner, 0, :hash) {behind}"
        self.connection.execute(text(sql), {"owner": owner, "hash": GENESIS})
