"""An export of the audit: lines of JSON that prove themselves, without the database.

The first line is the header. Then follows each chain: its entries in their order, each with the hash that seals it,
and a closing line with its length and head. The last line ends the file. Whatever was changed, removed or moved inside
is found by :class:`ExportCheck`; a file whose end was removed *and* whose closing lines were rewritten is found only by
a head that was kept elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from horae.core.audit.chain import ChainCheck, Complaint, Head, Seal, Verified
from horae.core.audit.entries import Entry, entry_body
from horae.core.time.instants import iso

FORMAT, VERSION = "horae.audit", 1
Line = dict[str, Any]


def header_line(at: datetime, owner: str | None, chains: int, entries: int) -> Line:
    return {
        "export": FORMAT, "version": VERSION, "exported_at": iso(at), "owner": owner, "chains": chains,
        "entries": entries,
    }  # fmt: skip


def entry_line(seal: Seal, entry: Entry) -> Line:
    """Return an entry as it was hashed, and its hash."""
    return entry_body(seal.seq, seal.number, entry) | {"hash": seal.hash}


def closing_line(head: Head) -> Line:
    return {"chain": head.owner, "entries": head.seq, "head": head.hash}


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
        known = {each.owner for each in self._verified}
        missing = (owner for owner in self._heads if owner not in known)
        chains = [*self._verified, *(Verified(each, 0, "", (Complaint("chain_missing"),)) for each in missing)]
        return chains, self._complaints

    def _begin(self, line: Line | None) -> None:
        if line is None or line.get("export") != FORMAT:
            self._complain("file_has_no_header")
            if line is not None:
                self._feed(line)
        elif line.get("version") != VERSION:
            self._complain("file_version_unknown", version=str(line.get("version")), known=VERSION)
        else:
            self._header = line

    def _feed(self, line: Line) -> bool:
        match line:
            case {"hash": str(link), "owner": str(owner), "seq": int(), "id": int()}:
                self._chain(owner).add({name: value for name, value in line.items() if name != "hash"}, link)
                self._entries += 1
            case {"chain": str(owner), "entries": int(length), "head": str(head)}:
                self._verified.append(self._chain(owner).end(Head(owner, length, head)))
                self._open = None
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
            if any(each.owner == owner for each in self._verified):
                self._complain("chain_repeated", line=self._number, owner=owner)
            self._open = ChainCheck(owner, self._heads.get(owner))
        return self._open

    def _close_unfinished(self) -> None:
        if self._open is not None:
            self._verified.append(self._open.end(None))
            self._open = None

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
