"""Every refusal that a model can read: it names the tool and the argument to change, and sends nobody to a shell."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from horae.actions.attention import inbox, lanes
from horae.core.attention.task import Policy
from horae.errors import HoraeError, InvalidInput, NotFound, StoreUnavailable, TooManyRequests
from horae.mcp.here import MOST_TASKS
from horae.mcp.lane_sessions import LEASE
from horae.mcp.refusals import ADVICE, COMMAND, tool_refusal
from horae.ports.world import World
from tests.mcp.conftest import Host, agent, operator

FAR = "2031-01-01T00:00:00Z"
PLAN = {"name": "s", "kind": "once", "expr": FAR, "goal": "g", "idempotency_key": "s"}
CRON = PLAN | {"kind": "cron", "expr": "0 9 * * *", "timezone": "UTC"}
# tool, arguments that are refused by a rule of Horae and not by their form, and the argument to change. t1 is the
# focus, t2 is in the backlog, t3 has ended.
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("task_add", {"goal": "other", "idempotency_key": "first"}, "idempotency_key"),
    ("task_add", {"goal": "g", "idempotency_key": "k", "delay_s": 1, "start_at": FAR}, "delay_s"),
    ("task_add", {"goal": "g", "idempotency_key": "k", "payload": {"x": "y" * 2_000_000}}, "payload"),
    ("task_add", {"goal": "g", "idempotency_key": "k\nl"}, "idempotency_key"),
    ("task_add", {"goal": "g", "idempotency_key": "k", "wait": True}, "wait"),
    ("task_get", {"task_id": "t99"}, "task_id"),
    ("task_get", {"task_id": "t9999999999999999999"}, "task_id"),
    ("task_list", {"cursor": "zzz"}, "cursor"),
    ("task_cancel", {"task_id": "t99"}, "task_id"),
    ("journal_read", {"task_id": "t99"}, "task_id"),
    ("event_post", {"key": "a\nb"}, "key"),
    ("event_post", {"key": "a", "event_id": "a\nb"}, "event_id"),
    ("event_post", {"key": "a", "body": {"x": "y" * 2_000_000}}, "body"),
    ("safe_point", {"task_id": "t99"}, "task_id"),
    ("safe_point", {"context": 1}, "task_id"),
    ("safe_point", {"task_id": "t1", "turn": 9}, "turn"),
    ("safe_point", {"task_id": "t1", "context": 1, "clear_context": True}, "clear_context"),
    ("safe_point", {"task_id": "t1", "context": "y" * 2_000_000}, "context"),
    ("wait_for", {"task_id": "t2", "keys": ["a"], "timeout_s": 5}, "task_id"),
    ("wait_for", {"task_id": "t1", "keys": ["a\nb"], "timeout_s": 5}, "keys"),
    ("wait_for", {"task_id": "t1", "keys": ["a"], "timeout_s": 5, "turn": 9}, "turn"),
    ("task_done", {"task_id": "t2"}, "task_id"),
    ("task_done", {"task_id": "t3", "result": "another"}, "result"),
    ("task_done", {"task_id": "t1", "result": "y" * 2_000_000}, "result"),
    ("task_fail", {"task_id": "t3", "reason": "late"}, "task_id"),
    ("task_fail", {"task_id": "t1", "reason": " "}, "reason"),
    ("confirm_request", {"task_id": "t2", "action": "pay"}, "task_id"),
    ("confirm_request", {"task_id": "t1", "action": "pay", "cites": ["mem"]}, "cites"),
    ("confirm_request", {"task_id": "t1", "action": "pay", "args": {"x": "y" * 2_000_000}}, "args"),
    ("grant_redeem", {"task_id": "t1", "grant": "guessed"}, "grant"),
    ("grant_redeem", {"task_id": "t99", "grant": "g"}, "task_id"),
    ("action_report", {"task_id": "t1", "outcome": "ok"}, "task_id"),
    ("schedule_create", CRON | {"timezone": None}, "timezone"),
    ("schedule_create", CRON | {"timezone": "Mars/Base"}, "timezone"),
    ("schedule_create", CRON | {"expr": "9am"}, "expr"),
    ("schedule_create", CRON | {"expr": "0 0 31 2 *"}, "expr"),
    ("schedule_create", CRON | {"expr": "* * * * *"}, "expr"),
    ("schedule_create", CRON | {"ends_at": "2099-01-01T00:00:00Z"}, "ends_at"),
    ("schedule_create", PLAN | {"expr": "soon"}, "expr"),
    ("schedule_create", PLAN | {"expr": "2020-01-01T00:00:00Z"}, "expr"),
    ("schedule_create", PLAN | {"kind": "interval", "expr": "5m"}, "expr"),
    ("schedule_create", PLAN | {"idempotency_key": "kept"}, "idempotency_key"),
    ("schedule_create", PLAN | {"idempotency_key": "a\nb"}, "idempotency_key"),
    ("schedule_create", PLAN | {"name": "a\nb"}, "name"),
    ("schedule_pause", {"schedule_id": "none"}, "schedule_id"),
    ("schedule_delete", {"schedule_id": "none"}, "schedule_id"),
    ("decide", {"action": "pay", "cites": ["mem"]}, "cites"),
    ("decide", {"action": "pay", "cites": ["memory:mem_000000000000"]}, "cites"),
    ("propose", {"content": "c", "subject": "s", "rests_on": ["memory:mem_000000000000"]}, "rests_on"),
    ("propose", {"content": "c", "subject": "s", "kind": "experience", "rests_on": ["mem"]}, "rests_on"),
    ("propose", {"content": "c", "subject": "s", "idempotency_key": "a b"}, "idempotency_key"),
    ("evidence", {"name": "memory:none", "references": ["chat:1"]}, "name"),
    ("evidence", {"name": "none", "references": ["chat:1"]}, "name"),
]
FREE = {"context", "result"}  # any JSON is right
WITHOUT_CASES = {"attention_view", "schedule_list", "next_work", "recall", "confirm_list"}  # forms alone are refused


async def _scene(host: Host) -> None:
    done = await host.focus("ended", 90)
    await host.call("task_done", task_id=done, result="first")
    await host.call("task_add", goal="first", idempotency_key="first")
    assert (await host.call("safe_point"))["task"]["goal"] == "first"
    await host.call("task_add", goal="second", idempotency_key="second", priority=10)
    await host.call("schedule_create", **PLAN | {"goal": "another", "idempotency_key": "kept"})


def _numbered(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the ids that the scene gives: the first task there is the one that has ended."""
    ids = {"t1": "t2", "t2": "t3", "t3": "t1"}
    return {name: ids.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()}


async def test_each_refusal_of_each_tool_names_the_argument_to_change(world: World) -> None:
    async with agent(world) as host:
        await _scene(host)
        offered = {tool.name for tool in (await host.client.list_tools()).tools}
        said = [
            (tool, argument, await host.refused(tool, **_numbered(arguments))) for tool, arguments, argument in CASES
        ]
    wrong = [
        (tool, argument, text)
        for tool, argument, text in said
        if not text.startswith(f"Error executing tool {tool}: ") or f"Change `{argument}` of {tool}." not in text
    ]
    assert wrong == []
    assert [text for _, _, text in said if COMMAND.search(text)] == []
    assert offered - {tool for tool, _, _ in CASES} == WITHOUT_CASES & offered


@pytest.mark.parametrize("server", [agent, operator])
async def test_a_value_of_the_wrong_form_is_refused_with_the_name_of_its_argument(world: World, server: Any) -> None:
    wrong: list[str] = []
    async with server(world) as host:
        for tool in (await host.client.list_tools()).tools:
            for name in tool.input_schema["properties"].keys() - FREE:
                text = await host.refused(tool.name, **{name: "no\x00"} if _is_object(tool, name) else {name: {"a": 1}})
                if f"Change `{name}` of {tool.name}, which is " not in text or COMMAND.search(text):
                    wrong.append(f"{tool.name}.{name}: {text}")
            text = await host.refused(tool.name, nonsense=1)
            if f"{tool.name} has no argument `nonsense`" not in text:
                wrong.append(f"{tool.name}: {text}")
    assert wrong == []


def _is_object(tool: Any, name: str) -> bool:
    schema = tool.input_schema["properties"][name]
    return any(each.get("type") == "object" for each in (schema, *schema.get("anyOf", ())))


async def test_what_a_description_says_names_no_command(world: World) -> None:
    async with agent(world) as host, operator(world) as person:
        tools = [*(await host.client.list_tools()).tools, *(await person.client.list_tools()).tools]
        instructions = str(host.client.instructions)
        prompt = str((await host.client.get_prompt("work", {})).messages)
        made = await host.call("schedule_create", **PLAN)
    async with agent(world, owner="bob") as stranger:
        with pytest.raises(MCPError) as refusal:
            await stranger.client.read_resource("attention://tasks/t1")
    assert COMMAND.search(str(refusal.value)) is None
    read = [str(tool.model_dump()) for tool in tools] + [instructions, prompt, str(made)]
    assert [COMMAND.search(text) for text in read] == [None] * len(read)


async def test_a_confirmation_that_is_not_there_names_its_argument(world: World) -> None:
    async with operator(world) as person:
        text = await person.refused("confirm_answer", wait_id=99, approve=True)
        assert "Change `wait_id` of confirm_answer." in text


async def test_where_no_argument_helps_the_next_tool_is_named(world: World) -> None:
    async with agent(world) as host:
        assert ADVICE["lane_unknown"] in await host.refused("task_get", task_id="t1")
        for number in range(MOST_TASKS):
            inbox.add(world, "main", "goal", {"goal": "x"}, key=f"k{number}", owner="alice")
        full = await host.refused("task_add", goal="x", idempotency_key="one more")
        assert "task_cancel" in full
        drive = lanes.acquire(world, "main", "program", owner="alice", lease=LEASE, policy=Policy())
        assert drive is not None
        for tool, arguments in {"safe_point": {}, "task_done": {"task_id": "t1"}}.items():
            assert ADVICE["lane_driven_elsewhere"] in await host.refused(tool, **arguments)
        idle = await host.call("next_work", timeout_s=0)  # waits: the other process may have died
        assert (idle["answer"], "If it has died" in idle["reason"]) == ("idle", True)


@pytest.mark.parametrize(
    ("problem", "named"),
    [
        (StoreUnavailable("secret host and port"), "Call it again"),
        (NotFound("lane_unknown", lane="x"), "task_add"),
        (TooManyRequests("too_many_calls_wait", 5.0, most=10), "safe_point"),
        (InvalidInput("tool_selection_unknown", tools="x"), "Read the description of some_tool again"),
    ],
)
def test_a_refusal_without_an_argument_says_what_to_do_and_no_command(problem: HoraeError, named: str) -> None:
    text = tool_refusal("some_tool", problem, ())
    assert named in text
    assert "secret" not in text
    assert COMMAND.search(text) is None


async def test_a_tool_that_is_not_there_is_answered_with_those_near_it(world: World) -> None:
    async with agent(world) as host:
        assert "next_work" in await host.refused("get_next_work")
        assert "attention_view" in await host.refused("zzz")
