"""Every tool of section 5.2 through the SDK's own client: what it answers, what it promises, what it refuses."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from horae.actions.attention import inbox
from horae.actions.attention.journal import verify
from horae.api.values import to_json
from horae.mcp.here import MOST_TASKS, Here
from horae.mcp.server import MINIMAL, agent_server
from horae.ports.world import World
from tests.mcp.conftest import agent, operator

AGENTS = {
    "attention_view", "task_add", "task_get", "task_list", "task_cancel", "safe_point", "wait_for", "task_done",
    "task_fail", "event_post", "confirm_request", "schedule_create", "schedule_list", "schedule_pause",
    "schedule_delete", "journal_read", "decide", "propose", "recall", "evidence", "next_work", "grant_redeem",
    "action_report",
}  # fmt: skip
READS = {"attention_view", "task_get", "task_list", "schedule_list", "journal_read", "recall"}
DESTROYS = {"task_cancel", "schedule_delete"}
REPEATABLE = {
    "task_add", "task_cancel", "safe_point", "task_done", "task_fail", "event_post", "schedule_create",
    "schedule_pause", "propose", "evidence", "next_work", "grant_redeem",
}  # fmt: skip


# -- what is offered -----------------------------------------------------------------------------------------------


async def test_an_agent_is_offered_its_tools_and_none_of_them_approves(world: World) -> None:
    async with agent(world) as host:
        listed = (await host.client.list_tools()).tools
    assert {tool.name for tool in listed} == AGENTS
    assert len(listed) == 23


async def test_minimal_offers_a_loop_that_can_be_ended_and_speaks_of_nothing_else(world: World) -> None:
    async with agent(world, tools="minimal") as host:
        assert {tool.name for tool in (await host.client.list_tools()).tools} == set(MINIMAL)
        prompt = str((await host.client.get_prompt("work", {})).messages)
        others = {name for name in AGENTS - set(MINIMAL) if "_" in name}  # the rest are ordinary words
        assert [name for name in others if name in f"{host.client.instructions} {prompt}"] == []
        assert "There is no tool 'task_cancel'" in await host.refused("task_cancel", task_id="t1")


async def test_an_operator_is_offered_the_approvals_and_nothing_of_an_agent(world: World) -> None:
    async with operator(world) as person:
        listed = (await person.client.list_tools()).tools
        templates = (await person.client.list_resource_templates()).resource_templates
    assert {tool.name for tool in listed} == {"confirm_list", "confirm_answer"}
    assert templates == []


async def test_hints_tell_what_reads_what_ends_and_what_may_be_repeated(world: World) -> None:
    async with agent(world) as host:
        result = {tool.name: tool.annotations for tool in (await host.client.list_tools()).tools}
    assert all(hints is not None and hints.open_world_hint is False for hints in result.values())
    assert {name for name, hints in result.items() if hints and hints.read_only_hint} == READS
    assert {name for name, hints in result.items() if hints and hints.destructive_hint} == DESTROYS
    assert {name for name, hints in result.items() if hints and hints.idempotent_hint} == REPEATABLE


async def test_every_tool_has_words_a_schema_of_its_answer_and_takes_nothing_unknown(world: World) -> None:
    async with agent(world) as host:
        for tool in (await host.client.list_tools()).tools:
            assert tool.description
            assert tool.output_schema is not None, tool.name
            assert tool.input_schema["additionalProperties"] is False, tool.name
        assert "attention_view has no argument `verbose`" in await host.refused("attention_view", verbose=True)


# -- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("task_add", {"goal": "", "idempotency_key": "k"}),
        ("task_add", {"goal": "g" * 5000, "idempotency_key": "k"}),
        ("task_add", {"goal": "g"}),
        ("task_add", {"goal": "g", "idempotency_key": "k", "priority": 100}),
        ("task_add", {"goal": "g", "idempotency_key": "k", "delay_s": -1}),
        ("task_add", {"goal": "g", "idempotency_key": "k", "start_at": "2030-01-07T12:00:00"}),
        ("task_add", {"goal": "g\x00", "idempotency_key": "k"}),
        ("task_add", {"goal": "g", "idempotency_key": "k\x00"}),
        ("task_get", {"task_id": "12"}),
        ("task_get", {"task_id": "t9999999999999999999"}),
        ("task_list", {"limit": 1000}),
        ("task_list", {"state": "asleep"}),
        ("wait_for", {"task_id": "t1", "keys": ["a"]}),
        ("wait_for", {"task_id": "t1", "keys": ["a"], "timeout_s": 0}),
        ("wait_for", {"task_id": "t1", "keys": ["a"], "timeout_s": 1e9}),
        ("wait_for", {"task_id": "t1", "keys": [], "timeout_s": 5}),
        ("safe_point", {"task_id": "t1", "note": "n" * 501}),
        ("task_fail", {"task_id": "t1", "reason": ""}),
        ("task_fail", {"task_id": "t1", "reason": "a\x00b"}),
        ("task_cancel", {"task_id": "t1", "reason": "a\x00b"}),
        ("safe_point", {"task_id": "t1", "note": "a\x00b"}),
        ("event_post", {"key": ""}),
        ("journal_read", {"since_seq": -1}),
    ],
)
async def test_what_is_out_of_bounds_is_refused_and_changes_nothing(
    world: World, tool: str, arguments: dict[str, Any]
) -> None:
    async with agent(world) as host:
        result = await host.refused(tool, **arguments)
        assert result.startswith(f"Error executing tool {tool}:")
        assert len(result) > len(f"Error executing tool {tool}: ")  # a reason, not a crash
        assert (await host.call("task_list"))["items"] == []


# -- tasks and events ----------------------------------------------------------------------------------------------


async def test_a_view_of_a_lane_that_nobody_has_used_is_empty(world: World) -> None:
    async with agent(world) as host:
        result = await host.call("attention_view")
        assert (result["focus"], result["backlog"], result["driver"], result["timezone"]) == (None, [], "nobody", "UTC")
        assert (await host.call("journal_read"))["items"] == []


async def test_the_same_key_twice_is_the_same_task_and_another_wish_under_it_is_refused(world: World) -> None:
    async with agent(world) as host:
        first = await host.call("task_add", goal="write", idempotency_key="k", payload={"for": "bob"})
        again = await host.call("task_add", goal="write", idempotency_key="k", payload={"for": "bob"})
        assert (first["deduplicated"], again["deduplicated"], again["id"]) == (False, True, first["id"])
        assert "survives a restart" in first["durability"]
        assert "(conflict)" in await host.refused("task_add", goal="read", idempotency_key="k")


async def test_a_task_may_start_later_and_never_both_ways(world: World) -> None:
    async with agent(world) as host:
        result = await host.call("task_add", goal="later", idempotency_key="k", delay_s=60)
        assert (result["state"], result["start_at"]) == ("created", "2030-01-07T12:01:00Z")
        both = {"delay_s": 1, "start_at": "2031-01-01T00:00:00Z"}
        assert "not both" in await host.refused("task_add", goal="g", idempotency_key="j", **both)
        (delayed,) = (await host.call("attention_view"))["created"]
        assert delayed["goal"] == "later"


async def test_an_agent_that_adds_without_end_is_stopped(world: World) -> None:
    async with agent(world) as host:
        for number in range(MOST_TASKS):
            inbox.add(world, "main", "goal", {"goal": "x"}, key=f"k{number}", owner="alice")
        assert "(quota_exceeded)" in await host.refused("task_add", goal="x", idempotency_key="one more")
        assert (await host.call("task_add", goal="x", idempotency_key="k0"))["deduplicated"] is True


async def test_tasks_are_listed_page_by_page(world: World) -> None:
    async with agent(world) as host:
        for number in range(5):
            await host.call("task_add", goal=f"g{number}", idempotency_key=f"k{number}")
        first = await host.call("task_list", limit=3)
        rest = await host.call("task_list", limit=3, cursor=first["next_cursor"])
        assert [task["goal"] for task in first["items"] + rest["items"]] == ["g4", "g3", "g2", "g1", "g0"]
        assert rest["next_cursor"] is None
        assert (await host.call("task_list", state="completed"))["items"] == []


async def test_lists_are_short_and_one_task_is_whole(world: World) -> None:
    async with agent(world) as host:
        task = (await host.call("task_add", goal="x", idempotency_key="k", payload={"large": "y" * 9999}))["id"]
        for result in (await host.call("attention_view"), await host.call("task_list")):
            assert "yyy" not in json.dumps(result)
        assert (await host.call("task_get", task_id=task))["payload"]["payload"] == {"large": "y" * 9999}


async def test_a_cancelled_task_ends_and_cancelling_twice_is_no_mistake(world: World) -> None:
    async with agent(world) as host:
        task = (await host.call("task_add", goal="x", idempotency_key="k"))["id"]
        for _ in range(2):
            assert (await host.call("task_cancel", task_id=task, reason="no need"))["state"] == "cancelled"
        assert "(not_found)" in await host.refused("task_cancel", task_id="t99")


async def test_an_event_is_kept_for_who_will_wait_and_told_once(world: World) -> None:
    async with agent(world) as host:
        kept = await host.call("event_post", key="ack", body={"by": "bob"}, event_id="e1")
        again = await host.call("event_post", key="ack", body={"by": "bob"}, event_id="e1")
        assert (kept["state"], kept["deduplicated"], again["deduplicated"]) == ("pending", False, True)


async def test_the_journal_tells_of_one_task_and_reads_on(world: World) -> None:
    async with agent(world) as host:
        await host.focus("x")
        await host.call("task_add", goal="other", idempotency_key="o")
        whole = await host.call("journal_read")
        of_one = await host.call("journal_read", task_id="t1")
        assert {row["task"] for row in of_one["items"]} == {"t1"}
        assert {row["task"] for row in whole["items"]} == {"t1", "t2"}
        assert (await host.call("journal_read", since_seq=whole["last_seq"]))["items"] == []


# -- resources -----------------------------------------------------------------------------------------------------


async def test_focus_tasks_and_journal_are_resources(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        read = host.client.read_resource

        async def result(uri: str) -> Any:
            return json.loads(getattr((await read(uri)).contents[0], "text", ""))

        assert (await result("attention://focus"))["focus"]["id"] == task
        assert (await result(f"attention://tasks/{task}"))["goal"] == "x"
        assert [row["seq"] for row in (await result("attention://journal?since=1"))["items"]] == [2, 3]
        assert len((await result("attention://journal"))["items"]) == 3
        for wrong in ("attention://tasks/t99", "attention://tasks/x", "attention://journal?since=-1"):
            with pytest.raises(MCPError):
                await read(wrong)


async def test_who_listens_hears_that_the_focus_changed(world: World) -> None:
    async with agent(world) as host, host.client.listen(resource_subscriptions=["attention://focus"]) as heard:
        await host.call("task_add", goal="x", idempotency_key="k")
        with anyio.fail_after(10):
            event = await anext(aiter(heard))
        assert "attention://focus" in str(event)


async def test_the_journal_stays_sound(world: World) -> None:
    async with agent(world) as host:
        task = await host.focus("x")
        await host.call("safe_point", task_id=task, context=[1])
        await host.call("wait_for", task_id=task, keys=["a"], timeout_s=5)
    result = verify(world, "main", owner="alice")
    assert result.complaints == ()
    assert result.sealed > 0


async def test_a_client_of_the_older_protocol_is_served_as_well(world: World) -> None:
    server = agent_server(Here.for_one(world, owner="alice"))
    async with Client(server, mode="legacy") as client:
        result = await client.call_tool("task_add", {"goal": "x", "idempotency_key": "k"})
        assert result.structured_content is not None
        assert result.structured_content["id"] == "t1"


async def test_a_task_a_wait_and_an_event_are_told_as_the_room_tells_them(world: World) -> None:
    """One vocabulary: what a tool leaves out is left out, but nothing has another name or value."""
    here = Here.for_one(world, owner="alice", actor="agent/alice")
    async with agent(world) as host:
        task = await host.focus("x")
        waiting = await host.call("wait_for", task_id=task, keys=["ack"], timeout_s=60)
        event = await host.call("event_post", key="later")
        result = [
            (await host.call("task_get", task_id=task), here.attention.task("main", task)),
            (waiting, here.attention.task("main", task)),
            (waiting["waits"][0], here.attention.waits("main")[0]),
            ((await host.call("attention_view"))["waiting"][0]["waits"][0], here.attention.waits("main")[0]),
            ((await host.call("journal_read"))["items"][0], next(iter(here.attention.journal("main")))),
            ((await host.call("task_list"))["items"][0], next(iter(here.attention.tasks("main")))),
        ]

    besides = {"timezone", "durability", "waits", "early"}
    for answer, value in result:
        assert {name: each for name, each in answer.items() if name not in besides}.items() <= to_json(value).items()
    assert (event["state"], event["task"], event["deduplicated"]) == ("pending", None, False)
