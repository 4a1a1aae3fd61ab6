"""How long finished rows are kept: one span for each kind of row, and rules for runs of a queue or of an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Self

from horae.core.dataclass import dataclass
from horae.errors import InvalidInput

ANY = ""  # any queue, any outcome
OUTCOMES = ("succeeded", "failed", "timed_out", "lost", "skipped", "cancelled", "snoozed", "released")
# Shorter than an hour, and a repeated call or a late alert would find its key gone.
SHORTEST_KEPT, LONGEST_KEPT = timedelta(hours=1), timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished rows are kept. Jobs that wait, run or are dead are never deleted."""

    runs: timedelta = timedelta(days=30)
    fires: timedelta = timedelta(days=30)
    keys: timedelta = timedelta(days=7)
    nodes: timedelta = timedelta(days=1)

    @classmethod
    def read(cls, setting: Callable[[str], timedelta]) -> Self:
        """Read it from settings: ``keep_runs``, ``keep_fires`` and so on."""
        return cls(**{each.name: setting(f"keep_{each.name}") for each in fields(cls)})


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long runs of one queue, of one outcome, or of both together are kept; empty means any."""

    queue: str
    outcome: str
    keep: timedelta
    stored_at: datetime | None = None
    stored_by: str = ""


@dataclass(frozen=True, slots=True)
class RunRetention:
    """The stored rules for runs, and how long everything else is kept."""

    rules: tuple[RetentionRule, ...]
    default: timedelta

    def keep(self, queue: str, outcome: str) -> timedelta:
        """Return how long a run is kept: by queue and outcome, else by queue, else by outcome, else like all others."""
        stored = {(rule.queue, rule.outcome): rule.keep for rule in self.rules}
        for name in ((queue, outcome), (queue, ANY), (ANY, outcome), (ANY, ANY)):
            if name in stored:
                return stored[name]
        return self.default

    @property
    def spans(self) -> list[timedelta]:
        """Return every span that some run may be kept for, the shortest first."""
        others = [] if any(rule.queue == rule.outcome == ANY for rule in self.rules) else [self.default]
        return sorted({*(rule.keep for rule in self.rules), *others})

    @property
    def longest(self) -> timedelta:
        return self.spans[-1]


def check_keep(keep: timedelta, text: object = None) -> timedelta:
    """Refuse a span that is too short to be useful, or longer than the calendar bears."""
    if not SHORTEST_KEPT <= keep <= LONGEST_KEPT:
        raise InvalidInput("retention_outside", text=str(keep if text is None else text), most_days=LONGEST_KEPT.days)
    return keep


def check_outcome(outcome: str) -> str:
    if outcome not in (ANY, *OUTCOMES):
        raise InvalidInput("choice_unknown", name="outcome", value=outcome, choices=list(OUTCOMES))
    return outcome


def sort_rules(rules: Iterable[RetentionRule]) -> tuple[RetentionRule, ...]:
    """Sort rules as they are shown: those for every queue first."""
    return tuple(sorted(rules, key=lambda rule: (rule.queue, rule.outcome)))
