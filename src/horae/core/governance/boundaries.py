"""The boundaries and values of personas: read from what a person gives, and joined for one agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from horae.core.governance.gates import Boundary, folded
from horae.core.governance.personas import Persona
from horae.core.jobs.payloads import label, name
from horae.errors import InvalidInput

EVERY_AGENT = "*"
EFFECTS = ("block", "limit")
MAX_BOUNDARIES = 100
MAX_TEXT = 200
SHORTEST = 2  # characters; one alone would be found in nearly every text


def agent_name(text: str | None) -> str:
    """Return a valid name of an agent; none, or ``*``, stands for every agent of an owner."""
    return EVERY_AGENT if text in (None, EVERY_AGENT) else name(str(text), "agent")


def boundaries_from(given: Any) -> tuple[Boundary, ...]:
    """Read boundaries: texts, which block, or objects with ``text`` and ``effect``."""
    found = [_boundary(each) for each in _listed(given, "boundaries")]
    return tuple({folded(each.text): each for each in found}.values())


def _boundary(given: Any) -> Boundary:
    if isinstance(given, Boundary):
        given = {"text": given.text, "effect": given.effect}
    if isinstance(given, Mapping):
        if not {"text", "effect"}.issuperset(given) or given.get("effect", "block") not in EFFECTS:
            raise InvalidInput("boundary_unreadable", effects=EFFECTS)
        text, effect = given.get("text"), given.get("effect", "block")
    else:
        text, effect = given, "block"
    if not isinstance(text, str) or not len(folded(text)) >= SHORTEST or len(text) > MAX_TEXT:
        raise InvalidInput("boundary_text_outside", least=SHORTEST, most=MAX_TEXT)
    return Boundary(label(text.strip(), "boundary", MAX_TEXT), effect)


def values_from(given: Any) -> tuple[str, ...]:
    """Read what a persona values: short texts, each once."""
    return tuple(dict.fromkeys(label(each, "value of a persona", MAX_TEXT) for each in _listed(given, "values")))


def _listed(given: Any, what: str) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) > MAX_BOUNDARIES:
        raise InvalidInput("persona_list_unreadable", name=what, most=MAX_BOUNDARIES)
    return given


def boundaries_of(personas: Iterable[Persona], agent: str) -> tuple[Boundary, ...]:
    """Return the boundaries that hold for an agent: its own, and those of every agent of its owner."""
    holding = [each for each in personas if not each.archived and each.agent in (agent, EVERY_AGENT)]
    return tuple(boundary for each in holding for boundary in each.boundaries)
