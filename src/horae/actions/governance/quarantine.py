"""What follows when an object is suspected or doubted: a review, and what rests on it is questioned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from horae.actions.governance.reviews import open_for_object
from horae.actions.governance.surroundings import DOUBTED
from horae.actions.governance.writing import Change, ObjectWriter
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.transitions import walk
from horae.ports import Tx

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


def dependents(tx: Tx, objects: Iterable[GovernedObject]) -> list[int]:
    """Return the numbers of what rests directly on memories, to be locked together with them."""
    memories = [each.number for each in objects if each.kind == "memory"]
    return [each.object for each in tx.objects.resting_on(memories)][:MOST] if memories else []


def question_dependents(
    writer: ObjectWriter, root: GovernedObject, known: Iterable[GovernedObject]
) -> list[GovernedObject]:
    """Question the experiences that rest on a memory which is doubted now; they are locked already.

    Return those that were changed, as they are then.
    """
    if root.kind != "memory" or root.state not in DOUBTED:
        return []
    above = {each.object for each in writer.tx.objects.resting_on([root.number])}
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
