"""Roll back what rests on a forged memory: experiences, cognitions, and the decisions that cite any of them.

Up to 500 are taken back in the transaction that forges the memory. Of more, the memory comes first and a job of Horae's
own takes back the rest, batch by batch; each batch commits with its position, so that a process that dies in the
middle has lost nothing and one that comes twice finds that the position has moved. Meanwhile decisions of high risk of
the agent are blocked.

Nothing can slip past: a decision locks what it cites, and no new object may rest on what is refuted. When all
experiences are invalidated, no cognition can newly rest on one; when all cognitions are taken back, no decision can
newly rely on one. So the phases follow each other, and a count at the end proves that nothing was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from horae.actions.governance.object_writer import By, Change, ObjectWriter, check_version, find_one
from horae.actions.governance.rulings import DECISION, draft, judge, write_decision
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.governance.cascade import AT_ONCE, is_to_be_rolled_back, taken_back_by
from horae.core.governance.decisions import Decision
from horae.core.governance.gates import Ruling
from horae.core.governance.objects import GovernedObject
from horae.core.governance.rollbacks import Rollback
from horae.core.governance.transitions import walk
from horae.core.jobs.job import Job, NewJob
from horae.core.jobs.machinery import MACHINERY, PERSISTENT, ROLLBACK
from horae.core.jobs.payloads import encode
from horae.errors import Forbidden, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

PREFIX = "rol_"
ID_LENGTH = 12
FORGED = "rejected_poisoned"
PHASES = ("experiences", "cognitions", "decisions")
MOST_COUNTED = 10_000  # of each phase, in a preview
FIRST_FEW = 100
SPAN = 2**56  # numbers of one phase in a position; a position is phase and number in one


@dataclass(slots=True)
class Taken:
    """What one batch found, and how much of it was moved."""

    found: int = 0
    moved: int = 0


def begin_rollback(writer: ObjectWriter, root: GovernedObject) -> Rollback:
    """Take back what rests on a memory that has just been forged, or begin to, in the transaction that forges it."""
    begun = Rollback(
        0, root.owner, PREFIX + writer.world.dice.name(ID_LENGTH), root.number, writer.now, writer.by.actor, root.agent
    )
    kept = writer.tx.rollbacks.add(begun)
    if writer.tx.cascades.count(root.number) <= AT_ONCE:
        while kept.state == "open":
            kept = _do_batch(writer, kept, root)
        return kept
    kept = replace(kept, job=_plan(writer, kept))
    writer.tx.rollbacks.save(kept)
    writer.tx.wake([MACHINERY])
    return kept


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rollback would reach: counts, and the first references."""

    experiences: int
    cognitions: int
    decisions: int
    first: tuple[str, ...] = ()


def preview_rollback(world: World, object_id: str, *, owner: str, expected_version: int | None = None) -> Preview:
    """Count what rests on a memory, and change nothing; up to a bound, as a rollback of more takes several batches."""

    def read(tx: Tx) -> Preview:
        root = find_one(tx, owner, object_id, "memory")
        check_version(root, expected_version)
        numbers = {phase: getattr(tx.cascades, phase)(root.number, after=0, limit=MOST_COUNTED) for phase in PHASES}
        few = [*numbers["experiences"], *numbers["cognitions"]][:FIRST_FEW]
        objects = tx.objects.by_number(few)
        decided = tx.decisions.by_number(numbers["decisions"][: FIRST_FEW - len(few)])
        first = [f"{objects[each].kind}:{objects[each].id}" for each in few if each in objects]
        first += [f"{DECISION}:{each.id}" for each in decided]
        counts = {phase: len(found) for phase, found in numbers.items()}
        return Preview(counts["experiences"], counts["cognitions"], counts["decisions"], tuple(first))

    return world.route(owner=owner).store.read(read)


def roll_back(
    world: World, object_id: str, *, owner: str, person: Caller, reason: str = "", expected_version: int | None = None
) -> Rollback:
    """Reject a suspected memory as forged, as a person, and take back what rests on it.

    Of a memory that is forged already, take back what still rests on it.
    """
    person.require_person()

    def write(tx: Tx) -> Rollback:
        writer = ObjectWriter(world, tx, By.caller(person, reason), world.clock.now())
        it = writer.lock(owner, object_id, "memory", expected_version=expected_version)
        if it.proposer == person.actor:
            raise Forbidden("object_of_ones_own", kind=it.kind, id=it.id, actor=person.actor)
        if it.state != FORGED:
            done = walk(it, ("forged",), writer.policy(it), writer.now)
            it = writer.save(Change(it, done, "concluded"))
        return begin_rollback(writer, it)

    return world.route(owner=owner).store.transact(write)


def get_rollback(world: World, rollback_id: str, *, owner: str) -> tuple[str, Rollback]:
    """Return a reference to the memory that is rolled back, and how far that is."""

    def read(tx: Tx) -> tuple[str, Rollback]:
        found = tx.rollbacks.get(owner, rollback_id)
        if found is None:
            raise NotFound("rollback_unknown", id=rollback_id)
        root = tx.objects.by_number([found.root])[found.root]
        return f"{root.kind}:{root.id}", found

    return world.route(owner=owner).store.read(read)


def _plan(writer: ObjectWriter, rollback: Rollback) -> int:
    """Plan the job that goes on with a rollback."""
    new = NewJob(
        handler=ROLLBACK,
        payload=encode({"owner": rollback.owner, "rollback": rollback.id}),
        queue=MACHINERY,
        band=0,
        run_at=writer.now,
        planned_at=writer.now,
        owner=rollback.owner,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )
    return writer.tx.jobs.insert([new], writer.now)[0].number


def run_batch(world: World, job: Job) -> bool:
    """Take back the next batch of a rollback; return whether there is more."""
    owner, rollback_id = str(job.payload["owner"]), str(job.payload["rollback"])

    def write(tx: Tx) -> bool:
        found = tx.rollbacks.get(owner, rollback_id, lock=True)
        if found is None or found.state != "open" or found.job != job.number:
            return False
        writer = ObjectWriter(world, tx, By(found.actor, correlation=found.id), world.clock.now())
        root = tx.objects.by_number([found.root])[found.root]
        return _do_batch(writer, found, root).state == "open"

    return world.route(owner=owner).store.transact(write)


def plan_again(world: World, *, limit: int = 100) -> int:
    """Give open rollbacks without a live job a new one, and return how many."""

    def write(tx: Tx) -> int:
        done, now = 0, world.clock.now()
        for each in tx.rollbacks.find(owner=None, states=("open",), limit=limit):
            job = None if each.job is None else tx.jobs.lock(each.job)
            if job is None or job.state not in ("queued", "running"):
                locked = tx.rollbacks.get(each.owner, each.id, lock=True)
                if locked is not None and locked == each:
                    tx.rollbacks.save(replace(each, job=_plan(ObjectWriter(world, tx, By(each.actor), now), each)))
                    done += 1
        return done

    return world.route().store.transact(write)


# -- one batch ---------------------------------------------------------------------------------------------------------


def _do_batch(writer: ObjectWriter, rollback: Rollback, root: GovernedObject) -> Rollback:
    """Take back up to 500 of the phase that the position is in, and write how far it got."""
    phase, after = divmod(rollback.position, SPAN)
    page: Callable[..., list[int]] = getattr(writer.tx.cascades, PHASES[phase])
    numbers = page(root.number, after=after, limit=AT_ONCE)
    take = _take_decisions if PHASES[phase] == "decisions" else _take_objects
    taken = take(writer, root, rollback, numbers)
    position = phase * SPAN + numbers[-1] if len(numbers) == AT_ONCE else (phase + 1) * SPAN
    done = replace(
        rollback,
        position=position,
        found=rollback.found + taken.found,
        moved=rollback.moved + taken.moved,
        final=rollback.final + taken.found - taken.moved,
    )
    if position == len(PHASES) * SPAN:
        done = _finish(writer, done, root)
    writer.tx.rollbacks.save(done)
    return done


def _take_objects(writer: ObjectWriter, root: GovernedObject, rollback: Rollback, numbers: Sequence[int]) -> Taken:
    """Invalidate experiences, and refute or question cognitions; those that stand no higher already stay."""
    locked = writer.tx.objects.lock(numbers)
    links = writer.tx.objects.rests_on(numbers)
    grounds = writer.tx.objects.by_number(each.rests_on for each in links)
    changes = []
    for it in locked.values():
        below = [grounds[each.rests_on] for each in links if each.object == it.number and each.rests_on in grounds]
        event = taken_back_by(it, below)
        if event is not None:
            done = walk(it, (event,), writer.policy(it), writer.now)
            facts = {"rollback": rollback.id}
            changes.append(Change(it, done, "concluded", (f"{root.kind}:{root.id}",), "rollback", facts))
    if changes:
        writer.save_all(changes)
    return Taken(len(locked), len(changes))


def _take_decisions(writer: ObjectWriter, root: GovernedObject, rollback: Rollback, numbers: Sequence[int]) -> Taken:
    """Mark decisions as rolled back; each that has no successor gets one, which abstains."""
    found = writer.tx.decisions.by_number(numbers, lock=True)
    hit = [each for each in found if is_to_be_rolled_back(each)]
    for each in hit:
        successor = each.successor or _abstain(writer, root, each).id
        writer.tx.decisions.save(replace(each, rolled_back_at=writer.now, successor=successor))
        writer.tx.audit.append(
            _rollback_entry(
                writer, rollback, "roll_back", DECISION, each.id, {"outcome": each.outcome},
                {"successor": successor}, each.risk, each.id, (f"{root.kind}:{root.id}",),
            )
        )  # fmt: skip
    return Taken(len(found), len(hit))


def _abstain(writer: ObjectWriter, root: GovernedObject, decision: Decision) -> Decision:
    """Write the successor of a decision whose ground was forged."""
    cites = writer.tx.decisions.cites([decision.number])
    objects = list(writer.tx.objects.by_number(each.object for each in cites).values())
    gates = judge(writer.tx, decision.owner, decision.agent, objects, decision.risk).gates
    reason = f"rolled back: {root.kind}:{root.id}, on which it rests, is forged"
    ruling = Ruling("abstained", "abstain", reason, gates)
    made = draft(
        writer.world, decision.owner, decision.agent, decision.action, decision.risk, ruling, objects, writer.now,
        writer.by.actor, predecessor=decision.id,
    )  # fmt: skip
    return write_decision(writer.world, writer.tx, made, objects)


def _finish(writer: ObjectWriter, rollback: Rollback, root: GovernedObject) -> Rollback:
    """Close a rollback: what was found must be all there is."""
    complete = writer.tx.cascades.count(root.number) == rollback.found == rollback.moved + rollback.final
    counts = {"found": rollback.found, "moved": rollback.moved, "final": rollback.final, "complete": complete}
    entry = _rollback_entry(
        writer, rollback, "finish_rollback", root.kind, root.id, {}, counts, root.risk, root.decision, ("none",)
    )
    writer.tx.audit.append(entry)
    return replace(rollback, state="done", finished_at=writer.now)


def _rollback_entry(
    writer: ObjectWriter, rollback: Rollback, verb: str, kind: str, name: str, before: dict[str, Any],
    after: dict[str, Any], risk: str, decision: str | None, evidence: tuple[str, ...],
) -> Entry:  # fmt: skip
    return Entry(
        writer.now, writer.by.actor, verb, kind, name, rollback.owner, before=before,
        after={"rollback": rollback.id, **after}, evidence=evidence, event_kind="rollback", risk=risk,
        decision=decision, correlation=rollback.id,
    )  # fmt: skip
