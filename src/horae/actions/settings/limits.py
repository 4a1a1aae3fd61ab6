"""Limits that applications declare, in a cluster: one setting for each application, of which databases get shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horae.actions.jobs.running_limits import store_declared
from horae.actions.settings.decisions import Draft, decide, shard_of
from horae.actions.settings.kinds import limits_value
from horae.actions.shards import AWAY, members

if TYPE_CHECKING:
    from horae.core.cluster.settings import Portion
    from horae.core.jobs.running_limits import LimitSource
    from horae.errors import HoraeError
    from horae.ports.world import World


def decide_declared(world: World, app: str, declared: Mapping[str, LimitSource]) -> list[str]:
    """Let every database keep to its share of the limits that an application declares; return the changed names."""
    value = limits_value(declared)
    known = _known_value(world, app)
    if known == value or (known is None and not declared):
        return []
    before = {} if known is None else known["limits"]
    changed = [name for name in {*before, *value["limits"]} if before.get(name) != value["limits"].get(name)]

    def act(shard: World, portion: Portion) -> None:
        shares = {name: replace(each, max_running=portion.share(each.max_running)) for name, each in declared.items()}
        store_declared(shard, app, shares)

    decide(world, Draft("limits", app, value, "system/start"), act)
    return sorted(changed)


def _known_value(world: World, app: str) -> dict[str, Any] | None:
    """Return what was decided last, as the first database that answers knows it."""
    problem: HoraeError | None = None
    for member in members(world):
        try:
            store = shard_of(world, member.number, "limits")[0].route().store
            found = store.read(lambda tx: tx.settings.find([("limits", app)]))
            return dict(found[0].value) if found else None
        except AWAY as missing:
            problem = problem or missing
    raise problem or AssertionError("a cluster has a database that keeps something")
