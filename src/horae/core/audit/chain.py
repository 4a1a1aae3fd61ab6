"""Chains of hashes: each link covers every one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from horae.core.dataclass import dataclass

GENESIS = "0" * 64
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode  # made once: 5 µs


def hash_link(previous: str, body: Mapping[str, Any]) -> str:
    """Return the hash of what comes after *previous*; the order of names does not matter."""
    text = _encode(body)
    # Half a surrogate pair is no valid text, but JSON can carry it; refusing it here would stop the chain for ever.
    return hashlib.sha256(f"{previous}{text}".encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Seal:
    """What seals an entry: its number, its position in its owner's chain, and its hash."""

    number: int
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """How far an owner's chain has come, and the hash of its last entry."""

    owner: str
    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with a chain: a reason, and the facts of its sentence."""

    reason: str
    facts: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        from horae.words.sentences import why_line

        return why_line(self.reason, self.facts) or self.reason


@dataclass(frozen=True, slots=True)
class Verified:
    """What the verification of one owner's chain found."""

    owner: str
    entries: int
    head: str
    complaints: tuple[Complaint, ...]
    database: str | None = None  # of a cluster


def kept_head(heads: Mapping[str, str], database: str | None, owner: str) -> str | None:
    """Return the head that was kept of a chain: under its owner, in a cluster under ``database:owner``."""
    return heads.get(owner) if database is None else heads.get(f"{database}:{owner}")


class ChainCheck:
    """Recompute one owner's chain, entry by entry in their order."""

    def __init__(self, owner: str, kept_head: str | None = None) -> None:
        self.owner = owner
        self.complaints: list[Complaint] = []
        self._kept = kept_head
        self._kept_seen = kept_head in (None, GENESIS)
        self._last, self._previous = 0, GENESIS

    def add(self, body: Mapping[str, Any], link: str) -> None:
        """Check the next entry: its body as it is hashed, and the hash that was stored with it."""
        seq, number = int(body["seq"]), int(body["id"])
        if seq <= self._last:
            self.complain("entry_out_of_order", id=number, seq=seq, after=self._last)
            return
        if seq > self._last + 1:
            self.complain("entries_missing", id=number, count=seq - self._last - 1)
        elif link != hash_link(self._previous, body):
            self.complain("entry_changed", id=number)
        self._last, self._previous = seq, link
        self._kept_seen = self._kept_seen or link == self._kept

    def end(self, noted: Head | None) -> Verified:
        """Compare the end of the chain with what was noted about it, and return everything that is wrong."""
        head = Head(self.owner, self._last, self._previous) if noted is None else noted
        if noted is None:
            self.complain("chain_unfinished")
        elif head.seq != self._last:
            self.complain("chain_ends_elsewhere", expected=head.seq, found=self._last)
        elif head.hash != self._previous:
            self.complain("chain_head_differs", expected=head.hash, found=self._previous)
        if not self._kept_seen:
            self.complain("kept_head_unknown", head=str(self._kept))
        return Verified(self.owner, self._last, head.hash, tuple(self.complaints))

    def complain(self, reason: str, **facts: str | int) -> None:
        self.complaints.append(Complaint(reason, facts))
