"""Retention: how long finished rows are kept, and the deletion of older ones in small steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Self

from horae.ports import World

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
    """Delete one batch of old rows of each table; return how many by table."""
    now = world.clock.now()
    ages = {
        "horae_runs": retention.runs,
        "horae_fires": retention.fires,
        "horae_keys": retention.keys,
        "horae_ledger": max(retention.runs, retention.keys),
        "horae_nodes": retention.nodes,
        "horae_needs": retention.runs,
    }
    removed = {table: world.route().store.forget(table, now - age, limit) for table, age in ages.items()}
    acts = world.route().store.transact(lambda tx: tx.acts.forget(now - retention.runs, limit=limit))
    return {**removed, "horae_acts": acts}
