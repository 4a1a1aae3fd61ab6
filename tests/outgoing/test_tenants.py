"""What the store is asked for a call, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from horae import Horae
from horae.actions.access import owners
from horae.actions.schedules import schedules
from horae.core.access.owners import OwnerSettings
from horae.outgoing import StoreRules, StoreTasks
from horae.ports.world import World
from horae.testing.builders import a_job, a_schedule

T = TypeVar("T")


class Counting:
    """A store that counts how often it is read."""

    def __init__(self, store: Any) -> None:
        self._store, self.reads = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, work: Callable[[Any], T], **options: Any) -> T:
        self.reads += 1
        result: T = self._store.read(work, **options)
        return result


@pytest.fixture
def world() -> Iterator[World]:
    with Horae("sqlite://") as app:
        yield replace(app.world, store=Counting(app.world.store))


def reads(world: World) -> int:
    assert isinstance(world.store, Counting)
    return world.store.reads


def test_the_task_of_a_job_is_asked_for_once_s1_24(world: World) -> None:
    made = schedules.create(world, a_schedule(key="task_7", owner="alice"))
    tasks, before = StoreTasks(lambda: world), reads(world)

    assert [tasks(a_job(schedule_id=made.number)) for _ in range(5)] == ["task_7"] * 5
    assert reads(world) - before == 1


def test_a_job_without_a_schedule_asks_nothing(world: World) -> None:
    tasks, before = StoreTasks(lambda: world), reads(world)

    assert tasks(a_job()) is None
    assert reads(world) == before


def test_a_task_that_was_deleted_is_not_named(world: World) -> None:
    assert StoreTasks(lambda: world)(a_job(schedule_id=99)) is None


def test_another_store_has_other_tasks(world: World) -> None:
    made = schedules.create(world, a_schedule(key="task_7"))
    worlds = [world]
    tasks = StoreTasks(lambda: worlds[-1])
    assert tasks(a_job(schedule_id=made.number)) == "task_7"

    with Horae("sqlite://") as other:
        worlds.append(other.world)
        assert tasks(a_job(schedule_id=made.number)) is None


def test_rules_are_those_of_the_moment(world: World) -> None:
    rules = StoreRules(lambda: world)
    assert rules("alice").networks == ()

    owners.set_owner(world, "alice", OwnerSettings(("10.1.0.0/16",)))

    assert [str(network) for network in rules("alice").networks] == ["10.1.0.0/16"]
    assert rules("bob").networks == ()
