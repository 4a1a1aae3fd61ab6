"""A store in virtual time, and short words for what schedules do in it."""

from __future__ import annotations

from typing import Any

import pytest

from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import schedules
from horae.core.jobs.job import Job
from horae.ports.store import Store
from horae.ports.world import World
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import end, take


class InVirtualTime:
    """Gives tests a world around the store; it is noon."""

    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock(NOON)

    @pytest.fixture
    def world(self, store: Store, clock: VirtualClock) -> World:
        return World(store, clock, LoadedDice(), tzdata="2030a")


def verdicts(world: World, key: str) -> list[tuple[str, str | None, int]]:
    """Verdict, reason and count of each record, the oldest first."""
    rows = reversed(schedules.history(world, key, limit=1000))
    return [(fire.verdict, fire.reason, fire.count) for fire, _ in rows]


def job_of(world: World, key: str) -> Job:
    """Return the job of the newest fire that ran."""
    job_id = next(job for _, job in schedules.history(world, key) if job is not None)
    return verbs.get(world, job_id)


def run(world: World, ending: Any = "succeeded", **outcome: Any) -> Job:
    """Claim the next due job and end it."""
    [job] = take(world.store, 1, now=world.clock.now())
    assert end(world.store, job, ending, now=world.clock.now(), **outcome)
    return job
