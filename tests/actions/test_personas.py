"""The verbs of personas: only a person sets what an agent does not do."""

from __future__ import annotations

from typing import Any

import pytest

from horae.actions.governance import personas
from horae.api.here import house
from horae.core.governance.boundaries import boundaries_of
from horae.core.governance.gates import Boundary
from horae.errors import Forbidden, InvalidInput, NotFound, VersionConflict
from horae.ports.world import World
from tests.support.governed import CAROL, OWNER, PLANNER, entries
from tests.support.refusals import refused


def test_a_persona_is_set_read_listed_and_its_history_kept(world: World) -> None:
    first = personas.set_persona(world, owner=OWNER, person=CAROL, agent="planner", boundaries=["delete data"])
    second = personas.set_persona(
        world, owner=OWNER, person=CAROL, agent="planner", values=["care"], reason="she asked",
        boundaries=["delete data", {"text": "pay", "effect": "limit"}],
    )  # fmt: skip

    assert (first.version, second.version) == (1, 2)
    assert second.boundaries == (Boundary("delete data"), Boundary("pay", "limit"))
    assert personas.get_persona(world, owner=OWNER, agent="planner") == second
    assert personas.find_personas(world, owner=OWNER) == [second]
    (_, latest), (_, earliest) = personas.persona_history(world, owner=OWNER, agent="planner")
    assert (latest.actor, latest.event_kind, latest.reason) == ("user/carol", "policy_override", "she asked")
    assert latest.before["boundaries"] == earliest.after["boundaries"] == [{"text": "delete data", "effect": "block"}]
    assert personas.find_personas(world, owner="bob") == []


def test_setting_what_it_already_is_changes_nothing(world: World) -> None:
    personas.set_persona(world, owner=OWNER, person=CAROL, boundaries=["pay"])
    kept = personas.set_persona(world, owner=OWNER, person=CAROL, boundaries=["pay"])
    assert (kept.version, kept.agent, len(entries(world, object_type="persona"))) == (1, "*", 1)


@pytest.mark.parametrize("caller", [PLANNER, house("app/shop"), house("agent/planner")], ids=lambda each: each.actor)
def test_an_agent_or_an_application_does_not_set_a_persona(world: World, caller: Any) -> None:
    with refused(Forbidden, "person_needed"):
        personas.set_persona(world, owner=OWNER, person=caller, boundaries=["pay"])
    with refused(NotFound, "persona_unknown", agent="*"):
        personas.get_persona(world, owner=OWNER)


def test_a_change_of_an_old_version_is_refused(world: World) -> None:
    personas.set_persona(world, owner=OWNER, person=CAROL, boundaries=["pay"], expected_version=0)
    with refused(VersionConflict, "persona_version_old", version=1, expected=0):
        personas.set_persona(world, owner=OWNER, person=CAROL, boundaries=[], expected_version=0)


@pytest.mark.parametrize(
    "given",
    [
        {"boundaries": "pay"}, {"boundaries": [""]}, {"boundaries": ["x"]}, {"boundaries": [" \u00a0 "]},
        {"boundaries": [{"text": "pay", "effect": "maybe"}]}, {"boundaries": [{"texts": "pay"}]},
        {"boundaries": ["y" * 201]}, {"boundaries": [f"no {n}" for n in range(101)]}, {"values": [1]},
        {"agent": "two words"}, {"archived": "no"}, {"boundaries": ["a\nb"]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_persona_is_refused(world: World, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        personas.set_persona(world, owner=OWNER, person=CAROL, **given)


def test_an_agent_keeps_its_own_boundaries_and_those_of_all_agents(world: World) -> None:
    personas.set_persona(world, owner=OWNER, person=CAROL, boundaries=["pay"])
    personas.set_persona(world, owner=OWNER, person=CAROL, agent="planner", boundaries=["delete"])
    personas.set_persona(world, owner=OWNER, person=CAROL, agent="old", boundaries=["all"], archived=True)
    found = personas.find_personas(world, owner=OWNER)

    assert [[each.text for each in boundaries_of(found, agent)] for agent in ("planner", "old", "*")] == [
        ["pay", "delete"], ["pay"], ["pay"],
    ]  # fmt: skip
