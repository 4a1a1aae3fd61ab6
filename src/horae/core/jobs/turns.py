"""Turns between the owners of one queue, by weight.

Start-time fair queueing: each owner has a *pass*, which grows with every job it is given, by less where its weight is
larger; the owner with the smallest pass comes next. An owner that had nothing to do begins where the others are now, so
that it neither saves up turns nor waits behind what others have saved up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Literal

Fair = Literal["owner"]
FAIR: tuple[Fair, ...] = ("owner",)
MAX_WEIGHT = 1000
FIRST, NEW, SERVED = range(3)  # who comes before whom at the same pass
FORGOTTEN_BEYOND = 1000  # passes of owners without work, before those that no longer matter are dropped


class Turns:
    """Whose turn it is. Kept in the memory of a process; it decides only between owners that were added."""

    def __init__(self) -> None:
        self.weights: Mapping[str, int] = {}
        # A heap of pass, rank, number and owner; an entry counts while `_waiting` names its pass.
        self._line: list[tuple[float, int, int, str]] = []
        self._waiting: dict[str, float] = {}
        self._passes: dict[str, float] = {}  # of owners without work that are ahead of the others
        self._time = 0.0  # the smallest pass of those that wait
        self._furthest = 0.0  # no pass is beyond it
        self._entered = 0
        self._most = FORGOTTEN_BEYOND
        self._newcomers = 1.0  # how many owners may still go first

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def remembered(self) -> int:
        """How many owners without work are remembered."""
        return len(self._passes)

    def __contains__(self, owner: str) -> bool:
        return owner in self._waiting

    def add(self, owners: Iterable[str]) -> None:
        """Let owners take part that may have due jobs; those that already do keep their place."""
        self._advance()
        for owner in owners:
            if owner not in self._waiting:
                self._enter(owner, NEW)

    def add_first(self, owners: Iterable[str], room: int) -> None:
        """Let owners take part; those that are not ahead of the others come first, at most half of the *room* so.

        The other half is for owners that have waited: a stream of new ones cannot keep them out.
        """
        self._newcomers = min(self._newcomers + room / 2, max(1.0, room / 2))
        self._advance()
        for owner in owners:
            reached = self._waiting.get(owner, self._passes.get(owner, 0.0))
            if self._newcomers >= 1 and reached <= self._time:
                self._newcomers -= 1
                self._enter(owner, FIRST)
            elif owner not in self._waiting:
                self._enter(owner, NEW)

    def share(self, room: int, quantum: int = 1) -> dict[str, int]:
        """Divide *room* between the owners whose turn it is; a turn is *quantum* jobs for each unit of weight.

        They are charged for it; what they do not take is returned by :meth:`charge`.
        """
        given: dict[str, int] = {}
        while room > 0 and self._line:
            reached, _, _, owner = heappop(self._line)
            if self._waiting.get(owner) != reached:
                continue
            weight = self.weights.get(owner, 1)
            count = room if len(self._waiting) == 1 else min(room, quantum * weight)
            given[owner] = given.get(owner, 0) + count
            room -= count
            self._move(owner, reached + count / weight)
        return given

    def admit(self, owners: Iterable[str], size: int) -> list[bool]:
        """Say for each of some jobs, by their owners, whether it may be taken out of turn.

        It may as long as its owner gets no further than one turn of *size* ahead of those that wait.
        """
        self._advance()
        now, weights, waiting, passes = self._time, self.weights, self._waiting, self._passes  # it runs for each job
        most = now + size
        reached: dict[str, float] = {}
        admitted = []
        for owner in owners:
            at = reached.get(owner)
            if at is None:
                at = waiting.get(owner)
                if at is None:
                    at = passes.get(owner, now)
                if at < now:
                    at = now
            may = at < most
            admitted.append(may)
            reached[owner] = at if not may else at + 1 / weights.get(owner, 1) if weights else at + 1
        return admitted

    def admits_all(self, owners: Iterable[str], size: int) -> bool:
        """Say whether :meth:`admit` would admit all, where that can be said without a look at each."""
        self._advance()
        return max(self._furthest, self._time) + max(Counter(owners).values(), default=0) <= self._time + size

    def charge(self, given: Mapping[str, int], found: Mapping[str, int], taken: Mapping[str, int]) -> None:
        """Charge owners for the jobs that were *taken* instead of *given*; who was *found* with fewer has no more."""
        for owner, count in given.items():
            reached = self._waiting.get(owner)
            if reached is None:
                continue
            reached -= (count - taken.get(owner, 0)) / self.weights.get(owner, 1)
            if found.get(owner, 0) < count:
                self._leave(owner, reached)
            elif taken.get(owner, 0) < count:
                self._move(owner, reached)

    def charge_more(self, taken: Mapping[str, int]) -> None:
        """Charge owners for jobs that were taken out of turn."""
        self._advance()
        now, weights, waiting, passes = self._time, self.weights, self._waiting, self._passes  # it runs for each owner
        for owner, count in taken.items():
            ahead = count / weights.get(owner, 1) if weights else count
            at = waiting.get(owner)
            if at is not None:
                self._move(owner, at + ahead)
            elif waiting:
                at = passes.get(owner, now)
                passes[owner] = at = (at if at > now else now) + ahead
                if at > self._furthest:
                    self._furthest = at
            else:
                self._leave(owner, max(self._time, passes.get(owner, 0.0)) + ahead)
        self._forget()

    def forget_owners(self) -> None:
        """Forget all owners: none waits any more, and none is ahead of another."""
        self._line.clear()
        self._waiting.clear()
        self._passes.clear()

    def _advance(self) -> None:
        """Let time reach the smallest pass of those that wait."""
        while self._line and self._waiting.get(self._line[0][3]) != self._line[0][0]:
            heappop(self._line)
        if self._line:
            self._time = max(self._time, self._line[0][0])

    def _enter(self, owner: str, rank: int) -> None:
        reached = self._waiting.get(owner, max(self._time, self._passes.pop(owner, 0.0)))
        self._waiting[owner] = reached
        self._entered += 1
        heappush(self._line, (reached, rank, self._entered, owner))

    def _move(self, owner: str, reached: float) -> None:
        self._waiting[owner] = reached
        self._furthest = max(self._furthest, reached)
        self._entered += 1
        heappush(self._line, (reached, SERVED, self._entered, owner))
        if len(self._line) > 2 * len(self._waiting) + FORGOTTEN_BEYOND:
            self._line = [entry for entry in self._line if self._waiting.get(entry[3]) == entry[0]]
            heapify(self._line)

    def _leave(self, owner: str, reached: float) -> None:
        self._waiting.pop(owner, None)
        if not self._waiting:  # no owner waits, so none is ahead of another
            self._time = max(self._time, reached)
            self._passes.clear()
        if reached > self._time:
            self._passes[owner] = reached
            self._furthest = max(self._furthest, reached)
        self._forget()

    def _forget(self) -> None:
        """Drop the passes that no longer matter, once there are many."""
        if len(self._passes) > self._most:
            self._passes = {name: ahead for name, ahead in self._passes.items() if ahead > self._time}
            self._most = 2 * len(self._passes) + FORGOTTEN_BEYOND
