"""What follows when an object is suspected or doubted: a review, and what rests on it is questioned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from horae.actions.governance.object_writer import Change, ObjectWriter
from horae.actions.governance.reviews import open_for_object
from horae.actions.governance.surroundings import DOUBTED
from horae.core.dataclass import dataclass
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.transitions import walk
from horae.ports.store import Tx

MOST = 500  # objects that one transaction questions; the rest is questioned when it next comes due
WATCHED = ("quarantine",)


def open_reviews(writer: ObjectWriter, objects: Sequence[GovernedObject]) -> list[GovernedObject]:
    """Open a review of each object that has just been suspected; return the objects as they are then."""
    after = []
    for it in objects:
        opened = it
        if it.state in WATCHED:
            opened, _ = open_for_object(writer.world, writer.tx, it, "quarantine", writer.now)
        if opened is not it:
            writer.tx.objects.save([(it, opened)])
        after.append(opened)
    return after


@dataclass(frozen=True, slots=True)
class Locked:
    """Objects that are locked, with what rests directly on the memories among them."""

    objects: dict[int, GovernedObject]
    above: Mapping[int, Collection[int]]  # what rests on each that was asked for, whether or not it is locked


def lock_with_dependents(tx: Tx, wanted: Mapping[int, str]) -> Locked:
    """Lock objects, given as numbers and kinds, and what rests directly on the memories among them.

    That is questioned where such a memory is doubted.
    """
    above: dict[int, set[int]] = {}
    for each in tx.objects.resting_on(wanted):
        above.setdefault(each.rests_on, set()).add(each.object)
    upper = [number for root in sorted(above) if wanted[root] == "memory" for number in sorted(above[root])]
    return Locked(tx.objects.lock([*wanted, *upper[:MOST]]), above)


def question_dependents(
    writer: ObjectWriter, root: GovernedObject, known: Iterable[GovernedObject], above: Collection[int]
) -> list[GovernedObject]:
    """Question the experiences that rest on a memory which is doubted now; they are locked already.

    Return those that were changed, as they are then.
    """
    if not above or root.kind != "memory" or root.state not in DOUBTED:
        return []
    arrows = MACHINES["experience"].arrows
    hit = [
        each
        for each in known
        if each.number in above and each.kind == "experience" and (each.state, "questioned") in arrows
    ]
    changes = []
    for each in hit:
        done = walk(each, ("questioned",), writer.policy(each), writer.now)
        changes.append(Change(each, done, "concluded", (f"{root.kind}:{root.id}",)))
    return writer.save_all(changes) if changes else []


def with_reviews(writer: ObjectWriter, before: GovernedObject, after: GovernedObject) -> GovernedObject:
    """Open a review where an object has just become suspected."""
    if before.state == after.state:
        return after
    return open_reviews(writer, [after])[0]
