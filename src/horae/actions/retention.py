"""Retention: how long finished rows are kept, and the deletion of older ones in small steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Self

from horae.actions.roll_up import keep_up, rolled_until
from horae.ports import World

log = logging.getLogger("horae.retention")
BATCH = 200


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


def clean(world: World, retention: Retention, *, limit: int = BATCH) -> dict[str, int]:
    """Delete one batch of old rows of each table; return how many by table. Runs are counted before they go."""
    keep_up(world)
    now = world.clock.now()
    ages = {
        "horae_runs": retention.runs,
        "horae_fires": retention.fires,
        "horae_keys": retention.keys,
        "horae_ledger": max(retention.runs, retention.keys),
        "horae_nodes": retention.nodes,
        "horae_needs": retention.runs,
    }
    before = {table: now - age for table, age in ages.items()}
    before["horae_runs"] = min(before["horae_runs"], rolled_until(world))
    return {table: world.route().store.forget(table, each, limit) for table, each in before.items()}


def clean_step(world: World, retention: Retention) -> bool:
    """Delete one batch of old rows of each table; return whether there is probably more."""
    gone = clean(world, retention)
    if any(gone.values()):
        log.debug("deleted: %s", ", ".join(f"{count} of {table}" for table, count in gone.items() if count))
    return any(count >= BATCH for count in gone.values())
