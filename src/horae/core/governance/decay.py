"""The curves by which truth and weight fade, and their inverses: the time of a crossing is computed, never looked for.

Two clocks are kept apart: verification (when to look again, the FSRS power curve) and use (when to let go, half-lives).
Reading an object moves neither.
"""

from __future__ import annotations

import math
from datetime import timedelta

EXPONENT = -0.1542  # of the FSRS curve, which is 0.90 after one stability
FACTOR = 0.9 ** (1 / EXPONENT) - 1
TARGET = 0.90
MICROSECOND = timedelta(microseconds=1)
NEVER = timedelta(days=36_500)


def retrievability(age: timedelta, stability: timedelta) -> float:
    """Return how probably something verified so long ago still holds, between 0 and 1."""
    return math.pow(1 + FACTOR * (max(age, timedelta(0)) / stability), EXPONENT)


def until_retrievability(target: float, stability: timedelta) -> timedelta:
    """Return after how long the probability has fallen to the target."""
    return _whole(stability / MICROSECOND / FACTOR * (target ** (1 / EXPONENT) - 1))


def weight(age: timedelta, half_life: timedelta) -> float:
    """Return the weight of something last used so long ago, between 0 and 1."""
    return math.exp2(-(max(age, timedelta(0)) / half_life))


def until_weight(threshold: float, half_life: timedelta) -> timedelta:
    """Return after how long the weight has fallen to the threshold."""
    return _whole(half_life / MICROSECOND * math.log2(1 / threshold))


def _whole(micros: float) -> timedelta:
    """Round up to a whole millisecond, so that the threshold has been crossed at that instant on every machine.

    A crossing in the far future is one that never happens; beyond it there would be no date.
    """
    return min(timedelta(milliseconds=math.ceil(min(micros, NEVER / MICROSECOND) / 1000 - 1e-6)), NEVER)
