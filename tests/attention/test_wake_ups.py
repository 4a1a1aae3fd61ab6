"""Every door that accepts a wake-up: it is a stored row before the door answers, the answer names the row, and one that
cannot be delivered becomes a record with a reason.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, create_engine, text

from horae import Horae
from horae.actions.jobs import jobs
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.adapters.claude import Approvals, WakeUps
from horae.attention import Act, Attention, Done, Rule, Turn, Wait
from horae.cli.main import main
from horae.core.attention.task import Control
from horae.core.jobs.job import Filter
from horae.declare.attend import register
from horae.mcp.here import Here
from horae.mcp.server import agent_server
from horae.service.asgi import build
from horae.service.options import Options
from horae.stores.schema import migrate
from horae.testing import Lab
from horae.testing.builders import a_schedule
from tests.adapters.claude_hooks import PRE_TOOL, STOP
from tests.mcp.conftest import at as at_server

LATER = timedelta(hours=1)
FAR = "2099-01-01T00:00:00Z"
ATTEND = {"lane": "ops", "kind": "goal"}


@dataclass
class Place:
    """One store behind all doors, and a reader with a connection of its own."""

    app: Horae
    agent: Attention
    http: TestClient
    reader: Engine
    url: str

    def reads(self, table: str, column: str, value: Any) -> bool:
        with self.reader.connect() as connection:
            found = connection.execute(text(f"SELECT count(*) FROM {table} WHERE {column} = :value"), {"value": value})
            return bool(found.scalar_one() == 1)

    async def tool(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        async with at_server(agent_server(Here.for_one(self.app.world, "ops"))) as host:
            return await host.call(tool, **arguments)

    async def focused(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool about a task that has the focus."""
        async with at_server(agent_server(Here.for_one(self.app.world, "ops"))) as host:
            return await host.call(name, task_id=await host.focus("x"), **arguments)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.http.post(path, json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def command(self, *words: str) -> dict[str, Any]:
        """Run a command of ours as a shell would, with --json."""
        with redirect_stdout(StringIO()) as out:
            code = main([*words, "--db", self.url, "--json"])
        assert code == 0, out.getvalue()
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    async def wait(self) -> Any:
        """Park a task in its own turn; the snapshot names the wait."""

        @self.agent.cognition("sleepy")
        def sleepy(turn: Turn) -> Any:
            return Wait("never", timeout=LATER)

        self.agent.add("sleepy")
        await self.agent.driver().until_idle()
        ((_, waits),) = self.agent.snapshot().waiting
        return waits[0].number

    async def gate(self) -> Any:
        """Ask a person in a turn; the snapshot names the confirmation."""
        agent = Attention("ops", self.app)
        agent.control(lambda: Control(must_confirm=frozenset({"pay"})))
        agent.action(name="pay")(lambda step: None)
        agent.cognition("payer")(lambda turn: Act("pay"))
        agent.add("payer")
        await agent.driver().until_idle()
        ((_, waits),) = agent.snapshot().waiting
        return waits[0].number

    def ruled(self) -> Any:
        self.agent.rule(Rule("down", do="task", kind="goal"))
        return self.agent.post("down").event.task


@pytest.fixture
def place(sqlite_database_url: str) -> Iterator[Place]:
    with Horae(sqlite_database_url) as app:
        migrate(app.engine)
        register(app)
        http = TestClient(build(lambda: app.world, Options(open_to_all=True)))
        reader = create_engine(sqlite_database_url)
        yield Place(app, Attention("ops", app), http, reader, sqlite_database_url)
        reader.dispose()


def task_row(task_id: str) -> tuple[str, str, Any]:
    return "horae_tasks", "id", int(task_id.removeprefix("t"))


def job_row(job_id: str) -> tuple[str, str, Any]:
    return "horae_jobs", "id", int(job_id.removeprefix("job_"))


Row = tuple[str, str, Any]
DOORS: dict[str, Callable[[Place], Awaitable[Row]]] = {}


def door(name: str) -> Callable[[Callable[[Place], Awaitable[Row]]], Callable[[Place], Awaitable[Row]]]:
    def keep(through: Callable[[Place], Awaitable[Row]]) -> Callable[[Place], Awaitable[Row]]:
        DOORS[name] = through
        return through

    return keep


@door("agent.add(delay=…)")
async def _(place: Place) -> Row:
    return task_row(place.agent.add("goal", delay=LATER).task.id)


@door("agent.post")
async def _(place: Place) -> Row:
    return "horae_events", "id", place.agent.post("ack").event.number


@door("a rule that makes a task")
async def _(place: Place) -> Row:
    return "horae_tasks", "id", place.ruled()


@door("Wait, with its deadline")
async def _(place: Place) -> Row:
    return "horae_waits", "id", await place.wait()


@door("a gate that asks a person")
async def _(place: Place) -> Row:
    return "horae_waits", "id", await place.gate()


@door("a schedule of attend")
async def _(place: Place) -> Row:
    once = place.app.world.clock.now() + LATER
    made = place.app.schedules.create("later", handler="attend", payload=ATTEND, once=once)
    return "horae_schedules", "schedule_key", made.key


@door("a job of attend")
async def _(place: Place) -> Row:
    return job_row(place.app.jobs.enqueue("attend", ATTEND, delay=LATER).id)


@door("POST /attention/lanes/{lane}/tasks")
async def _(place: Place) -> Row:
    return task_row(place.post("/attention/lanes/ops/tasks", kind="goal", delay=3600)["id"])


@door("POST /attention/lanes/{lane}/events")
async def _(place: Place) -> Row:
    return "horae_events", "id", place.post("/attention/lanes/ops/events", key="ack")["id"]


@door("POST /scheduled-tasks")
async def _(place: Place) -> Row:
    made = place.post("/scheduled-tasks", handler="attend", schedule_expr="0 9 * * *", payload=ATTEND)
    return "horae_schedules", "schedule_key", made["id"]


@door("POST /scheduler/jobs")
async def _(place: Place) -> Row:
    return job_row(place.post("/scheduler/jobs", handler="attend", payload=ATTEND, run_at=FAR)["job_id"])


@door("task_add")
async def _(place: Place) -> Row:
    return task_row((await place.tool("task_add", goal="x", idempotency_key="k", delay_s=3600))["id"])


@door("wait_for")
async def _(place: Place) -> Row:
    waiting = await place.focused("wait_for", keys=["ack"], timeout_s=3600)
    return "horae_waits", "id", waiting["waits"][0]["id"]


@door("confirm_request")
async def _(place: Place) -> Row:
    return "horae_waits", "id", (await place.focused("confirm_request", action="pay"))["id"]


@door("event_post")
async def _(place: Place) -> Row:
    return "horae_events", "id", (await place.tool("event_post", key="ack"))["id"]


@door("schedule_create")
async def _(place: Place) -> Row:
    made = await place.tool("schedule_create", name="s", kind="once", expr=FAR, goal="x", idempotency_key="k")
    assert "No worker" in made["warning"]  # an answer that is accepted and would not come says so
    return "horae_schedules", "schedule_key", made["schedule_id"]


@door("horae attention add")
async def _(place: Place) -> Row:
    return task_row(place.command("attention", "add", "goal", "--lane", "ops", "--delay", "1h")["id"])


@door("horae attention post")
async def _(place: Place) -> Row:
    return "horae_events", "id", place.command("attention", "post", "ack", "--lane", "ops")["id"]


@door("horae job enqueue")
async def _(place: Place) -> Row:
    arguments = json.dumps(ATTEND)
    return job_row(place.command("job", "enqueue", "attend", "--args", arguments, "--delay", "1h")["id"])


@door("horae schedule add")
async def _(place: Place) -> Row:
    arguments = json.dumps(ATTEND)
    made = place.command("schedule", "add", "later", "--handler", "attend", "--once", FAR, "--payload", arguments)
    return "horae_schedules", "schedule_key", made["key"]


@door("horae schedule trigger")
async def _(place: Place) -> Row:
    place.app.schedules.create("daily", handler="attend", payload=ATTEND, cron="0 9 * * *")
    return job_row(place.command("schedule", "trigger", "daily")["job_id"])


@door("horae job retry")
async def _(place: Place) -> Row:
    made = place.app.jobs.enqueue("attend", ATTEND, delay=LATER)
    return job_row(place.command("job", "retry", made.id)["id"])


@door("Stop hook of the Claude Agent SDK")
async def _(place: Place) -> Row:
    wake_ups = WakeUps(place.app, lambda wake_up: asyncio.sleep(0), zone="UTC")
    answer = await wake_ups.on_stop(STOP)
    named = answer["systemMessage"].splitlines()[0].rpartition("schedule ")[2].rstrip(".")
    return "horae_schedules", "schedule_key", named


@door("PreToolUse hook of the Claude Agent SDK")
async def _(place: Place) -> Row:
    approvals = Approvals(place.agent, {"Bash"}, lambda session, text: asyncio.sleep(0))
    answer = await approvals.on_tool(PRE_TOOL)
    (named,) = re.findall(r"task (t\d+)", answer["hookSpecificOutput"]["permissionDecisionReason"])
    return task_row(named)


@pytest.mark.parametrize("name", list(DOORS))
async def test_an_accepted_wake_up_is_a_row_that_the_answer_names(place: Place, name: str) -> None:
    row = await DOORS[name](place)
    assert place.reads(*row), f"{name} answered {row}, and there is no such row"


# -- what cannot be delivered ----------------------------------------------------------------------------------------


async def test_an_event_that_no_task_takes_ends_with_a_reason() -> None:
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        agent = Attention("ops", app)
        agent.rule(Rule("hint", do="steer"))
        dropped = agent.post("hint").event
        assert (dropped.state, dropped.reason) == ("dropped", "no task had the focus")
        kept = agent.post("ack").event
        lab.clock.advance(timedelta(days=8))
        await agent.driver().until_idle()
        event = lab.world.store.read(lambda tx: tx.attention.event(kept.number))
        assert event is not None
        assert (event.state, event.reason) == ("expired", "no task waited for it")
        assert "event_expired" in [line.cause for line in agent.journal()]


async def test_a_task_that_no_cognition_knows_or_that_expires_says_so() -> None:
    app = Horae("sqlite://")
    async with Lab(app) as lab:
        agent = Attention("ops", app)
        agent.cognition("known")(lambda turn: Done())
        stranger = agent.add("unknown").task
        old = agent.add("known", expires_at=lab.clock.now() + LATER, start_at=lab.clock.now() + 2 * LATER).task
        lab.clock.advance(LATER)
        await agent.driver().until_idle()
        room = app.attention
        assert "has no cognition for tasks of kind 'unknown'" in str(room.task("ops", stranger.id).reason)
        ended = room.task("ops", old.id)
        assert (ended.state, ended.reason) == ("cancelled", "expired")


async def test_an_attend_that_can_never_work_is_a_dead_job_with_its_error() -> None:
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        jobs.enqueue(lab.world, Request("attend", {"lane": "no lane", "kind": "goal"}))
        for _ in range(4):
            await lab.advance(timedelta(seconds=301))
        (dead,) = jobs.find(lab.world, Filter(states=("dead",)), limit=5)
        assert "cannot name a lane" in str(dead.last_error)


async def test_a_fire_that_was_missed_and_is_skipped_is_recorded_with_its_reason() -> None:
    app = Horae("sqlite://")
    register(app)
    async with Lab(app) as lab:
        made = a_schedule("daily", handler="attend", payload=ATTEND, misfire="skip")
        schedules.create(lab.world, made)
        lab.clock.advance(timedelta(days=3))
        fires.fire_due(lab.world)
        skipped = [each for each in app.schedules.history("daily") if each.verdict == "skipped"]
        assert skipped != []
        assert all(each.reason for each in skipped)
