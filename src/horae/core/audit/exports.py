"""An export of the audit: lines of JSON that prove themselves, without the database.

The first line is the header. Then follows each chain: its entries in their order, each with the hash that seals it,
and a closing line with its length and head. The last line ends the file. In the export of a cluster, version 2, a line
names each database before its chains, their closing lines name it too, and the header says which databases are in the
file and which were away. Whatever was changed, removed or moved inside
is found by :class:`ExportCheck`; a file whose end was removed *and* whose closing lines were rewritten is found only by
a head that was kept elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.core.audit.chain import GENESIS, ChainCheck, Complaint, Head, Seal, Verified, kept_head
from horae.core.audit.entries import Entry, entry_body
from horae.core.time.instants import iso

FORMAT, VERSION, OF_CLUSTER = "horae.audit", 1, 2
Line = dict[str, Any]


def header_line(
    at: datetime,
    owner: str | None,
    chains: int,
    entries: int,
    *,
    databases: Sequence[str] | None = None,
    incomplete: Sequence[str] = (),
) -> Line:
    """Return the first line; *databases* are those of a cluster that answered, *incomplete* the others."""
    several = {} if databases is None else {"databases": list(databases), "incomplete": list(incomplete)}
    return {
        "export": FORMAT, "version": VERSION if databases is None else OF_CLUSTER, "exported_at": iso(at),
        "owner": owner, "chains": chains, "entries": entries, **several,
    }  # fmt: skip


def database_line(name: str) -> Line:
    """Return the line before the chains of one database of a cluster."""
    return {"database": name}


def entry_line(seal: Seal, entry: Entry) -> Line:
    """Return an entry as it was hashed, and its hash."""
    return entry_body(seal.seq, seal.number, entry) | {"hash": seal.hash}


def closing_line(head: Head, database: str | None = None) -> Line:
    named = {} if database is None else {"database": database}
    return {"chain": head.owner, "entries": head.seq, "head": head.hash, **named}


def last_line(chains: int, entries: int) -> Line:
    return {"end": True, "chains": chains, "entries": entries}


def write_line(line: Mapping[str, Any]) -> str:
    """Return a line of the file, with its end; ASCII, because some readers break lines at other signs too."""
    return json.dumps(line, separators=(",", ":")) + "\n"


class ExportCheck:
    """Verify an export line by line. Fields of an entry that this release does not know are hashed like any other."""

    def __init__(self, heads: Mapping[str, str] | None = None) -> None:
        self._heads = dict(heads or {})
        self._open: ChainCheck | None = None
        self._verified: list[Verified] = []
        self._complaints: list[Complaint] = []  # about the file as a whole
        self._header: Line | None = None
        self._database: str | None = None  # of the chains that follow
        self._databases: list[str] = []
        self._seen: set[tuple[str, str]] = set()  # kept heads that were found, with the owner of their chain
        self._number = self._entries = 0
        self._ended = False

    def read(self, lines: Iterable[str]) -> None:
        for text in lines:
            self._number += 1
            if self._ended:
                if text.strip():
                    self._complain("file_goes_on", line=self._number)
                    return
                continue
            line = _parse(text)
            if self._number == 1:
                self._begin(line)
            elif line is None or not self._feed(line):
                self._complain("line_unreadable", line=self._number)

    def result(self) -> tuple[list[Verified], list[Complaint]]:
        """Return what was found about each chain, and about the file."""
        self._close_unfinished()
        if self._number == 0:
            self._complain("file_has_no_header")
        elif not self._ended:
            self._complain("file_unfinished")
        elif self._header is not None:
            self._compare_counts(self._header)
            listed = self._header.get("databases")
            named = list(map(str, listed)) if isinstance(listed, list) else []
            if named != self._databases:
                names = {"expected": ", ".join(named), "found": ", ".join(self._databases)}
                self._complain("file_databases_differ", **names)
        return [*self._verified, *self._missing()], self._complaints

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The databases of a cluster that were away when the file was written, as it says itself."""
        named = None if self._header is None else self._header.get("incomplete")
        return tuple(map(str, named)) if isinstance(named, list) else ()

    def _missing(self) -> Iterator[Verified]:
        """Yield what was kept of chains that the file does not have."""
        known = {(each.database, each.owner) for each in self._verified}
        owners = {each.owner for each in self._verified}
        for key, link in self._heads.items():
            database, _, owner = key.partition(":")
            if database in self._databases:
                if (database, owner) not in known:
                    yield Verified(owner, 0, "", (Complaint("chain_missing"),), database)
            elif key not in owners:
                yield Verified(key, 0, "", (Complaint("chain_missing"),))
            elif self._databases and link != GENESIS and (key, link) not in self._seen:
                yield Verified(key, 0, "", (Complaint("kept_head_unknown", {"head": link}),))

    def _begin(self, line: Line | None) -> None:
        if line is None or line.get("export") != FORMAT:
            self._complain("file_has_no_header")
            if line is not None:
                self._feed(line)
        elif line.get("version") != (OF_CLUSTER if "databases" in line else VERSION):
            self._complain("file_version_unknown", version=str(line.get("version")), known=OF_CLUSTER)
        else:
            self._header = line

    def _feed(self, line: Line) -> bool:
        match line:
            case {"hash": str(link), "owner": str(owner), "seq": int(), "id": int()}:
                self._chain(owner).add({name: value for name, value in line.items() if name != "hash"}, link)
                self._entries += 1
                if self._heads.get(owner) == link:
                    self._seen.add((owner, link))
            case {"chain": str(owner), "entries": int(length), "head": str(head)}:
                if line.get("database") != self._database:
                    self._complain("chain_of_other_database", line=self._number, owner=owner)
                self._end_chain(self._chain(owner).end(Head(owner, length, head)))
            case {"database": str(name)} if len(line) == 1:
                self._close_unfinished()
                if name in self._databases:
                    self._complain("database_repeated", line=self._number, database=name)
                self._database = name
                self._databases.append(name)
            case {"end": True, "chains": int(), "entries": int()}:
                self._close_unfinished()
                self._ended = True
                self._compare_counts(line)
            case _:
                return False
        return True

    def _chain(self, owner: str) -> ChainCheck:
        if self._open is None or self._open.owner != owner:
            self._close_unfinished()
            if any((each.database, each.owner) == (self._database, owner) for each in self._verified):
                self._complain("chain_repeated", line=self._number, owner=owner)
            self._open = ChainCheck(owner, kept_head(self._heads, self._database, owner))
        return self._open

    def _end_chain(self, found: Verified) -> None:
        self._verified.append(replace(found, database=self._database))
        self._open = None

    def _close_unfinished(self) -> None:
        if self._open is not None:
            self._end_chain(self._open.end(None))

    def _compare_counts(self, noted: Line) -> None:
        """Compare what a header or a last line says with what the file holds."""
        found = {"chains": len(self._verified), "entries": self._entries}
        expected = {name: noted.get(name) for name in found}
        if expected != found:
            facts: dict[str, str | int] = {f"found_{name}": count for name, count in found.items()}
            facts |= {name: str(count) for name, count in expected.items()}
            complaint = Complaint("file_counts_differ", facts)
            if complaint not in self._complaints:
                self._complaints.append(complaint)

    def _complain(self, reason: str, **facts: str | int) -> None:
        self._complaints.append(Complaint(reason, facts))


def _parse(text: str) -> Line | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
