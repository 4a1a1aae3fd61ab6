"""Schedules reach agents: a fire puts a task into a backlog; what comes due in a lane runs on any worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from horae import Horae
from horae.actions import firing, schedules
from horae.attend import register
from horae.attention import Attention, Done, Turn, Wait
from horae.testing import Lab
from horae.testing.builders import a_schedule


async def test_a_fire_becomes_a_task_of_its_owner_once() -> None:
    """Section 3.7; S1's users' tasks may target an agent."""
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        made = a_schedule(
            "daily", handler="attend", payload={"lane": "ops", "kind": "report", "priority": 70}, owner="alice"
        )
        schedules.create(lab.world, made)
        firing.trigger(lab.world, "daily", owner="alice")
        await lab.settle()
        lane = lab.world.store.read(lambda tx: tx.attention.lane("ops", "alice"))
        assert lane is not None
        (task,) = lab.world.store.read(lambda tx: tx.attention.tasks(lane.number, limit=9))
        assert (task.kind, task.base, task.state) == ("report", 70, "ready")


async def test_an_ordinary_worker_keeps_the_deadlines_of_a_lane() -> None:
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        agent = Attention("ops", app)

        @agent.cognition("sleepy")
        def sleepy(turn: Turn) -> Any:
            return Done() if turn.facts.last("timed_out") else Wait("never", timeout=timedelta(hours=1))

        agent.add("sleepy")
        driver = agent.driver()
        await driver.until_idle()
        assert len(agent.snapshot().waiting) == 1

        await lab.advance(timedelta(hours=1))

        assert [task.state for task in agent.snapshot().backlog] == ["ready"]
