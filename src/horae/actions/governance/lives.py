"""The verbs by which an object is used, archived, brought back, replaced and taken back for good."""

from __future__ import annotations

from dataclasses import replace

from horae.actions.governance.object_writer import Change, ObjectWriter, find_one
from horae.actions.governance.surroundings import read_surroundings, take_removal, why_kept
from horae.actions.governance.verdicts import Given, change_object, illegal, refuse_final, refuse_proposer
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.openings import USABLE
from horae.core.governance.timers import next_action
from horae.core.governance.transitions import Concluded, archive_events, walk
from horae.errors import Forbidden, InvalidInput, NotAllowed
from horae.ports.world import World

MOST_SUCCESSORS = 1000  # that are followed to find a cycle


def use(world: World, given: Given) -> GovernedObject:
    """Say that an object was used: its clock of use starts again. Reading alone never does that."""

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        if it.state not in USABLE:
            raise illegal(it, "used")
        if (it.state, "used") in MACHINES[it.kind].arrows:
            return Change(it, walk(it, ("used",), writer.policy(it), writer.now), "used")
        return Change(it, _used_again(writer, it), "used")

    return change_object(world, given, decide)


def _used_again(writer: ObjectWriter, it: GovernedObject) -> Concluded:
    """Move the clock of use alone: the version stays, so that no verification is overtaken by it."""
    used = replace(it, used_at=writer.now)
    planned = next_action(used, writer.policy(it), writer.now)
    action, at = (None, None) if planned is None else (planned.action, planned.at)
    return Concluded(replace(used, next_action=action, next_action_at=at), (), planned)


def archive(world: World, given: Given) -> GovernedObject:
    """Archive an object: it is kept, and no longer recalled. Protection, the day's cap and citations hold."""

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        refuse_final(it)
        events = archive_events(it, writer.policy(it), writer.now)
        if not events:
            raise illegal(it, "archived")
        _refuse_kept(writer, it)
        return Change(it, walk(it, events, writer.policy(it), writer.now), "ended")

    return change_object(world, given, decide)


def _refuse_kept(writer: ObjectWriter, it: GovernedObject) -> None:
    if it.protected:
        raise NotAllowed("object_protected", kind=it.kind, id=it.id)
    around = read_surroundings(writer.tx, [replace(it, next_action="archive")])
    kept = why_kept(writer.tx, it, around, writer.policy(it), writer.now)
    if kept is not None and kept.is_cited:
        raise NotAllowed("object_cited", kind=it.kind, id=it.id)
    if kept is not None:
        raise NotAllowed("removals_used_up", kind=it.kind, id=it.id)


def reinstate(world: World, given: Given) -> GovernedObject:
    """Bring an archived object back: as uncertain, never straight to active."""

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        if (it.state, "reinstated") not in MACHINES[it.kind].arrows:
            raise illegal(it, "reinstated")
        if it.rejected and not given.caller.is_person:
            raise Forbidden("person_needed", actor=given.caller.actor)
        if it.superseded_by is not None:
            raise NotAllowed("object_superseded", kind=it.kind, id=it.id, by=it.superseded_by)
        done = walk(it, ("reinstated",), writer.policy(it), writer.now, reinstate_signal=True)
        return Change(it, done, "concluded")

    return change_object(world, given, decide)


def supersede(world: World, given: Given, by: str) -> GovernedObject:
    """Archive an object because another one of its kind has taken its place."""

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        refuse_final(it)
        successor = find_one(writer.tx, given.owner, by, it.kind)
        if it.superseded_by is not None:
            raise NotAllowed("object_superseded", kind=it.kind, id=it.id, by=it.superseded_by)
        if successor.is_final or successor.kind != it.kind:
            raise InvalidInput("successor_unfit", kind=it.kind, id=by)
        _refuse_cycle(writer, it, successor)
        events = () if it.status == "archived" else archive_events(it, writer.policy(it), writer.now)
        if not events and it.status != "archived":
            raise illegal(it, "superseded")
        if it.protected:
            raise NotAllowed("object_protected", kind=it.kind, id=it.id)
        if events and not take_removal(writer.tx, it, writer.now):
            raise NotAllowed("removals_used_up", kind=it.kind, id=it.id)
        done = walk(it, events, writer.policy(it), writer.now, superseded_by=successor.id)
        return Change(it, done, "superseded", facts={"superseded_by": successor.id})

    return change_object(world, given, decide)


def _refuse_cycle(writer: ObjectWriter, it: GovernedObject, successor: GovernedObject) -> None:
    seen, current = 0, successor
    while current.id != it.id and current.superseded_by is not None and seen < MOST_SUCCESSORS:
        found = writer.tx.objects.named(it.owner, current.superseded_by, it.kind)
        if not found:
            return
        seen, current = seen + 1, found[0]
    if current.id == it.id or seen >= MOST_SUCCESSORS:
        raise InvalidInput("supersede_cycle", kind=it.kind, id=it.id, by=successor.id)


def retract(world: World, given: Given) -> GovernedObject:
    """Take an object back for good; of high risk only a person may."""

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        refuse_final(it)
        if it.risk == "high":
            given.caller.require_person()
            refuse_proposer(it, given.caller)
        return Change(it, walk(it, ("retracted",), writer.policy(it), writer.now), "ended")

    return change_object(world, given, decide)
