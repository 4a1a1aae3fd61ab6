"""Governed objects for tests that are about decisions on them: stored as they are, without their own verbs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.core.access.callers import Caller
from horae.core.governance.objects import GovernedObject, Link, ObjectVersion
from horae.ports.store import Tx
from horae.ports.world import World

OWNER = "alice"
CAROL = Caller(OWNER, frozenset({"review"}), "user/carol")
PLANNER = Caller(OWNER, frozenset({"tasks", "review"}), "token/6f1c", agent="planner")


def keep(world: World, *ids: str, content: str = "", owner: str = OWNER, **fields: Any) -> list[GovernedObject]:
    """Store objects; an id such as ``exp_1`` says its kind, and it is active and just verified unless given."""
    now = world.clock.now()
    kinds = {"mem": "memory", "exp": "experience", "cog": "cognition"}

    def write(tx: Tx) -> list[GovernedObject]:
        made = []
        for each in ids:
            kind: Any = kinds[each[:3]]
            state = "active/supported" if kind == "cognition" else "active"
            given = {"state": state, "verified_at": now, "proposer": "user/dave", "agent": "planner", **fields}
            it = GovernedObject(0, owner, kind, each, created_at=now, state_since=now, **given)
            it = replace(it, number=tx.objects.add([it])[0])
            version = ObjectVersion(owner, it.number, 1, now, "proposed", it.state, content=content or None)
            tx.objects.add_versions([version])
            made.append(it)
        return made

    return world.store.transact(write)


def link(world: World, *pairs: tuple[GovernedObject, GovernedObject]) -> None:
    """Let the first of each pair rest on the second."""
    now = world.clock.now()
    links = [Link(OWNER, upper.number, lower.number, now) for upper, lower in pairs]
    world.store.transact(lambda tx: tx.objects.add_links(links))


def now_of(world: World, it: GovernedObject) -> GovernedObject:
    return world.store.read(lambda tx: tx.objects.by_number([it.number]))[it.number]


def entries(world: World, **wanted: Any) -> list[Any]:
    """Return entries of the audit, the oldest first."""
    given: Any = {"object_id": None, "limit": 1000, "before": None, **wanted}
    found = world.store.read(lambda tx: tx.audit.find(owner=OWNER, **given))
    return [entry for _, entry in reversed(found)]
