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
    "budget", "calendar", "definition", "limit", "limits", "mute", "queue.fair", "queue.order", "queue.pause",
    "queue.quiet", "retention", "share",
]  # fmt: skip
WHOLE, PENDING = "yes", ""  # what of a setting holds in a database: all of it, or nothing yet
SHARED: tuple[Kind, ...] = ("budget", "limit", "limits")  # of which each database keeps to a share
OWN: Kind = "share"  # what a database notes about its own shares; no other copies it
MARK = 20  # characters in which a portion is noted


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
    """Which of how many equal shares of a limit a database has; -1: it keeps nothing, so that it has none.

    While the shares are divided anew, *at_most* are the portions that it had before: it keeps to the least of all.
    """

    index: int = 0
    count: int = 1
    at_most: tuple[tuple[int, int], ...] = ()

    @property
    def is_interim(self) -> bool:
        """Whether the database still waits for others to lower their shares."""
        return bool(self.at_most)

    @property
    def final(self) -> Portion:
        """The portion that it has when all others have lowered theirs."""
        return Portion(self.index, self.count)

    def share(self, most: int | None) -> int | None:
        """Return the share of a limit; at least 1 where it keeps something, or the jobs there would never run."""
        if most is None:
            return None
        return min(_share(most, *part) for part in ((self.index, self.count), *self.at_most))

    def towards(self, target: Portion) -> Portion:
        """Return the portion on the way to another: at most what this one is. Where too many meet, it is none."""
        aim = (target.index, target.count)
        former = tuple(part for part in dict.fromkeys(((self.index, self.count), *self.at_most)) if part != aim)
        found = Portion(*aim, former or (aim,))
        return found if len(found.text) <= MARK else Portion(*aim, ((-1, 1),))

    def mark(self, kind: Kind) -> str:
        """Return what is noted in a copy that was applied with this portion."""
        return self.text if kind in SHARED else WHOLE

    @property
    def text(self) -> str:
        return ",".join(f"{index}/{count}" for index, count in ((self.index, self.count), *self.at_most))


def read_portion(text: str) -> Portion:
    """Read what :attr:`Portion.text` has written."""
    pairs = [(int(index), int(count)) for index, count in (each.split("/") for each in text.split(","))]
    return Portion(*pairs[0], tuple(pairs[1:]))


def _share(most: int, index: int, count: int) -> int:
    if index < 0 or most == 0:
        return 0
    whole, rest = divmod(most, count)
    return max(1, whole + (index < rest))


def portion_of(number: int, keeping: Sequence[int]) -> Portion:
    """Return the portion of a database among those that keep something."""
    return Portion(keeping.index(number) if number in keeping else -1, max(1, len(keeping)))


@dataclass(frozen=True, slots=True)
class Division:
    """How a database has divided what is shared out: among whom, by which version of the map, and its portion.

    Every database first lowers its share, which it may do at any time, and raises it only when all others that keep
    something go by the same *keepers*. So whatever is divided anew, and whichever process dies meanwhile, the shares in
    force never add up to more than the whole. A process with an older map changes nothing.
    """

    version: int
    keepers: tuple[int, ...]
    portion: Portion

    def as_json(self) -> dict[str, Any]:
        return {"keepers": list(self.keepers), "portion": self.portion.text}

    def lowered(self, number: int, version: int, keepers: Sequence[int]) -> Division:
        """Return the first step towards a division among others."""
        return Division(version, tuple(keepers), self.portion.towards(portion_of(number, keepers)))

    def raised(self) -> Division:
        """Return the last step."""
        return Division(self.version, self.keepers, self.portion.final)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What a database had of a budget in one period and what it keeps of it, noted when the budget is divided anew."""

    had: int
    kept: int


def divide_freed(wanted: Mapping[int, int], pins: Mapping[int, GivenUp]) -> dict[int, int]:
    """Return what each database may spend in the present period: what it keeps, and its part of what others gave up.

    *wanted* are the shares. What was spent stays where it was spent, so one that has spent more than its share keeps
    that, and the others get less. Every database comes to the same figures, because what was noted does not change.
    """
    freed = sum(max(0, each.had - each.kept) for each in pins.values())
    lacks = {number: max(0, share - pins[number].kept) for number, share in wanted.items()}
    total = sum(lacks.values())
    freed = min(freed, total)
    parts = {number: freed * lack // total if total else 0 for number, lack in lacks.items()}
    rest = freed - sum(parts.values())
    for number in sorted(parts):
        more = min(rest, lacks[number] - parts[number])
        parts[number], rest = parts[number] + more, rest - more
    return {number: pins[number].kept + part for number, part in parts.items()}


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
