"""Move a locked object by one event, with everything that follows from it."""

from __future__ import annotations

from datetime import datetime

from horae.actions.governance.object_writer import By, Change, ObjectWriter
from horae.core.audit.entries import EventKind
from horae.core.governance.objects import GovernedObject
from horae.core.governance.transitions import walk
from horae.ports.store import Tx
from horae.ports.world import World


def move_object(
    world: World,
    tx: Tx,
    it: GovernedObject,
    event: str,
    now: datetime,
    *,
    actor: str,
    evidence: tuple[str, ...] = (),
    event_kind: EventKind | None = None,
    reason: str = "",
    decision: str | None = None,
) -> GovernedObject:
    """Apply an event: row, version, entry, the next job; NotAllowed where the machine has no such arrow."""
    writer = ObjectWriter(world, tx, By(actor, reason, decision=decision), now)
    done = walk(it, (event,), writer.policy(it), now)
    return writer.save(Change(it, done, "concluded", evidence, event_kind))
