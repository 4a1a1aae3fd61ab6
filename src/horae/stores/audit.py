"""Audit entries, appended in the transaction that they describe."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Select, delete, func, or_, select, text

from horae.core.audit.chain import GENESIS, Head, Seal
from horae.core.audit.entries import Entry
from horae.stores.databases import audit_guard
from horae.stores.databases.bulk import insert_rows
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.tables.audit import AUDIT, audit, audit_reasons, chains

NUMBERED = (*AUDIT.select, audit.c.id)
AT_ONCE = 500  # bound parameters of one statement


class Audit:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def dialect(self) -> Dialect:
        return BY_NAME[self.connection.dialect.name]

    def append(self, entry: Entry) -> None:
        self.append_many([entry])

    def append_many(self, entries: Iterable[Entry]) -> None:
        """Append entries; reasons that can be erased are stored beside them, under their digests."""
        new = list(entries)
        insert_rows(self.connection, audit, AUDIT.written, [AUDIT.values(entry) for entry in new])
        reasons = [
            [private.digest, entry.owner, private.key, private.text]
            for entry in new
            if (private := entry.private_reason) is not None
        ]
        insert_rows(self.connection, audit_reasons, ("digest", "owner", "reason_key", "reason"), reasons)

    def erase_reasons(self, owner: str, objects: Collection[tuple[str, str]]) -> int:
        """Forget the reasons that stand beside the entries about these objects, each a type and an id; how many."""
        erased = 0
        for kind, name in sorted(set(objects)):
            about = (audit.c.owner == owner, audit.c.object_type == kind, audit.c.object_id == name)
            digests = select(audit.c.reason_digest).where(*about, audit.c.reason_digest.is_not(None))
            known = list(self.connection.execute(digests).scalars())
            for begin in range(0, len(known), AT_ONCE):
                some = audit_reasons.c.digest.in_(known[begin : begin + AT_ONCE])
                erased += self.connection.execute(delete(audit_reasons).where(some)).rowcount
        return erased

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
        return self._with_reasons([(row.id, AUDIT.read(row)) for row in self.connection.execute(query)])

    def _with_reasons(self, found: list[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
        """Return entries for people to read: with the reasons that stand beside them, where they were not erased."""
        digests = [entry.reason_digest for _, entry in found if entry.reason_digest is not None]
        if not digests:
            return found
        query = select(audit_reasons.c.digest, audit_reasons.c.reason).where(audit_reasons.c.digest.in_(digests))
        texts = {row.digest: row.reason for row in self.connection.execute(query)}
        return [
            (number, entry if entry.reason_digest is None else replace(entry, reason=texts.get(entry.reason_digest)))
            for number, entry in found
        ]

    # -- the chain -----------------------------------------------------------------------------------------------

    def open_entries(self, limit: int) -> list[tuple[int, Entry]]:
        """Return what has not been sealed yet, the oldest first."""
        query = select(*NUMBERED).where(audit.c.chain_seq.is_(None)).order_by(audit.c.id).limit(limit)
        return [(row.id, AUDIT.read(row)) for row in self.connection.execute(query)]

    def lock_chains(self) -> None:
        """Lock the chains, so that one process seals at a time."""
        before, behind = self.dialect.insert_ignore
        sql = f"{before} {chains.name} (owner, seq, hash) VALUES ('', 0, :hash) {behind}"
        self.connection.execute(text(sql), {"hash": GENESIS})
        self.connection.execute(select(chains.c.seq).where(chains.c.owner == "").with_for_update())

    def heads(self, owners: Iterable[str] | None = None) -> dict[str, Head]:
        """Return how far chains have come, and the hash of the last entry of each; those of every owner without any."""
        query = select(chains.c.owner, chains.c.seq, chains.c.hash).order_by(chains.c.owner)
        if owners is None:
            return self._heads(query.where(chains.c.owner != ""))
        wanted, found = sorted(set(owners)), dict[str, Head]()
        for begin in range(0, len(wanted), AT_ONCE):
            found |= self._heads(query.where(chains.c.owner.in_(wanted[begin : begin + AT_ONCE])))
        return found

    def seal(self, seals: Sequence[Seal], heads: Iterable[Head]) -> None:
        """Write the places and hashes of entries in one statement, and the new heads of their chains in another."""
        dialect = self.dialect
        rows = dialect.rows_from_json(number=int, place=int, link=str)
        # An expression, or SQLite would go by the index of unsealed entries and read all rows for each of them.
        condition = f"{audit.name}.id = v.number AND coalesce({audit.name}.chain_seq, 0) = 0"
        values = "chain_seq = v.place, hash = v.link"
        change = dialect.update_from.format(table=audit.name, values=values, rows=rows, condition=condition)
        self.connection.execute(text(change), {"rows": json.dumps([[s.number, s.seq, s.hash] for s in seals])})
        put, named = dialect.upsert
        new = ", ".join(f"{name} = {named.format(name=name)}" for name in ("seq", "hash"))
        write = (
            f"INSERT INTO {chains.name} (owner, seq, hash) SELECT v.name, v.place, v.link "
            f"FROM {dialect.rows_from_json(name=str, place=int, link=str)} {put.format(key='owner')} {new}"
        )
        self.connection.execute(text(write), {"rows": json.dumps([[h.owner, h.seq, h.hash] for h in heads])})

    def owners(self) -> list[str]:
        """Return the owners that have a chain, or sealed entries without one, which only an intruder leaves behind."""
        known, owner = set(self.heads()), self._next_owner("")
        while owner is not None:
            if owner not in known and self._is_sealed(owner):
                known.add(owner)
            owner = self._next_owner(owner)
        return sorted(known)

    def chain(self, owner: str, *, after: tuple[int, int], limit: int) -> list[tuple[Seal, Entry]]:
        """Return sealed entries of an owner in their order, *after* the one with that position and number.

        Two entries at one position are the work of an intruder; both are returned, wherever a page ends.
        """
        seq, number = after
        query = (
            select(*NUMBERED, audit.c.chain_seq, audit.c.hash)
            .where(audit.c.owner == owner, audit.c.chain_seq >= seq)
            .where(or_(audit.c.chain_seq > seq, audit.c.id > number))
            .order_by(audit.c.chain_seq, audit.c.id)
            .limit(limit)
        )
        rows = self.connection.execute(query)
        return [(Seal(row.id, row.chain_seq, row.hash), AUDIT.read(row)) for row in rows]

    def missing_guards(self) -> list[str]:
        """Return the parts of the guard against changes that the database does not have."""
        return audit_guard.missing(self.connection)

    def _heads(self, query: Select[tuple[str, int, str]]) -> dict[str, Head]:
        return {row.owner: Head(row.owner, row.seq, row.hash) for row in self.connection.execute(query)}

    def _next_owner(self, owner: str) -> str | None:
        return self.connection.execute(select(func.min(audit.c.owner)).where(audit.c.owner > owner)).scalar()

    def _is_sealed(self, owner: str) -> bool:
        sealed = select(audit.c.id).where(audit.c.owner == owner, audit.c.chain_seq > 0).limit(1)
        return self.connection.execute(sealed).first() is not None
