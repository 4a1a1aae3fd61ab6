"""A circuit breaker as a value: whether a target may be called now, and what its answer changes.

::

    closed ──tripped──▶ open ──probed──▶ half-open ──recovered──▶ closed
                         ▲                   │
                         └─────tripped───────┘

A target that fails several times in a row is left alone for a while. Then one call is let through: if it succeeds,
all may follow; if it fails, the rest is longer. A probe whose caller never came back stops counting after a while.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from horae.core.dataclass import dataclass
from horae.core.machine import Machine

CIRCUIT = Machine(
    "circuit",
    "closed",
    {
        ("closed", "tripped"): "open",
        ("open", "probed"): "half-open",
        ("half-open", "recovered"): "closed",
        ("half-open", "tripped"): "open",
        ("half-open", "probed"): "half-open",
        ("open", "recovered"): "closed",
    },
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How much a target may fail, and how long it is then left alone."""

    failures: int = 5
    rest: timedelta = timedelta(seconds=30)
    longest_rest: timedelta = timedelta(minutes=10)
    probe: timedelta = timedelta(seconds=60)  # by then a probe has ended, or its caller is gone

    def rest_after(self, trips: int) -> timedelta:
        """Return how long to leave the target alone: twice as long after each failed probe."""
        return min(self.longest_rest, self.rest * (1 << min(trips - 1, 20)))


@dataclass(frozen=True, slots=True)
class Circuit:
    """What is known of one target."""

    state: str = CIRCUIT.start
    failures: int = 0  # in a row
    trips: int = 0  # since it last worked
    until: datetime | None = None  # open: closed to all before that; half-open: the probe counts until then


def request_call(circuit: Circuit, patience: Patience, *, now: datetime) -> tuple[Circuit, timedelta | None]:
    """Ask to make a call: None permits it, a duration says how long to wait before asking again."""
    if circuit.state == "closed":
        return circuit, None
    if circuit.until is not None and now < circuit.until:
        return circuit, circuit.until - now
    state = CIRCUIT.after(circuit.state, "probed")
    return replace(circuit, state=state, until=now + patience.probe), None


def after_success(circuit: Circuit) -> Circuit:
    """Close the circuit: the target answered, even if late and to a call from before it was left alone."""
    if circuit.state == "closed":
        return replace(circuit, failures=0)
    return Circuit(state=CIRCUIT.after(circuit.state, "recovered"))


def after_failure(circuit: Circuit, patience: Patience, *, now: datetime) -> Circuit:
    """Count a failure: the target did not answer, or could not."""
    failures = circuit.failures + 1
    if circuit.state == "open" or (circuit.state == "closed" and failures < patience.failures):
        return replace(circuit, failures=failures)
    trips = circuit.trips + 1
    state = CIRCUIT.after(circuit.state, "tripped")
    return Circuit(state, failures, trips, now + patience.rest_after(trips))


def after_nothing(circuit: Circuit, *, now: datetime) -> Circuit:
    """Let another call probe at once: the permitted one was never made, or its caller broke it off."""
    return replace(circuit, until=now) if circuit.state == "half-open" else circuit
