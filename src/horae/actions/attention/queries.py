"""Queries of lanes, tasks and open waits. They change nothing, and make no lane."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from horae.actions.attention.focus import strongest_rival
from horae.actions.attention.lanes import effective, find_lanes, get_lane
from horae.actions.consistency import one_moment
from horae.actions.jobs.leases import with_wall_lease
from horae.actions.shards import seek
from horae.core.attention.lanes import Event, Kept, Lane, StoredFact, Task, TaskWait, WaitKind
from horae.core.attention.numbers import task_name, task_number, wait_name
from horae.core.attention.task import TASK, Control, Policy, at_safe_point
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import iso
from horae.errors import InvalidInput, NotAllowed, NotFound
from horae.ports.attention import LaneTally
from horae.ports.store import Tx
from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class WaitOfTask:
    """A wait, and its task."""

    wait: TaskWait
    task: Task


@dataclass(frozen=True, slots=True)
class Holder:
    """The driver of a lane, and the lease that it must renew; ``until`` is its end by the clock on the wall."""

    driver: str
    leased_until: datetime
    until: datetime


def find_holder(world: World, lane: str, *, owner: str = SYSTEM) -> Holder | None:
    """Return who drives a lane now, alive or not; None when its lease has run out or it was given back."""
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lane(lane, owner))
    if found is None or found.driver is None or found.leased_until is None:
        return None
    if not found.is_driven(world.clock.steady()):
        return None
    return Holder(found.driver, found.leased_until, with_wall_lease(world, found).leased_until or found.leased_until)


@one_moment
def get_task(world: World, lane: str, task_id: str, *, owner: str = SYSTEM) -> Task:
    number, home = task_number(task_id), get_lane(world, lane, owner=owner)
    found = world.route(owner=owner, id=task_id).store.read(lambda tx: tx.attention.task(number))
    if found is None or found.lane != home.number:
        raise NotFound("task_unknown", id=str(task_id), lane=lane)
    return home.explain(found)


@one_moment
def find_tasks(
    world: World, lane: str, *, owner: str = SYSTEM, states: Iterable[str] = (), limit: int = 100, before: str = ""
) -> list[Task]:
    """Return tasks, the newest first; with *before*, those that were added earlier than that one."""
    wanted, known = tuple(states), TASK.states
    unknown = next((each for each in wanted if each not in known), None)
    if unknown is not None:
        raise InvalidInput("choice_unknown", name="state", value=unknown, choices=sorted(known))
    page_size(limit)
    number = task_number(before) if before else None
    home = get_lane(world, lane, owner=owner)
    found = world.route(owner=owner).store.read(
        lambda tx: tx.attention.tasks(home.number, states=wanted, limit=limit, before=number)
    )
    return [home.explain(task) for task in found]


@one_moment
def find_waits(
    world: World, lane: str, *, owner: str = SYSTEM, kind: WaitKind | None = None, limit: int = 100
) -> list[WaitOfTask]:
    """Return open waits, the next deadline first; those of the *kind* ``confirm`` wait for a person."""
    page_size(limit)
    home = get_lane(world, lane, owner=owner)

    def read(tx: Tx) -> list[WaitOfTask]:
        tasks = {each.number: each for each in tx.attention.live_tasks(home.number)}
        found = [each for each in tx.attention.open_waits(home.number) if kind in (None, each.kind)]
        kept = sorted(found, key=lambda each: (each.deadline, each.number))[:limit]
        return [WaitOfTask(each, tasks[each.task]) for each in kept if each.task in tasks]

    return world.route(owner=owner).store.read(read)


@one_moment
def summaries(
    world: World, *, owner: str | None = None, limit: int = 100, after: int = 0
) -> list[tuple[Lane, LaneTally]]:  # fmt: skip
    """Return a page of lanes, the oldest first, each with how it stands in numbers."""
    found = find_lanes(world, owner=owner, limit=page_size(limit), after=after)
    numbers = [each.number for each in found]
    tallies = world.route(owner=owner).store.read(lambda tx: tx.attention.tallies(numbers))
    return [(lane, tallies[lane.number]) for lane in found]


@one_moment
def story(
    world: World, lane: str, task_id: str, *, owner: str = SYSTEM, limit: int = 100
) -> tuple[Task, list[TaskWait], list[StoredFact]]:
    """Return a task with its last waits, also those that are over, and its last facts, the newest first."""
    page_size(limit)
    task = get_task(world, lane, task_id, owner=owner)

    def read(tx: Tx) -> tuple[list[TaskWait], list[StoredFact]]:
        waits = tx.attention.waits_of(task.number, only_open=False)
        return waits[::-1][:limit], tx.attention.facts(task.number, limit=limit)

    return task, *world.route(owner=owner, id=task_id).store.read(read)


def find_task(world: World, number: int) -> Task | None:
    """Return a task as it is stored; None where there is none."""
    return world.route(id=task_name(number)).store.read(lambda tx: tx.attention.task(number))


def new_facts(world: World, task: int) -> list[StoredFact]:
    """Return what a task's next turn will learn."""
    return world.route(id=task_name(task)).store.read(lambda tx: tx.attention.new_facts(task))


def open_waits_and_facts(world: World, task: int) -> tuple[list[TaskWait], list[StoredFact]]:
    """Return what a task waits for, and what its next turn will learn."""
    return world.route(id=task_name(task)).store.read(
        lambda tx: (tx.attention.waits_of(task), tx.attention.new_facts(task))
    )


def check_grant(world: World, task: Task, grant: str) -> bool:
    """Return whether a grant of a task has been used; refuse one that its task does not have or that is too old."""
    waits = world.route(id=task.id).store.read(lambda tx: tx.attention.waits_of(task.number, only_open=False))
    found = next((each for each in waits if each.grant is not None and each.grant == grant), None)
    if found is None:
        raise NotFound("grant_unknown", id=task.id)
    if found.used_at is None and world.clock.now() > found.deadline:
        raise NotAllowed("grant_expired", id=task.id, deadline=iso(found.deadline))
    return found.used_at is not None


def find_wait(world: World, number: int) -> tuple[TaskWait | None, Event | None]:
    """Return a wait, and the event that has ended it; None where there is none."""

    def read(tx: Tx) -> tuple[TaskWait | None, Event | None]:
        wait = tx.attention.wait(number)
        return wait, None if wait is None or wait.event is None else tx.attention.event(wait.event)

    return world.route(id=wait_name(number)).store.read(read)


def everything(world: World, lane: str, *, owner: str = SYSTEM) -> dict[str, list[Kept]]:
    """Return all rows of a lane, by table; for small lanes."""
    home = get_lane(world, lane, owner=owner)
    return world.route(owner=owner).store.read(lambda tx: tx.attention.everything(home.number))


def would_yield(world: World, task: Task, control: Control, policy: Policy) -> bool:
    """Return whether the focus would change at a safe point now, also by what an operator has forbidden since."""

    def read(tx: Tx) -> bool:
        found, lane = tx.attention.task(task.number), tx.attention.lane_by_number(task.lane)
        if found is None or lane is None or found.state != "running" or found.cancel_requested:
            return True
        live = [*tx.attention.suspended(lane.number), *strongest_rival(tx, lane, world.clock.now())]
        between = replace(found.weighed, phase="gap")
        weighed = [each.weighed for each in live]
        return at_safe_point(between, weighed, effective(lane, control), policy).verdict != "go on"

    return world.route(id=task.id).store.read(read)


def confirmation(world: World, number: int, *, owner: str | None = None) -> tuple[WaitOfTask, Lane]:
    """Return a confirmation, open or answered, and its lane, by its number alone; with *owner* only one of its own."""

    def read(tx: Tx) -> tuple[WaitOfTask, Lane] | None:
        wait = tx.attention.wait(number)
        lane = None if wait is None else tx.attention.lane_by_number(wait.lane)
        task = None if wait is None else tx.attention.task(wait.task)
        if wait is None or lane is None or task is None or wait.kind != "confirm" or owner not in (None, lane.owner):
            return None
        return WaitOfTask(wait, task), lane

    found = seek(world, wait_name(number), owner, read)
    if found is None:
        raise NotFound("confirmation_number_unknown", id=number)
    return found
