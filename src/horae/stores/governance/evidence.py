"""Evidence about objects. The same reference is the same piece."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Connection, select, update

from horae.core.governance.evidence import Evidence
from horae.stores.databases.bulk import find_by, insert_rows
from horae.stores.tables.governance import EVIDENCE, evidence


class EvidenceRows:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def add(self, new: Sequence[Evidence]) -> None:
        insert_rows(self.connection, evidence, EVIDENCE.written, [EVIDENCE.values(each) for each in new])

    def of(self, number: int, *, limit: int = 1000) -> list[Evidence]:
        """Return the evidence about an object, the oldest first."""
        query = select(*EVIDENCE.select).where(evidence.c.object_number == number)
        rows = self.connection.execute(query.order_by(evidence.c.at, evidence.c.evidence_id).limit(limit))
        return [EVIDENCE.read(row) for row in rows]

    def of_many(self, numbers: Iterable[int]) -> dict[int, list[Evidence]]:
        found: dict[int, list[Evidence]] = {}
        rows = find_by(self.connection, select(*EVIDENCE.select), evidence.c.object_number, list(numbers), each=True)
        for each in sorted(map(EVIDENCE.read, rows), key=lambda piece: (piece.at, piece.id)):
            found.setdefault(each.object, []).append(each)
        return found

    def known(self, number: int, reference_keys: Collection[str]) -> dict[str, Evidence]:
        """Return those of these references that an object has, by the digest of the reference."""
        if not reference_keys:
            return {}
        same = (evidence.c.object_number == number, evidence.c.reference_key.in_(sorted(reference_keys)))
        rows = self.connection.execute(select(*EVIDENCE.select).where(*same))
        return {each.reference_key: each for each in map(EVIDENCE.read, rows)}

    def erase_notes(self, number: int) -> None:
        nothing = {"note": None}
        self.connection.execute(update(evidence).where(evidence.c.object_number == number).values(nothing))
