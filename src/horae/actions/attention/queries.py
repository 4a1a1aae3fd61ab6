"""Queries of lanes, tasks and open waits. They change nothing, and make no lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from horae.actions.attention.inbox import task_number
from horae.actions.attention.lanes import find_lanes, get_lane
from horae.actions.consistency import one_moment
from horae.core.attention.lanes import Lane, Task, TaskWait, WaitKind
from horae.core.attention.task import TASK
from horae.core.cursors import MAX_PAGE, page_size
from horae.core.jobs.job import SYSTEM
from horae.errors import InvalidInput, NotFound
from horae.ports import Tx, World


@dataclass(frozen=True, slots=True)
class OpenWait:
    """An open wait, and the task that waits."""

    wait: TaskWait
    task: Task


def each_lane(world: World, *, owner: str | None = None, page: int = MAX_PAGE) -> Iterator[Lane]:
    """Yield all lanes, the oldest first."""
    after = 0
    while found := find_lanes(world, owner=owner, limit=page, after=after):
        yield from found
        after = found[-1].number


@one_moment
def get_task(world: World, lane: str, task_id: str, *, owner: str = SYSTEM) -> Task:
    number, home = task_number(task_id), get_lane(world, lane, owner=owner)
    found = world.route(owner=owner, id=task_id).store.read(lambda tx: tx.attention.task(number))
    if found is None or found.lane != home.number:
        raise NotFound("task_unknown", id=str(task_id), lane=lane)
    return home.explained(found)


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
    return [home.explained(task) for task in found]


@one_moment
def find_waits(
    world: World, lane: str, *, owner: str = SYSTEM, kind: WaitKind | None = None, limit: int = 100
) -> list[OpenWait]:
    """Return open waits, the next deadline first; those of the *kind* ``confirm`` wait for a person."""
    page_size(limit)
    home = get_lane(world, lane, owner=owner)

    def read(tx: Tx) -> list[OpenWait]:
        tasks = {each.number: each for each in tx.attention.live_tasks(home.number)}
        found = [each for each in tx.attention.open_waits(home.number) if kind in (None, each.kind)]
        kept = sorted(found, key=lambda each: (each.deadline, each.number))[:limit]
        return [OpenWait(each, tasks[each.task]) for each in kept if each.task in tasks]

    return world.route(owner=owner).store.read(read)


def lane_of_confirmation(world: World, number: int) -> Lane | None:
    """Return the lane of a confirmation; None where there is no such confirmation."""

    def read(tx: Tx) -> Lane | None:
        wait = tx.attention.wait(number)
        return None if wait is None or wait.kind != "confirm" else tx.attention.lane_by_number(wait.lane)

    return world.route().store.read(read)
