"""Policies: the numbers by which objects are governed, per owner, agent and kind. The built-in row holds for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from horae.core.dataclass import dataclass
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
    after_decay: timedelta = 3 * DAY  # the first look at what has faded
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


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """One version of a policy as a person has set it; what it does not mention is as in the built-in one."""

    owner: str
    agent: str  # * for all
    kind: str
    version: int
    settings: Mapping[str, Any]
    set_at: datetime
    set_by: str


SPANS = (
    "stability", "longest_stability", "uncertain_for", "inconclusive_delay", "recheck_every", "after_decay",
    "archive_after", "act_age",
)  # fmt: skip
SHARES = ("target", "stale_below", "tamper_at", "review_confidence")
COUNTS = ("stretch", "verify_budget", "most_inconclusive")
MOST_COUNT = 1000
MOST_SOURCES = 100


def settings_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings of a policy as a person gives them: spans in seconds, shares from 0 to 1.

    They are returned as they are stored: spans in microseconds, shares in parts of a million.
    """
    if not isinstance(given, Mapping):
        raise InvalidInput("policy_unreadable", fields=sorted(SETTINGS))
    unknown = sorted(set(map(str, given)) - set(SETTINGS))
    if unknown:
        raise InvalidInput("policy_field_unknown", field=unknown[0][:40], fields=sorted(SETTINGS))
    kept = {name: _setting(name, value) for name, value in given.items()}
    resolve_settings(kept, 1)  # refuses what does not fit together
    return kept


def _setting(name: str, value: Any) -> Any:
    if name in SPANS:
        return _micros(name, value)
    if name in SHARES:
        return millionths(value, name)
    if name in COUNTS:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COUNT:
            raise InvalidInput("policy_counts_unreadable")
        return value
    if name == "half_lives":
        if not isinstance(value, Mapping) or not set(CATEGORIES).issuperset(value):
            raise InvalidInput("policy_half_lives_unreadable", categories=CATEGORIES)
        return {each: None if span is None else _micros(f"half_lives.{each}", span) for each, span in value.items()}
    if name == "mode":
        if value not in MODES:
            raise InvalidInput("choice_unknown", name="mode", value=repr(value)[:40], choices=MODES)
        return value
    listed = isinstance(value, list | tuple) and len(value) <= MOST_SOURCES
    if name == "reinstate_after":
        if not listed:
            raise InvalidInput("policy_list_unreadable", name=name, most=MOST_SOURCES)
        return [_micros(name, each) for each in value]
    if not listed or not all(isinstance(each, str) and each.strip() and len(each) <= 500 for each in value):
        raise InvalidInput("policy_list_unreadable", name=name, most=MOST_SOURCES)
    return list(value)


def _micros(name: str, seconds: Any) -> int:
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST.total_seconds():
        raise InvalidInput("policy_span_unreadable", name=name, most_days=LONGEST.days)
    return round(seconds * MILLION)


def resolve(stored: StoredPolicy) -> Policy:
    """Return the policy that stored settings mean; what they do not mention is as in the built-in one."""
    return resolve_settings(stored.settings, stored.version)


def resolve_settings(settings: Mapping[str, Any], version: int) -> Policy:
    values: dict[str, Any] = {"version": version}
    for name, value in settings.items():
        if name in SPANS:
            values[name] = timedelta(microseconds=value)
        elif name == "half_lives":
            given = {each: None if span is None else timedelta(microseconds=span) for each, span in value.items()}
            values[name] = {**BUILT_IN.half_lives, **given}
        elif name == "reinstate_after":
            values[name] = tuple(timedelta(microseconds=each) for each in value)
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    return Policy(**values)


def policy_settings(policy: Policy) -> dict[str, Any]:
    """Return a policy as doors show it: spans in seconds, shares from 0 to 1."""
    settings: dict[str, Any] = {}
    for name in SETTINGS:
        value = getattr(policy, name)
        if name in SHARES:
            settings[name] = round(value / MILLION, 6)
        elif name == "half_lives":
            settings[name] = {each: None if span is None else span.total_seconds() for each, span in value.items()}
        elif name == "reinstate_after":
            settings[name] = [each.total_seconds() for each in value]
        else:
            settings[name] = value.total_seconds() if isinstance(value, timedelta) else value
    return settings


SETTINGS = tuple(each.name for each in fields(Policy) if each.name != "version")


def half_life(policy: Policy, category: str) -> timedelta | None:
    """Return how fast a category fades; None where it does not."""
    return policy.half_lives.get(category)


def millionths(share: Any, name: str) -> int:
    """Return a share between 0 and 1 as parts of a million."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InvalidInput("share_unreadable", name=name, value=repr(share))
    return round(share * MILLION)
