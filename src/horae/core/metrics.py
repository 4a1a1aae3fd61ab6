"""Figures about the work, in a form that every floor can make and the service can show.

Labels are bounded: whatever is beyond the bound is counted as "other", so that no caller can make the list of series
grow without end. A label is a queue, a handler, a state or the like; never an owner, an id or a text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass

OTHER = "other"
MOST = 100  # distinct values of one label

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A histogram: how many values fell up to each bound and beyond the last one, and their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds; each for itself, not added up
    total: float

    def __add__(self, other: Spread) -> Spread:
        both = tuple(ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True))
        return Spread(self.bounds, both, self.total + other.total)


class Buckets:
    """One histogram under way."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: Sequence[float]) -> None:
        counts, bounds = self.counts, self.bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)

    def spread(self) -> Spread:
        return Spread(self.bounds, tuple(self.counts), self.total)


Point = float | Spread


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its series."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    points: Mapping[tuple[str, ...], Point] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Jobs of one queue that are due and not running."""

    count: int
    since: datetime


def limit_labels(values: Iterable[str], first: Iterable[str] = (), most: int = MOST) -> Callable[[str], str]:
    """Return a function that keeps a label's *first* values, then *values* in order, and calls the rest "other"."""
    names = frozenset(list(dict.fromkeys([*first, *values]))[:most])
    return lambda value: value if value in names else OTHER


def sum_by_labels(
    points: Iterable[tuple[tuple[str, ...], float]], merge: Callable[[float, float], float] = lambda a, b: a + b
) -> dict[tuple[str, ...], float]:
    """Return values by their labels; merge those that share labels."""
    values: dict[tuple[str, ...], float] = {}
    for labels, value in points:
        values[labels] = merge(values[labels], value) if labels in values else value
    return values


def merge_families(families: Sequence[Family]) -> list[Family]:
    """Merge families of the same name; the text of the first one counts."""
    found: dict[str, Family] = {}
    for family in families:
        known = found.get(family.name)
        points = family.points if known is None else {**known.points, **family.points}
        like = known or family
        found[family.name] = Family(like.name, like.kind, like.text, like.labels, points)
    return list(found.values())
