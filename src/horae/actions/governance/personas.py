"""The verbs of personas: what an agent does not do, and what it values. Only a person changes one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.audit import find_entries
from horae.actions.governance.gates import gate_changed
from horae.actions.governance.reasons import private_reason
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.governance.boundaries import EVERY_AGENT, agent_name, boundaries_from, values_from
from horae.core.governance.personas import Persona
from horae.core.jobs.payloads import label, true_or_false
from horae.errors import NotFound, VersionConflict
from horae.ports.store import Tx
from horae.ports.world import World

PERSONA = "persona"


def set_persona(
    world: World,
    *,
    owner: str,
    person: Caller,
    agent: str = EVERY_AGENT,
    boundaries: Any = (),
    values: Any = (),
    archived: bool = False,
    expected_version: int | None = None,
    reason: str = "",
) -> Persona:
    """Set the persona of an agent as a whole; setting what it already is changes nothing."""
    person.require_person()
    now = world.clock.now()
    new = Persona(
        label(owner, "owner"), agent_name(agent), now, person.actor, boundaries_from(boundaries), values_from(values),
        true_or_false(archived, "archived"),
    )  # fmt: skip

    def write(tx: Tx) -> Persona:
        before = tx.personas.get(new.owner, new.agent, lock=True)
        version = 0 if before is None else before.version
        if expected_version is not None and expected_version != version:
            raise VersionConflict("persona_version_old", agent=new.agent, version=version, expected=expected_version)
        if before is not None and _rules(before) == _rules(new):
            return before
        after = replace(new, version=version + 1)
        tx.personas.put(after)
        entry = Entry(
            now,
            person.actor,
            "set",
            PERSONA,
            new.agent,
            new.owner,
            before={} if before is None else _rules(before),
            after=_rules(after),
            evidence=("none",),
            event_kind="policy_override",
            **private_reason(world, reason),
        )  # fmt: skip
        tx.audit.append(entry)
        gate_changed(tx, after.owner, None if after.agent == EVERY_AGENT else after.agent, now)
        return after

    return world.route(owner=owner).store.transact(write)


def get_persona(world: World, *, owner: str, agent: str = EVERY_AGENT) -> Persona:
    name = agent_name(agent)
    found = world.route(owner=owner).store.read(lambda tx: tx.personas.get(owner, name))
    if found is None:
        raise NotFound("persona_unknown", agent=name)
    return found


def find_personas(world: World, *, owner: str) -> list[Persona]:
    """Return the personas of an owner, by agent; ``*`` stands for every agent."""
    return world.route(owner=owner).store.read(lambda tx: tx.personas.find([owner]))


def persona_history(
    world: World, *, owner: str, agent: str = EVERY_AGENT, limit: int = 100, before: int | None = None
) -> list[tuple[int, Entry]]:
    """Return who set a persona to what, newest first; from the audit, which cannot be changed."""
    page_size(limit)
    name = agent_name(agent)
    return find_entries(world, limit=limit, before=before, object_id=name, object_type=PERSONA, owner=owner)


def _rules(persona: Persona) -> dict[str, Any]:
    return {
        "boundaries": [{"text": each.text, "effect": each.effect} for each in persona.boundaries],
        "values": list(persona.values),
        "archived": persona.archived,
    }
