"""Figures over time as heights of bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from math import sqrt
from typing import TypeVar

from horae.core.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar: from when to when, and how many of each kind."""

    start: datetime
    end: datetime
    done: int = 0
    failed: int = 0
    fires: int = 0


def bins(since: datetime, until: datetime, width: timedelta) -> list[tuple[datetime, datetime]]:
    """Return spans of equal width that cover a window, the last one perhaps beyond it."""
    found, at = [], since
    while at < until:
        found.append((at, at + width))
        at += width
    return found


def collect(
    since: datetime, until: datetime, width: timedelta, things: Iterable[T], at: Callable[[T], datetime]
) -> list[list[T]]:
    """Return the things of each bar; what is outside the window is left out."""
    spans = bins(since, until, width)
    found: list[list[T]] = [[] for _ in spans]
    for each in things:
        index = (at(each) - since) // width
        if 0 <= index < len(found):
            found[index].append(each)
    return found


def levels(numbers: Sequence[int]) -> list[float]:
    """Return heights from 0 to 1 by the square root, so that a busy minute does not hide a quiet hour."""
    most = max(numbers, default=0)
    return [sqrt(each / most) if most else 0.0 for each in numbers]


def level(number: int, most: int) -> float:
    """Return the height of one number where *most* is the largest."""
    return sqrt(number / most) if most and number else 0.0
