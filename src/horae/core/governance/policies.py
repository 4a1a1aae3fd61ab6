"""Policies: the numbers by which objects are governed, per owner, agent and kind. The built-in row holds for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, get_args

from horae.errors import InvalidInput

Category = Literal["event", "fact", "procedural"]
Mode = Literal["explore", "conservative", "abstain", "escalate"]
UnknownType = Literal["out_of_scope", "multipath", "ontic_unknowable"]
Risk = Literal["low", "medium", "high"]
Impact = Literal["low", "medium", "high", "critical"]

CATEGORIES: tuple[Category, ...] = get_args(Category)
MODES: tuple[Mode, ...] = get_args(Mode)
UNKNOWN_TYPES: tuple[UnknownType, ...] = get_args(UnknownType)
RISKS: tuple[Risk, ...] = get_args(Risk)
IMPACTS: tuple[Impact, ...] = get_args(Impact)
MILLION = 1_000_000  # parts: shares are whole numbers inside, so that entries hold no floating point
DAY = timedelta(days=1)
LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Policy:
    """How objects of one kind age, are looked at again and are let go."""

    version: int = 0  # 0 is the built-in one
    stability: timedelta = 14 * DAY  # at the beginning, and again after a doubt
    longest_stability: timedelta = 365 * DAY
    stretch: int = 2  # by which a confirmation multiplies stability
    target: int = 900_000  # retrievability, in parts of a million, at which truth is looked at again
    half_lives: Mapping[str, timedelta | None] = field(
        default_factory=lambda: {"event": 30 * DAY, "fact": 120 * DAY, "procedural": None}
    )
    stale_below: int = 250_000  # weight, in parts of a million
    uncertain_for: timedelta = 7 * DAY  # the time to live of uncertainty
    verify_budget: int = 2  # automatic verifications in one episode of uncertainty (S0-35)
    mode: Mode = "conservative"
    most_inconclusive: int = 3  # in an object's life; then it counts as unknowable (S0-36)
    inconclusive_delay: timedelta = DAY  # and three times as long after each further one
    reinstate_after: tuple[timedelta, ...] = (30 * DAY, 90 * DAY, 270 * DAY)  # as many checks in an object's life
    recheck_every: timedelta = 7 * DAY
    archive_after: timedelta = 30 * DAY
    tamper_at: int = 700_000  # suspected from this score on, in parts of a million
    trusted_sources: tuple[str, ...] = ()
    review_confidence: int = 600_000
    act_age: timedelta = 14 * DAY  # how recently a cited object of high risk must have been verified

    def __post_init__(self) -> None:
        spans = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in spans.items():
            if isinstance(value, timedelta) and not timedelta(0) < value <= LONGEST:
                raise InvalidInput("policy_span_unreadable", name=name, most_days=LONGEST.days)
        for name in ("target", "stale_below", "tamper_at", "review_confidence"):
            if not 0 < spans[name] < MILLION:
                raise InvalidInput("policy_share_unreadable", name=name)
        if self.mode not in MODES or self.stretch < 1 or min(self.verify_budget, self.most_inconclusive) < 0:
            raise InvalidInput("policy_counts_unreadable")


BUILT_IN = Policy()


def half_life(policy: Policy, category: str) -> timedelta | None:
    """Return how fast a category fades; None where it does not."""
    return policy.half_lives.get(category)


def millionths(share: Any, name: str) -> int:
    """Return a share between 0 and 1 as parts of a million."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InvalidInput("share_unreadable", name=name, value=repr(share))
    return round(share * MILLION)
