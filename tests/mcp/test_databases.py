"""One story through the door on every database: turns, a wait, a confirmation, the last place for a schedule."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from horae.actions.attention import inbox
from horae.actions.attention.journal import verify
from horae.app import Horae
from horae.errors import QuotaExceeded
from horae.mcp.here import Here
from horae.mcp.schedules import MOST, ScheduleTools
from horae.stores.schema import migrate
from tests.mcp.conftest import agent, operator
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url

SOON = 40  # seconds; the call itself gives up after 50


async def test_a_story_is_told_alike_on_every_database(database_url: str) -> None:
    with Horae(database_url) as app:
        migrate(app.engine)
        async with agent(app.world) as host, operator(app.world) as person:
            report = await host.focus("report", 40)
            await host.call("task_add", goal="alert", idempotency_key="a", priority=90)
            result = await host.call("safe_point", task_id=report, context={"page": 3})
            alert = result["task"]["id"]
            assert result["answer"] == "yield"
            asked = await host.call("confirm_request", task_id=alert, action="page", args={"who": "bob"})
            assert (await host.call("safe_point"))["task"]["context"] == {"page": 3}
            await person.call("confirm_answer", wait_id=asked["id"], approve=True)
            result = await host.call("safe_point", task_id=report)
            assert (result["answer"], result["task"]["id"]) == ("yield", alert)
            (fact,) = result["facts"]
            step = (await host.call("grant_redeem", task_id=alert, grant=fact["data"]["grant"]))["step"]
            assert (fact["kind"], step["action"], step["args"]) == ("confirmed", "page", {"who": "bob"})
            result = await host.call("action_report", task_id=alert, outcome="ok")
            assert [fact["kind"] for fact in result["facts"]] == ["action_ok"]
            await host.call("task_done", task_id=alert)
            assert (await host.call("safe_point"))["task"]["id"] == report
            await host.call("task_done", task_id=report)
            waiting = asyncio.create_task(host.call("next_work", timeout_s=50))
            with Horae(database_url) as other:
                await asyncio.to_thread(inbox.add, other.world, "main", "goal", {"goal": "last"}, owner="alice")
            last = await asyncio.wait_for(waiting, SOON)
            await host.call("task_done", task_id=last["task"]["id"], result="seen")
        assert verify(app.world, "main", owner="alice").complaints == ()


def test_no_two_take_the_last_place_for_a_schedule(database_url: str) -> None:
    with Horae(database_url) as app:
        migrate(app.engine)
        tools = ScheduleTools(Here.for_one(app.world, owner="alice"))

        def make(number: int) -> bool:
            try:
                tools.schedule_create("s", "interval", "3600", "g", f"k{number}")
            except QuotaExceeded:
                return False
            return True

        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(make, range(MOST + 6)))
        assert sum(made) == MOST
        assert len(tools.schedule_list().schedules) == MOST
