"""Calls that wait for work: woken by what happens, held without a thread, cancelled, and ended with their token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import anyio.to_thread
import httpx
import pytest

from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.attention import inbox, lanes, turns
from horae.actions.attention.waits import confirm
from horae.app import Horae
from horae.core.attention.directives import Done
from horae.core.attention.task import Control, Policy
from horae.mcp.here import MOST_WAITING, Here
from horae.mcp.lane_sessions import LEASE
from horae.mcp.refusals import ADVICE
from horae.mcp.server import agent_server
from horae.ports.world import World
from horae.service.auth.validity import EVERY
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.mcp import test_http as http
from tests.mcp.conftest import Host, agent, says
from tests.mcp.conftest import at as at_server
from tests.support.waiting import eventually

SOON = 30


@pytest.fixture
def real(sqlite_database_url: str) -> Iterator[World]:
    with Horae(sqlite_database_url) as app:
        migrate(app.engine)
        yield app.world


# -- next work -----------------------------------------------------------------------------------------------------


async def test_work_that_is_there_comes_at_once_and_none_is_said_after_the_time(world: World) -> None:
    async with agent(world) as host:
        nothing = await host.call("next_work", timeout_s=0)
        assert (nothing["answer"], nothing["task"]) == ("idle", None)
        assert "call next_work" in nothing["reason"]
        await host.call("task_add", goal="x", idempotency_key="k")
        assert (await host.call("next_work", timeout_s=50))["task"]["goal"] == "x"


async def test_a_call_that_waits_is_woken_by_a_task_of_another_process(real: World) -> None:
    here = Here.for_one(real, owner="alice")
    async with at_server(agent_server(here)) as host:
        calling = [asyncio.create_task(host.call("next_work", timeout_s=50)) for _ in range(5)]
        await eventually_waits(here, count=5)
        await eventually(lambda: anyio.to_thread.current_default_thread_limiter().borrowed_tokens == 0, "no thread")
        inbox.add(real, "main", "goal", {"goal": "x"}, owner="alice")
        answers = await asyncio.wait_for(asyncio.gather(*calling), SOON)
        assert {each["task"]["goal"] for each in answers} == {"x"}


async def eventually_waits(here: Here, owner: str = "alice", count: int = 1) -> None:
    await eventually(lambda: here.waits[owner] == count)


async def test_a_call_that_is_cancelled_leaves_nothing_behind(real: World) -> None:
    here = Here.for_one(real, owner="alice")
    async with at_server(agent_server(here)) as host:
        calling = asyncio.create_task(host.call("next_work", timeout_s=50))
        await eventually_waits(here)
        calling.cancel()
        await eventually_waits(here, count=0)
        task = await host.focus("x")
        assert (await host.call("safe_point"))["task"]["id"] == task


async def test_more_calls_than_a_few_are_refused(real: World) -> None:
    here = Here.for_one(real, owner="alice")
    async with at_server(agent_server(here)) as host:
        waiting = [asyncio.create_task(host.call("next_work", timeout_s=50)) for _ in range(MOST_WAITING)]
        await eventually_waits(here, count=MOST_WAITING)
        assert ADVICE["too_many_calls_wait"] in await host.refused("next_work")
        for each in waiting:
            each.cancel()


async def test_an_operator_who_holds_the_agent_is_named(world: World) -> None:
    async with agent(world) as host:
        await host.call("task_add", goal="x", idempotency_key="k")
        lanes.set_control(world, "main", {"auto_continue": False}, owner="alice", actor="user/olga")
        held = await host.call("next_work", timeout_s=0)
        assert (held["answer"], "operator" in held["reason"]) == ("idle", True)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_ends_when_its_token_is_revoked_and_takes_no_work_any_more(real: World, mode: str) -> None:
    made, text = create_token(real, owner="alice", scopes=("tasks",))
    here = Here.for_many(real)
    with http.served(real, here=here) as url:
        async with http.at(url, text, mode) as host:
            calling = asyncio.create_task(host.client.call_tool("next_work", {"timeout_s": 50}))
            await eventually_waits(here)
            revoke_token(real, made.token_id)
            await eventually_waits(here, count=0)
            inbox.add(real, "main", "goal", {"goal": "x"}, owner="alice")
            await asyncio.wait({calling}, timeout=SOON)
            assert isinstance(calling.exception(), Exception) or calling.result().is_error
    assert [task.state for task in _tasks(real)] == ["ready"]


def test_tokens_of_waiting_calls_are_looked_at_more_than_twice_a_second() -> None:
    """So that a call ends within a second of the revocation; how fast a machine is, no test says."""
    assert timedelta(0) < EVERY < timedelta(milliseconds=500)


def _tasks(world: World) -> list[Any]:
    lane = lanes.get_lane(world, "main", owner="alice")
    return world.store.read(lambda tx: tx.attention.live_tasks(lane.number))


def test_wrong_tokens_are_slowed_down_and_a_right_one_still_comes_in(real: World) -> None:
    headers = {"Authorization": f"Bearer {http.token(real, 'alice')}"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with http.served(real, wrong_per_address=3) as url, httpx.Client(timeout=SOON) as client:
        wrong = [client.post(url, json=ping, headers={"Authorization": "Bearer horae_x"}) for _ in range(4)]
        assert {each.status_code for each in wrong[:1]} == {401}
        assert wrong[-1].status_code == 429
        assert int(wrong[-1].headers["retry-after"]) > 0
        assert wrong[-1].json()["error"] == "too_many_requests"
        assert client.post(url, json=ping, headers=headers).status_code not in (401, 429)


# -- a context is cleared --------------------------------------------------------------------------------------------


async def test_a_context_stays_unless_it_is_cleared_in_so_many_words(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")

        async def kept(**arguments: Any) -> Any:
            return (await host.call("safe_point", task_id=task, **arguments))["task"]["context"]

        assert await kept(context={"page": 3}) == {"page": 3}
        assert await kept() == {"page": 3}
        assert await kept(context=None) == {"page": 3}  # many models send null for what they leave out
        assert await kept(clear_context=True) is None
        await kept(context=[1])
        await host.call("wait_for", task_id=task, keys=["a"], timeout_s=5, clear_context=True)
        assert (await host.call("task_get", task_id=task))["context"] is None
        assert says("task_of_context_missing") in await host.refused("safe_point", clear_context=True)


# -- a grant is redeemed ---------------------------------------------------------------------------------------------


async def granted(host: Host, world: World) -> tuple[str, str]:
    task = await host.focus("refund")
    asked = await host.call("confirm_request", task_id=task, action="refund", args={"amount": 40}, timeout_s=3600)
    confirm(world, "main", asked["id"], True, actor="user/olga", owner="alice")
    (fact,) = (await host.call("next_work"))["facts"]
    return task, fact["data"]["grant"]


async def test_a_grant_is_redeemed_once_done_and_reported(world: World) -> None:
    async with agent(world) as host:
        task, grant = await granted(host, world)
        first, again = [await host.call("grant_redeem", task_id=task, grant=grant) for _ in range(2)]
        assert (first["step"]["action"], first["step"]["args"]) == ("refund", {"amount": 40})
        assert again["step"] == first["step"] == (await host.call("next_work"))["step"]
        assert ADVICE["step_open"] in await host.refused("task_done", task_id=task)
        told = await host.call("action_report", task_id=task, outcome="ok", result={"receipt": 7})
        (fact,) = told["facts"]
        assert (told["answer"], fact["kind"], fact["data"]) == ("continue", "action_ok", {"receipt": 7})
        assert says("grant_used", id=task) in await host.refused("grant_redeem", task_id=task, grant=grant)
        assert says("step_not_open", id=task, state="running") in await host.refused(
            "action_report", task_id=task, outcome="ok"
        )


async def test_a_server_that_dies_before_the_report_leaves_the_action_unknown(world: World) -> None:
    async with agent(world) as host:
        task, grant = await granted(host, world)
        step = (await host.call("grant_redeem", task_id=task, grant=grant))["step"]
    async with agent(world) as host:  # the next server; the grant is used up, and nothing says that it was done
        told = await host.call("next_work")
        (unknown,) = [fact for fact in told["facts"] if fact["kind"] == "action_unknown"]
        assert (unknown["about"]["action"], unknown["about"]["key"]) == ("refund", step["key"])
        assert says("grant_used", id=task) in await host.refused("grant_redeem", task_id=task, grant=grant)


async def test_a_grant_that_is_too_old_permits_nothing(world: World, clock: VirtualClock) -> None:
    async with agent(world) as host:
        task, grant = await granted(host, world)
        clock.advance(timedelta(hours=2))
        assert "ask again with confirm_request" in await host.refused("grant_redeem", task_id=task, grant=grant)
        assert (await host.call("task_done", task_id=task))["state"] == "completed"


# -- a long call is a durable task -------------------------------------------------------------------------------------


def work_off(world: World, result: Any) -> None:
    """Drive the lane as another process would, until its focus is done."""
    drive = lanes.acquire(world, "main", "program", owner="alice", lease=LEASE, policy=Policy())
    assert drive is not None
    think = turns.next_work(world, drive, Control(), Policy())
    assert isinstance(think, turns.Think)
    turns.commit_turn(world, drive, think, Done(result), policy=Policy(), effects={})
    lanes.let_go(world, drive)


async def test_a_call_that_waits_for_a_task_answers_with_its_result(real: World) -> None:
    here = Here.for_one(real, owner="alice")
    async with at_server(agent_server(here)) as host:
        asked = {"goal": "x", "idempotency_key": "k", "wait": True}
        calling = asyncio.create_task(host.call("task_add", **asked))
        await eventually_waits(here)
        await anyio.to_thread.run_sync(work_off, real, {"pages": 4})
        answer = await asyncio.wait_for(calling, SOON)
        assert (answer["state"], answer["result"], answer["deduplicated"]) == ("completed", {"pages": 4}, False)
        again = await host.call("task_add", **asked)
        assert (again["result"], again["deduplicated"]) == ({"pages": 4}, True)
