"""Plan objects anew: because a caller asks for an action, a gate or a policy has changed, or a job is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from horae.actions.governance.admission import lock_objects, name_of
from horae.actions.governance.object_writer import By, Change, ObjectWriter
from horae.actions.governance.verdicts import ask_for
from horae.core.dataclass import dataclass
from horae.core.governance.objects import GovernedObject
from horae.core.governance.timers import Planned, next_action
from horae.core.governance.transitions import Concluded
from horae.core.jobs.job import Job
from horae.ports.store import Tx
from horae.ports.world import World

BATCH = 100
GATES = "system/governance"


@dataclass(frozen=True, slots=True)
class Replanned:
    """How many objects were looked at, and which of them are due at another time now."""

    looked_at: int
    moved: tuple[tuple[GovernedObject, Planned | None], ...]


def ask_job(world: World, tx: Tx, it: GovernedObject, action: str, at: datetime, by: By, queue: str) -> Job:
    """Let the one job of a locked object stand for the action that a caller asks for, and return it (document 000)."""
    writer = ObjectWriter(world, tx, by, world.clock.now())
    done = ask_for(writer, replace(it, queue=queue), action, at, is_person=by.is_person)
    after = writer.save(Change(it, done, "asked", event_kind="scheduler_job", facts={"action": action}))
    job = tx.jobs.get(after.job or 0)
    assert job is not None
    return job


def ask_gates_again(world: World, owner: str, agent: str | None, *, limit: int = 500) -> int:
    """Let jobs that a gate has put back be due now, because the gate has changed; return how many."""
    numbers = world.route(owner=owner).store.read(lambda tx: tx.objects.put_back(owner, agent, limit=limit))

    def write(some: Sequence[int], tx: Tx) -> int:
        writer = ObjectWriter(world, tx, By(GATES), world.clock.now())
        changes = []
        for it in tx.objects.lock(some).values():
            if it.put_backs and it.next_action_at is not None and it.next_action_at > writer.now:
                due = replace(it, next_action_at=writer.now)
                changes.append(Change(it, Concluded(due, (), None), "replanned", event_kind="decision_gate"))
        writer.save_all(changes)
        return len(changes)

    store = world.route(owner=owner).store
    parts = [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]
    return sum(store.transact(partial(write, some)) for some in parts)


def let_in_objects(world: World, numbers: Sequence[int]) -> int:
    """Let objects come due now whose jobs wait for a budget that has room again; return how many."""

    def write(tx: Tx) -> int:
        jobs = {job.number: job for job in tx.jobs.some(numbers)}
        locked = lock_objects(tx, list(jobs.values()))
        writer = ObjectWriter(world, tx, By(GATES, "the budget has room again"), world.clock.now())
        changes = []
        for job in jobs.values():
            it = locked.get(name_of(job))
            waits = it is not None and it.job == job.number and it.admitted_version is None
            if it is not None and waits and it.next_action_at is not None and it.next_action_at > writer.now:
                due = replace(it, next_action_at=writer.now)
                changes.append(Change(it, Concluded(due, (), None), "replanned", event_kind="scheduler_job"))
        writer.save_all(changes)
        plain = [job for job in tx.jobs.lock_many(sorted(jobs)) if name_of(job) not in locked and job.state == "queued"]
        tx.jobs.requeue_many(plain, run_at=writer.now, revive=False, now=writer.now)
        tx.wake({job.queue for job in plain})
        return len(changes) + len(plain)

    return world.route().store.transact(write)


def replan(
    world: World, *, owner: str | None = None, dry_run: bool = True, limit: int = 10_000, reason: str = ""
) -> Replanned:
    """Plan objects by the policies that hold now; a change of a policy is otherwise followed at the next action.

    With *dry_run* only say what would move. The *reason* stands in the entry of each object that moves.
    """
    by = By(GATES, reason or "the policy has changed")
    looked_at, after = 0, 0
    moved: list[tuple[GovernedObject, Planned | None]] = []
    store = world.route(owner=owner).store
    while looked_at < limit:
        page = store.read(partial(_page, owner, after))
        if not page:
            break
        looked_at, after = looked_at + len(page), page[-1].number
        if dry_run:
            moved += store.read(partial(_would_move, world, page))
        else:
            moved += store.transact(partial(_move, world, page, by))
    return Replanned(looked_at, tuple(moved))


def _page(owner: str | None, after: int, tx: Tx) -> list[GovernedObject]:
    return tx.objects.walk(owner=owner, after=after, limit=BATCH)


def _would_move(world: World, page: Sequence[GovernedObject], tx: Tx) -> list[tuple[GovernedObject, Planned | None]]:
    writer = ObjectWriter(world, tx, By(GATES), world.clock.now())
    planned = [(it, next_action(it, writer.policy(it), writer.now)) for it in page]
    return [(it, each) for it, each in planned if _differs(it, each, writer.now)]


def _move(world: World, page: Sequence[GovernedObject], by: By, tx: Tx) -> list[tuple[GovernedObject, Planned | None]]:
    locked = list(tx.objects.lock(each.number for each in page).values())
    found = _would_move(world, locked, tx)
    writer = ObjectWriter(world, tx, by, world.clock.now())
    changes = [Change(it, _planned(it, each), "replanned", event_kind="policy_override") for it, each in found]
    writer.save_all(changes)
    return found


def _planned(it: GovernedObject, planned: Planned | None) -> Concluded:
    action, at = (None, None) if planned is None else (planned.action, planned.at)
    return Concluded(replace(it, version=it.version + 1, next_action=action, next_action_at=at), (), planned)


def _differs(it: GovernedObject, planned: Planned | None, now: datetime) -> bool:
    """Return whether an object should be due for something else, or at another time; overdue is overdue."""
    if it.put_backs or it.admitted_version is not None:
        return False
    kept = None if it.next_action_at is None else (it.next_action, max(it.next_action_at, now))
    return kept != (None if planned is None else (planned.action, planned.at))


def plan_missing(world: World, *, limit: int = BATCH) -> int:
    """Give objects whose planned job is missing another one, and return how many: after a table was edited by hand.

    Only those that are due are looked at: before that nothing is late, and a look at all would grow with their number.
    """
    now = world.clock.now()

    def write(tx: Tx) -> int:
        writer = ObjectWriter(world, tx, By("system/machinery", "its planned job was missing"), now)
        found = [each.number for each in tx.objects.without_job(now, limit=limit)]
        locked = [it for number, it in tx.objects.lock(found).items() if number not in tx.objects.live_jobs([it])]
        changes = [Change(it, _planned(it, _next(writer, it)), "replanned", ended=True) for it in locked]
        writer.save_all(changes)
        return len(changes)

    if not world.route().store.read(lambda tx: tx.objects.without_job(now, limit=1)):
        return 0
    return world.route().store.transact(write)


def _next(writer: ObjectWriter, it: GovernedObject) -> Planned | None:
    return next_action(it, writer.policy(it), writer.now)
