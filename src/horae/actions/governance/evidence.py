"""The verb that adds evidence to an object; a reference that it has already is not new."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from horae.actions.governance.object_writer import By, Change, ObjectWriter
from horae.actions.governance.surroundings import LEVELS
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.governance.evidence import Evidence, reference_key
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import GivenEvidence, evidence_from
from horae.core.governance.transitions import take_evidence
from horae.errors import IllegalTransition, InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

PREFIX = "ev_"
ID_LENGTH = 16
MOST = 10_000  # pieces of one object


@dataclass(frozen=True, slots=True)
class Added:
    """An object after evidence came, and the pieces: those that are new, and those that it had."""

    object: GovernedObject
    new: tuple[Evidence, ...]
    known: tuple[Evidence, ...] = ()


def add_evidence(
    world: World,
    object_id: str,
    evidence: Sequence[Any],
    *,
    owner: str,
    caller: Caller,
    kind: str | None = None,
    reason: str = "",
    expected_version: int | None = None,
    decision: str | None = None,
    correlation: str | None = None,
) -> Added:
    """Add evidence. What was archived comes back as uncertain, and what was doubtful is looked at again at once."""
    given = evidence_from(evidence)
    if not given:
        raise InvalidInput("evidence_missing")

    def write(tx: Tx) -> Added:
        by = By.caller(caller, reason, decision=decision, correlation=correlation)
        writer = ObjectWriter(world, tx, by, world.clock.now())
        it = writer.lock(owner, object_id, kind, expected_version=expected_version)
        if it.is_final:
            raise IllegalTransition("object_is_final", kind=it.kind, id=it.id, state=it.state)
        known = tx.evidence.known(it.number, [reference_key(each.reference) for each in given])
        fresh = [each for each in given if reference_key(each.reference) not in known]
        pieces = new_evidence(writer, it, fresh, derived_names(tx, it))
        if not pieces:
            return Added(it, (), tuple(known.values()))
        tx.evidence.add(pieces)
        counted = [each for each in pieces if each.counts]
        reinforced = sum(each.kind == "reinforces" for each in counted)
        done = take_evidence(it, writer.policy(it), writer.now, new=len(counted) - reinforced, reinforced=reinforced)
        ids = tuple(each.id for each in pieces)
        after = writer.save(Change(it, done, "evidence", ids))
        return Added(after, tuple(pieces), tuple(known.values()))

    return world.route(owner=owner).store.transact(write)


def new_evidence(
    writer: ObjectWriter, it: GovernedObject, given: Sequence[GivenEvidence], derived: Collection[str] = ()
) -> list[Evidence]:
    """Return evidence ready to be stored; *derived* are names of what comes from the object itself."""
    own = {it.id, f"{it.kind}:{it.id}", *derived}
    return [
        Evidence(
            PREFIX + writer.world.dice.name(ID_LENGTH),
            it.owner,
            it.number,
            each.reference,
            each.kind,
            writer.now,
            writer.by.actor,
            each.source,
            each.reference in own or each.source in own,
            each.survived,
            each.note or None,
        )
        for each in given
    ]


def derived_names(tx: Tx, it: GovernedObject) -> set[str]:
    """Return the names of what rests on an object: none of it can corroborate the object."""
    names, below = set[str](), {it.number}
    for _ in range(LEVELS):
        above = tx.objects.by_number(each.object for each in tx.objects.resting_on(below)) if below else {}
        names |= {name for each in above.values() for name in (each.id, f"{each.kind}:{each.id}")}
        below = set(above)
    return names
