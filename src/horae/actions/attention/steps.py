"""Look up and store the results of steps inside an agent's turn or action, fenced by the lane's driver."""

from __future__ import annotations

from typing import Any

from horae.actions.attention.lanes import Drive, check_driver
from horae.actions.jobs.steps import encode_result, kept_result
from horae.core.jobs.payloads import decode, label
from horae.core.jobs.steps import KeptResult
from horae.errors import LaneLost
from horae.ports.store import Tx
from horae.ports.world import World


def recall_step(world: World, drive: Drive, task: int, scope: str, name: str) -> KeptResult | None:
    """Return what an earlier try of the same turn or action stored for a step."""
    label(name, "step")

    def read(tx: Tx) -> str | None:
        check_driver(tx, drive)
        return tx.ledger.get_of_task(task, scope, name)

    return kept_result(world.route(owner=drive.owner).store.transact(read))


def keep_step(world: World, drive: Drive, task: int, scope: str, name: str, value: Any) -> Any:
    """Store the result of a step that has run; where one is stored already, that one counts."""
    label(name, "step")
    text = encode_result(name, value, world.max_payload_bytes)

    def write(tx: Tx) -> str:
        try:
            check_driver(tx, drive)
        except LaneLost:
            raise LaneLost(drive.driver, drive.epoch, step=name) from None
        known = tx.ledger.get_of_task(task, scope, name)
        if known is None:
            tx.ledger.put_of_task(task, scope, name, text, world.clock.now())
        return text if known is None else known

    return decode(world.route(owner=drive.owner).store.transact(write))["value"]
