"""Settings of the house, of which every database of a cluster has a copy: the newest decision about each one wins.

A decision has a rank: its version, then the number of the database that it was decided in. One database gives a version
once for each setting, so no two decisions have the same rank, and whatever order copies arrive in, all databases end
with the same one. A version is the instant of the decision in microseconds, and always more than the version that it
replaces: so the later decision wins also where one of the two databases could not be reached meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple

from horae.core.dataclass import dataclass

Kind = Literal[
    "calendar", "definition", "limit", "limits", "mute", "queue.fair", "queue.order", "queue.pause", "queue.quiet",
    "retention",
]  # fmt: skip
WHOLE, PENDING = "yes", ""  # what of a setting holds in a database: all of it, or nothing yet
SHARED: tuple[Kind, ...] = ("limit", "limits")  # of which each database keeps to a share


class Rank(NamedTuple):
    """The order of decisions about one setting; the highest wins."""

    version: int
    decided_in: int


@dataclass(frozen=True, slots=True)
class SharedSetting:
    """One decision about one setting, and in a copy what of it holds there."""

    kind: Kind
    name: str
    version: int
    decided_in: int  # the number of a database
    value: Mapping[str, Any]
    actor: str = ""
    reason: str = ""
    applied: str = field(default=PENDING, compare=False)

    @property
    def rank(self) -> Rank:
        return Rank(self.version, self.decided_in)


class Head(NamedTuple):
    """How far a copy of a setting has come."""

    rank: Rank
    applied: str


def next_version(known: int, now: int) -> int:
    """Return the version of a decision that is made *now*, in microseconds, over a *known* one."""
    return max(known + 1, now)


@dataclass(frozen=True, slots=True)
class Portion:
    """Which of how many equal shares of a limit a database has; -1: it keeps nothing, so that it has none."""

    index: int = 0
    count: int = 1

    def share(self, most: int | None) -> int | None:
        """Return the share of a limit; at least 1, or the jobs there would never run."""
        if most is None:
            return None
        whole, rest = divmod(most, self.count)
        return max(1, whole + (0 <= self.index < rest))

    def mark(self, kind: Kind) -> str:
        """Return what is noted in a copy that was applied with this portion."""
        return f"{self.index}/{self.count}" if kind in SHARED else WHOLE


def portion_of(number: int, keeping: Sequence[int]) -> Portion:
    """Return the portion of a database among those that keep something."""
    return Portion(keeping.index(number) if number in keeping else -1, max(1, len(keeping)))


def find_behind(
    known: Mapping[tuple[Kind, str], Head], elsewhere: Mapping[int, Mapping[tuple[Kind, str], Head]]
) -> dict[int, list[tuple[Kind, str]]]:
    """Return by the number of another database the settings of which it has the newest decision and this one not."""
    best: dict[tuple[Kind, str], tuple[Rank, int]] = {}
    for number, heads in elsewhere.items():
        for key, head in heads.items():
            if (key not in known or head.rank > known[key].rank) and (key not in best or head.rank > best[key][0]):
                best[key] = (head.rank, number)
    found: dict[int, list[tuple[Kind, str]]] = {}
    for key, (_, number) in sorted(best.items()):
        found.setdefault(number, []).append(key)
    return found
