"""Whose turn it is at a free slot, where workers of several databases share the slots of one process.

Without turns the worker whose job has just ended would claim the next one for the slot, as it is awake already, and a
database with a long backlog would keep all slots.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol


class Peer(Protocol):
    def ring(self) -> None:
        """Look for work; from the loop's thread."""


class Turns:
    """Lines of workers that wait for a slot, one line for each queue; all of them share this."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Peer]] = defaultdict(list)

    def ahead_of(self, peer: Peer, queue: str) -> int:
        """Return how many free slots are for others: those who wait longer."""
        line = self._lines[queue]
        return line.index(peer) if peer in line else len(line)

    def wait(self, peer: Peer, queue: str) -> None:
        """Stand in line; a peer that does so already keeps its turn."""
        if peer not in self._lines[queue]:
            self._lines[queue].append(peer)

    def leave(self, peer: Peer, queue: str | None = None) -> None:
        """Leave a line, or all of them; who is behind may have a turn."""
        for name in [queue] if queue is not None else list(self._lines):
            line = self._lines[name]
            if peer in line:
                line.remove(peer)

    def call_next(self, queue: str) -> None:
        """Let those in line look for work, after a turn that left slots free."""
        for each in list(self._lines[queue]):
            each.ring()
