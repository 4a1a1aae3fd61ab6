"""Caps hold under races: threads and processes with connections of their own ask for the last places at once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest

from horae.actions.attention import events, inbox, lanes
from horae.actions.jobs.jobs import find
from horae.app import Horae
from horae.attention import Attention, Child, Done, Policy, Rule, Start, Turn
from horae.core.jobs.job import Filter
from horae.declare.attend import register
from horae.errors import HoraeError, QuotaExceeded
from horae.mcp.here import MOST_TASKS, Here
from horae.mcp.schedules import MOST as MOST_SCHEDULES
from horae.mcp.server import agent_server
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing import Lab
from tests.mcp.conftest import at as at_server

CAP = 5
RACERS = 6
TRIES = 3  # of each racer
DOWN = Rule("down", do="task", kind="goal")
Ask = Callable[[Horae, int], Any]


@pytest.fixture
def url(database_url: str) -> str:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    return database_url


@pytest.fixture
def app(url: str) -> Iterator[Horae]:
    with Horae(url) as app:
        yield app


def race(url: str, *asks: Ask) -> Counter[str]:
    """Let racers, each with an application of its own, ask in turns what *asks* says; count the answers."""
    said: Counter[str] = Counter()
    start = Barrier(RACERS)

    def run(racer: int) -> None:
        with Horae(url) as app:
            app.world.route()
            start.wait()
            for number in range(TRIES):
                ask = asks[(racer + number) % len(asks)]
                try:
                    ask(app, racer * TRIES + number)
                    said["made"] += 1
                except QuotaExceeded:
                    said["full"] += 1
                except HoraeError as problem:
                    said[repr(problem)] += 1

    racers = [Thread(target=run, args=(racer,)) for racer in range(RACERS)]
    for each in racers:
        each.start()
    for each in racers:
        each.join()
    return said


def live(app: Horae, lane: str = "ops") -> int:
    number = lanes.get_lane(app.world, lane).number
    return app.world.store.read(lambda tx: tx.attention.count_live(number))


def add(app: Horae, number: int) -> None:
    inbox.add(app.world, "ops", "goal", {"n": number}, key=f"k{number}", most=CAP)


def post(app: Horae, number: int) -> None:
    events.post(app.world, "ops", "down", {"n": number}, rules=[DOWN], most=CAP)


def test_a_lane_takes_no_task_more_than_its_cap_from_any_number_of_processes(url: str, app: Horae) -> None:
    """Also the lane itself is made by all of them at once."""
    said = race(url, add)

    assert said == {"made": CAP, "full": RACERS * TRIES - CAP}
    assert live(app) == CAP


def test_rules_that_make_tasks_and_callers_that_add_them_share_one_cap(url: str, app: Horae) -> None:
    said = race(url, add, post)

    assert said == {"made": CAP, "full": RACERS * TRIES - CAP}
    assert live(app) == CAP
    pending = app.world.store.read(lambda tx: tx.attention.pending_events(1, limit=50))
    assert pending == [], "an event that is refused leaves nothing behind"


def test_a_key_that_is_known_needs_no_place(url: str, app: Horae) -> None:
    said = race(url, lambda app, _number: inbox.add(app.world, "ops", "goal", key="same", most=1))

    assert said == {"made": RACERS * TRIES}
    assert live(app) == 1


def test_children_share_the_cap_of_their_lane_with_everybody_who_adds(url: str, app: Horae) -> None:
    """The agent runs while others add: the children are made together, or the agent hears that there is no room."""
    agent = Attention("ops", app, policy=Policy(max_tasks=CAP))

    @agent.cognition("parent")
    def parent(turn: Turn) -> Any:
        return Done() if turn.facts.last("tasks_started") else Start([Child("child", key=f"c{n}") for n in range(3)])

    agent.cognition("child")(lambda turn: Done())
    agent.add("parent")
    running = Thread(target=agent.run)
    running.start()
    said = race(url, add)
    running.join()

    tasks = app.attention.tasks("ops").page(limit=50).items
    children = [each for each in tasks if each.kind == "child"]
    assert set(said) <= {"made", "full"}
    assert len(children) in (0, 3)
    assert live(app) <= CAP


def test_a_task_that_starts_children_without_end_is_stopped_by_its_lane(app: Horae) -> None:
    agent = Attention("ops", app, policy=Policy(max_tasks=CAP, turn_errors=1))
    agent.cognition("bomb")(lambda turn: Start([Child("bomb"), Child("bomb")]))
    agent.add("bomb")
    agent.run()

    failed = [each for each in app.attention.tasks("ops").page(limit=50).items if each.state == "failed"]
    assert failed != []
    assert all("which is the most" in str(each.reason) for each in failed)
    assert live(app) == 0, "children of a task that failed are asked to end"


def fill(app: Horae, count: int) -> None:
    for number in range(count):
        inbox.add(app.world, "main", "goal", {"goal": "x"}, key=f"old{number}")


@pytest.mark.slow
def test_agents_over_mcp_share_the_caps_of_their_lane_and_of_their_schedules(url: str, app: Horae) -> None:
    fill(app, MOST_TASKS - 2)

    def call(app: Horae, tool: str, **arguments: Any) -> None:
        async def ask() -> str:
            async with at_server(agent_server(Here.for_one(app.world))) as host:
                answer = await host.client.call_tool(tool, arguments)
                return str(getattr(answer.content[0], "text", "")) if answer.is_error else ""

        if refusal := asyncio.run(ask()):
            assert "the most" in refusal, refusal
            raise QuotaExceeded("tasks", MOST_TASKS, "too_many_live_tasks")

    said = race(url, lambda app, number: call(app, "task_add", goal="x", idempotency_key=f"k{number}"))
    assert said == {"made": 2, "full": RACERS * TRIES - 2}
    assert live(app, "main") == MOST_TASKS

    timing = {"kind": "interval", "expr": "3600", "goal": "x"}
    for number in range(MOST_SCHEDULES - 2):
        call(app, "schedule_create", name=f"s{number}", idempotency_key=f"old{number}", **timing)
    said = race(url, lambda app, number: call(app, "schedule_create", name="s", idempotency_key=f"k{number}", **timing))
    assert said == {"made": 2, "full": RACERS * TRIES - 2}


async def test_a_schedule_of_an_agent_whose_lane_is_full_ends_as_a_dead_job_with_the_reason() -> None:
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        async with at_server(agent_server(Here.for_one(lab.world))) as host:
            timing = {"kind": "interval", "expr": "3600", "max_runs": 1}
            await host.call("schedule_create", name="s", goal="more", idempotency_key="k", **timing)
        for number in range(MOST_TASKS):
            inbox.add(lab.world, "main", "goal", {"goal": "x"}, key=f"old{number}")
        await lab.advance(timedelta(hours=1))
        for _ in range(51):
            await lab.advance(timedelta(seconds=5))
        (dead,) = find(lab.world, Filter(states=("dead",)), limit=5)

    assert "which is the most" in str(dead.last_error)


@pytest.mark.slow
def test_processes_on_one_file_share_the_cap(sqlite_database_url: str) -> None:
    engine = create_store_engine(sqlite_database_url)
    migrate(engine)
    engine.dispose()
    children = [_fork(sqlite_database_url, number) for number in range(4)]
    made = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)

    with Horae(sqlite_database_url) as app:
        assert (made, live(app)) == (CAP, CAP)


def _fork(url: str, number: int) -> int:
    """Start a process that adds tasks until the lane is full; its exit code is how many it has made."""
    child = os.fork()
    if child:
        return child
    made = 100
    try:
        with Horae(url) as app:
            made = 0
            for each in range(CAP):
                try:
                    add(app, number * CAP + each)
                    made += 1
                except QuotaExceeded:
                    break
    finally:
        os._exit(made)
