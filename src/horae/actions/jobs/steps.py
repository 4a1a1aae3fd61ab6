"""Look up and store the results of steps, each in a short fenced transaction; the step runs between the two."""

from __future__ import annotations

from typing import Any

from horae.core.jobs.job import Lease
from horae.core.jobs.payloads import ANY_SIZE, decode, encode, label
from horae.core.jobs.steps import KeptResult
from horae.errors import InvalidPayload, LeaseLost
from horae.ports.store import Tx
from horae.ports.world import World


def recall_step(world: World, lease: Lease, name: str) -> KeptResult | None:
    """Return what an earlier attempt stored for a step; ``LeaseLost`` where the job is no longer held."""
    label(name, "step")

    def read(tx: Tx) -> str | None:
        tx.ledger.begin(lease.job_number, lease.token)
        return tx.ledger.get(lease.job_number, name)

    return kept_result(world.route(id=lease.job_id).store.transact(read))


def keep_step(world: World, lease: Lease, name: str, value: Any) -> Any:
    """Store the result of a step that has run; where one is stored already, that one counts."""
    label(name, "step")
    text = encode_result(name, value, world.max_payload_bytes)

    def write(tx: Tx) -> str:
        try:
            tx.ledger.begin(lease.job_number, lease.token)
        except LeaseLost:
            raise LeaseLost(lease.job_id, lease.token, step=name) from None
        known = tx.ledger.get(lease.job_number, name)
        if known is None:
            tx.ledger.put(lease.job_number, name, text, world.clock.now())
        return text if known is None else known

    return decode(world.route(id=lease.job_id).store.transact(write))["value"]


def encode_result(name: str, value: Any, max_bytes: int = ANY_SIZE) -> str:
    """Return the result of a step as it is stored; a refusal says that the step has run."""
    try:
        return encode({"value": value}, "result", max_bytes)
    except InvalidPayload as problem:
        raise InvalidPayload("step_not_storable", step=name, problem=str(problem)) from problem


def kept_result(text: str | None) -> KeptResult | None:
    """Read a stored result."""
    return None if text is None else KeptResult(decode(text)["value"])
