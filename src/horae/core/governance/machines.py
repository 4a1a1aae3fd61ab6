"""The three machines of governed objects, and which event each action and verdict leads to.

A state of cognition has two parts, ``status/epistemic``; those of memory and experience have one. Whatever is not drawn
is refused to a caller, and leaves the object as it is when an action concludes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from horae.core.machine import Machine

Kind = Literal["memory", "experience", "cognition"]
Action = Literal["verify", "revalidate", "decay", "archive", "reinstate-check"]
Verdict = Literal["confirmed", "refuted", "inconclusive", "unknowable"]
Standing = Literal["supported", "uncertain", "refuted"]

KINDS: tuple[Kind, ...] = get_args(Kind)
ACTIONS: tuple[Action, ...] = get_args(Action)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
RETRACTED = "retracted"

Arrows = dict[tuple[str, str], str]


def _from(states: Iterable[str], event: str, to: str) -> Arrows:
    return {(state, event): to for state in states}


def _with_retraction(name: str, arrows: Arrows) -> Machine[str]:
    """Return the machine in which any state can be retracted, for good; cognition keeps its second part."""
    states = dict.fromkeys(state for (before, _), after in arrows.items() for state in (before, after))
    retracted = {(state, RETRACTED): "/".join([RETRACTED, *state.split("/")[1:]]) for state in states}
    return Machine(name, next(iter(states)), arrows | retracted)


MEMORY = _with_retraction(
    "memory",
    {
        ("candidate", "verified"): "verified",
        **_from(("candidate", "verified", "active", "stale", "stale_uncertain"), "suspected", "quarantine"),
        ("quarantine", "cleared"): "verified",
        ("quarantine", "forged"): "rejected_poisoned",
        ("verified", "used"): "active",
        **_from(("verified", "active"), "decayed", "stale"),
        ("verified", "confirmed"): "verified",
        **_from(("active", "stale", "stale_uncertain"), "confirmed", "active"),
        **_from(("verified", "active", "stale"), "doubted", "stale_uncertain"),
        **_from(("candidate", "stale", "stale_uncertain", "quarantine", "rejected_poisoned"), "archived", "archived"),
        ("archived", "reinstated"): "stale_uncertain",
    },
)
EXPERIENCE = _with_retraction(
    "experience",
    {
        ("candidate", "promoted"): "active",
        ("active", "confirmed"): "active",
        **_from(("candidate", "active"), "questioned", "needs_review"),
        ("needs_review", "reviewed"): "active",
        **_from(("candidate", "needs_review", "active"), "invalidated", "invalidated"),
        **_from(("needs_review", "active", "invalidated"), "archived", "archived"),
        ("archived", "reinstated"): "needs_review",
    },
)
_CANDIDATE, _SUPPORTED, _UNSURE = "candidate/uncertain", "active/supported", "active/uncertain"
_REVALIDATE, _STALE, _REFUTED = "needs_revalidate/uncertain", "stale/uncertain", "refuted/refuted"
COGNITION = _with_retraction(
    "cognition",
    {
        (_CANDIDATE, "adopted"): _SUPPORTED,
        **_from((_SUPPORTED, _UNSURE), "conflicted", _REVALIDATE),
        **_from((_SUPPORTED, _UNSURE, _REVALIDATE, _STALE), "confirmed", _SUPPORTED),
        (_STALE, "reopened"): _UNSURE,
        **_from((_CANDIDATE, _UNSURE, _REVALIDATE), "aged", _STALE),
        **_from((_CANDIDATE, _SUPPORTED, _UNSURE, _REVALIDATE, _STALE), "refuted", _REFUTED),
        (_STALE, "archived"): "archived/uncertain",
        (_REFUTED, "archived"): "archived/refuted",
        **_from(("archived/uncertain", "archived/refuted"), "reinstated", _STALE),
    },
)
MACHINES: Mapping[str, Machine[str]] = {"memory": MEMORY, "experience": EXPERIENCE, "cognition": COGNITION}

_SUPPORTS = {"verified", "active", _SUPPORTED}
_REFUTES = {"rejected_poisoned", "invalidated", _REFUTED, "archived/refuted"}


def status_of(state: str) -> str:
    return state.partition("/")[0]


def epistemic_of(state: str) -> str | None:
    """Return the second part of a cognition's state; None for the other kinds."""
    return state.partition("/")[2] or None


def standing_of(state: str) -> Standing:
    """Return what a state is worth to a decision that rests on it."""
    if state in _SUPPORTS:
        return "supported"
    return "refuted" if state in _REFUTES else "uncertain"


def is_uncertain(state: str) -> bool:
    """Return whether an object in this state is in an episode of uncertainty, with a time to live and a budget."""
    return state == "stale_uncertain" or (epistemic_of(state) == "uncertain" and status_of(state) in _LIVE)


def is_final(kind: str, state: str) -> bool:
    return MACHINES[kind].is_final(state)


_LIVE = {"candidate", "active", "needs_revalidate", "stale"}

# -- what an action and its verdict mean -------------------------------------------------------------------------------

Cells = dict[tuple[str, str], str]  # state and verdict to event; a cell that is not listed changes nothing


def _when(verdicts: Iterable[Verdict], states: Iterable[str], event: str) -> Cells:
    return {(state, verdict): event for state in states for verdict in verdicts}


_DOUBT: tuple[Verdict, ...] = ("inconclusive", "unknowable")
_LOOKED_AT: Mapping[str, Cells] = {
    "memory": {
        ("candidate", "confirmed"): "verified",
        **_when(("confirmed",), ("verified", "active", "stale", "stale_uncertain"), "confirmed"),
        **_when(_DOUBT, ("verified", "active", "stale"), "doubted"),
        **_when(("refuted",), ("candidate", "verified", "active", "stale", "stale_uncertain"), "suspected"),
    },
    "experience": {
        ("candidate", "confirmed"): "promoted",
        ("active", "confirmed"): "confirmed",
        ("needs_review", "confirmed"): "reviewed",
        **_when(("refuted", "unknowable"), ("candidate",), "questioned"),
        **_when(("refuted", *_DOUBT), ("active",), "questioned"),
    },
    "cognition": {
        (_CANDIDATE, "confirmed"): "adopted",
        **_when(("confirmed",), (_SUPPORTED, _UNSURE, _REVALIDATE, _STALE), "confirmed"),
        **_when(_DOUBT, (_SUPPORTED,), "conflicted"),
        **_when(("refuted",), (_CANDIDATE, _SUPPORTED, _UNSURE, _REVALIDATE, _STALE), "refuted"),
    },
}
_REINSTATED: Mapping[str, Cells] = {
    "memory": {
        **_when(("confirmed",), ("stale", "stale_uncertain"), "confirmed"),
        ("stale", "unknowable"): "doubted",
        ("archived", "confirmed"): "reinstated",
    },
    "experience": {("needs_review", "confirmed"): "reviewed", ("archived", "confirmed"): "reinstated"},
    "cognition": {
        (_STALE, "confirmed"): "confirmed",
        **_when(("confirmed",), ("archived/uncertain", "archived/refuted"), "reinstated"),
    },
}
_DECAYED: Mapping[str, Mapping[str, str]] = {
    "memory": {"verified": "decayed", "active": "decayed"},
    "experience": {"active": "questioned"},
    "cognition": {},
}
# The way into the archive: where the machine has no arrow from a state, the events that lead to one that has.
_TO_ARCHIVE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "memory": {"verified": ("decayed",), "active": ("decayed",)},
    "experience": {"candidate": ("questioned",)},
    "cognition": {
        _CANDIDATE: ("aged",),
        _UNSURE: ("aged",),
        _REVALIDATE: ("aged",),
        _SUPPORTED: ("conflicted", "aged"),
    },
}


def event_of(kind: str, action: str, state: str, verdict: str | None) -> str | None:
    """Return the event that an action with this verdict leads to; None where the object stays as it is."""
    if action == "decay":
        return _DECAYED[kind].get(state)
    cells = _REINSTATED if action == "reinstate-check" else _LOOKED_AT
    return None if verdict is None or action == "archive" else cells[kind].get((state, verdict))


def way_to_archive(kind: str, state: str) -> tuple[str, ...]:
    """Return the events by which an object whose time is over gets into the archive; none where it cannot."""
    machine, way = MACHINES[kind], _TO_ARCHIVE[kind].get(state, ())
    for event in way:
        state = machine.after(state, event)
    return (*way, "archived") if (state, "archived") in machine.arrows else ()


def contest_event(kind: str, state: str) -> str | None:
    """Return the event by which a contest moves an object; None where only the flag is set."""
    event = {"memory": "suspected", "experience": "questioned", "cognition": "conflicted"}[kind]
    return event if (state, event) in MACHINES[kind].arrows else None
