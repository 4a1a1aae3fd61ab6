"""Schedules reach agents: a fire puts a task into a backlog; what comes due in a lane runs on any worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from horae import Horae
from horae.actions.attention import inbox
from horae.actions.attention.journal import read_journal
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.attention import Attention, Done, Rule, Turn, Wait
from horae.core.jobs.job import Filter
from horae.declare.attend import register
from horae.errors import ReservedQueue
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
        fires.trigger(lab.world, "daily", owner="alice")
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


async def test_a_job_that_only_looks_like_one_of_a_lane_changes_nothing() -> None:
    """C-19: anybody may enqueue; a driver goes on, and no other tenant's lane is touched. Where Horae's own jobs are,
    nobody may.
    """
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        theirs = inbox.add(lab.world, "ops", "report", due_by=lab.clock.now(), owner="alice").task
        before = read_journal(lab.world, "ops", owner="alice")
        answer: list[Any] = [
            {"lane": theirs.lane, "task": theirs.number}, {"lane": "x", "task": 1}, {"task": 1}, [1], {"lane": 2**70},
        ]  # fmt: skip
        for payload in answer:
            for handler in ("attention.deadline", "attention.timeout", "something.else"):
                jobs.enqueue(lab.world, Request(handler, payload, queue="attention", owner="mallory"))
                with pytest.raises(ReservedQueue):
                    jobs.enqueue(lab.world, Request(handler, payload, queue="horae", owner="mallory"))
        await Attention("mine", app, owner="mallory").driver().until_idle()
        ended = jobs.find(lab.world, Filter(owner="mallory", states=("succeeded",)), limit=50)
        after = read_journal(lab.world, "ops", owner="alice")
        assert ended == []
        assert [line.cause for line in after[len(before) :]] == ["deadline_passed"]  # by the lane's own job, once


async def test_whoever_only_posts_is_judged_by_the_rules_of_the_last_driver() -> None:
    app = Horae("sqlite://")
    async with Lab(app):
        agent = Attention("ops", app)
        agent.rule(Rule("db.down", do="task", kind="alert", priority=90, key="alert:{id}", payload={"team": "db"}))
        await agent.driver().until_idle()

        posted = Attention("ops", app).post("db.down", {"id": "db-1"})

        (task,) = agent.snapshot().backlog
        assert (task.kind, task.base, task.key, task.number) == ("alert", 90, "alert:db-1", posted.event.task)
        assert agent.verify().complaints == ()
