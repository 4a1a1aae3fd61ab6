"""Which endings need nothing but a run row, and which of them can be written in one go."""

from __future__ import annotations

from collections.abc import Sequence

from horae.core.jobs.job import Settlement


def is_plain_ending(settlement: Settlement) -> bool:
    """Return whether only a run row is to be written: no retry, name, line, dependent or lease is concerned."""
    outcome = settlement.outcome
    return (
        settlement.change.state in ("succeeded", "cancelled")
        and outcome.lines is None
        and outcome.ending != "skipped"
        and not (settlement.unique or settlement.has_dependents)
        and settlement.expired_before is None
        and settlement.entry is None
    )


def are_alike(settlements: Sequence[Settlement]) -> bool:
    """Return whether endings differ in nothing but the job: the same outcome, behind the same token."""
    first = settlements[0]
    token, outcome, change = first.token, first.outcome, first.change
    return all(
        each.token == token
        and (each.outcome is outcome or each.outcome == outcome)
        and each.change.state == change.state
        and each.change.attempt == change.attempt
        and each.change.error == change.error
        for each in settlements
    )
