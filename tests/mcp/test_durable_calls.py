"""The tasks extension (SEP-2663) through the SDK's own client: a handle outlives its server, for its asker alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result
from pydantic import Field

from horae.actions.attention import inbox
from horae.app import Horae
from horae.mcp.durable_calls import IDENTIFIER, TTL
from horae.mcp.here import Here
from horae.mcp.server import agent_server
from horae.ports.world import World
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.mcp import test_http as http
from tests.mcp.test_waiting import work_off

ASKED = {"goal": "x", "idempotency_key": "k", "wait": True}
INVALID_PARAMS, MISSING_CAPABILITY = -32602, -32021


class Handle(Result):
    """What a server hands out for a call that takes long."""

    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str
    created_at: str = Field(alias="createdAt")
    last_updated_at: str = Field(alias="lastUpdatedAt")
    ttl_ms: int | None = Field(alias="ttlMs")
    poll_interval_ms: int | None = Field(default=None, alias="pollIntervalMs")


class Status(Result):
    """What tasks/get answers."""

    status: str
    status_message: str | None = Field(default=None, alias="statusMessage")
    last_updated_at: str = Field(alias="lastUpdatedAt")
    result: dict[str, Any] | None = None


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(default=None, alias="inputResponses")


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class Tasks(ClientExtension):
    """A client that takes handles; the tests poll for themselves."""

    identifier = IDENTIFIER

    def claims(self) -> Sequence[ResultClaim[Any]]:
        async def resolve(handle: Handle, context: ClaimContext) -> CallToolResult:
            raise AssertionError((handle, context))

        return (ResultClaim(result_type="task", model=Handle, resolve=resolve),)


class Asker:
    """One client of the extension."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self) -> Handle:
        answer = await self.client.session.call_tool("task_add", ASKED, allow_claimed=True)
        assert isinstance(answer, Handle), answer
        return answer

    async def ask(self, method: str, task_id: str, kind: type[Any] = Result, **more: Any) -> Any:
        request = TaskRequest(method=method, params=TaskParams(taskId=task_id, **more))
        return await self.client.session.send_request(request, kind)

    async def get(self, task_id: str) -> Status:
        status: Status = await self.ask("tasks/get", task_id, Status)
        return status

    async def refused(self, method: str, task_id: str) -> int:
        with pytest.raises(MCPError) as refusal:
            await self.ask(method, task_id)
        return refusal.value.error.code


@asynccontextmanager
async def asking(world: World, actor: str = "agent/alice", owner: str = "alice") -> AsyncIterator[Asker]:
    async with Client(agent_server(Here.for_one(world, owner=owner, actor=actor)), extensions=[Tasks()]) as client:
        yield Asker(client)


async def test_a_long_call_is_a_task_that_outlives_its_server_and_ends_with_the_result(world: World) -> None:
    async with asking(world) as asker:
        handle = await asker.start()
        assert (handle.status, handle.ttl_ms) == ("working", TTL // timedelta(milliseconds=1))
        assert (await asker.start()).task_id == handle.task_id  # the same key is the same task
        assert (await asker.get(handle.task_id)).status == "working"
    work_off(world, {"pages": 4})
    async with asking(world) as asker:  # another server on the same database
        ended = await asker.get(handle.task_id)
        result = ended.result or {}
        assert (ended.status, result["structuredContent"]["result"]) == ("completed", {"pages": 4})
        assert result.get("isError", False) is False


async def test_a_cancelled_call_cancels_its_task_and_cancelling_twice_is_no_mistake(world: World) -> None:
    async with asking(world) as asker:
        handle = await asker.start()
        for _ in range(2):
            await asker.ask("tasks/cancel", handle.task_id)
        ended = await asker.get(handle.task_id)
        assert (ended.status, ended.result) == ("cancelled", None)
        assert "cancelled" in str(ended.status_message)


async def test_a_task_that_fails_is_a_call_that_is_answered_with_an_error(world: World) -> None:
    async with asking(world) as asker:
        handle = await asker.start()
        await asker.client.call_tool("safe_point", {})
        await asker.client.call_tool("task_fail", {"task_id": handle.task_id, "reason": "no source answers"})
        result = (await asker.get(handle.task_id)).result or {}
        assert (result["isError"], "no source answers" in str(result["content"])) == (True, True)


async def test_a_handle_belongs_to_who_asked_and_ends_with_its_time(world: World, clock: VirtualClock) -> None:
    async with asking(world) as asker, asking(world, actor="agent/other") as other, asking(world, owner="bob") as bob:
        handle = await asker.start()
        for stranger in (other, bob):
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                assert await stranger.refused(method, handle.task_id) == INVALID_PARAMS
        plain = inbox.add(world, "main", "goal", {"goal": "not asked for by a call"}, owner="alice").task
        assert await asker.refused("tasks/get", plain.id) == INVALID_PARAMS
        assert await asker.refused("tasks/get", "nonsense") == INVALID_PARAMS
        await asker.ask(
            "tasks/update", handle.task_id, inputResponses={"unknown": {}}
        )  # ignored, as the extension says
        assert (await asker.get(handle.task_id)).status == "working"
        clock.advance(TTL)
        assert await asker.refused("tasks/get", handle.task_id) == INVALID_PARAMS


async def test_who_does_not_declare_the_extension_gets_no_handle(world: World) -> None:
    async with asking(world) as asker:
        handle = await asker.start()
    work_off(world, "done")
    async with Client(agent_server(Here.for_one(world, owner="alice", actor="agent/alice"))) as client:
        answer = await client.call_tool("task_add", ASKED)
        assert (answer.structured_content or {})["result"] == "done"
        assert await Asker(client).refused("tasks/get", handle.task_id) == MISSING_CAPABILITY


async def test_over_http_a_handle_belongs_to_its_token(sqlite_database_url: str) -> None:
    with Horae(sqlite_database_url) as app:
        migrate(app.engine)
        with http.served(app.world) as url:
            async with over_http(url, app.world) as asker, over_http(url, app.world) as other:
                handle = await asker.start()
                assert (await asker.get(handle.task_id)).status == "working"
                assert await other.refused("tasks/get", handle.task_id) == INVALID_PARAMS
                await asyncio.to_thread(work_off, app.world, 1)
                assert (await asker.get(handle.task_id)).status == "completed"


@asynccontextmanager
async def over_http(url: str, world: World) -> AsyncIterator[Asker]:
    async with taking_handles(url, http.token(world, "alice")) as client:
        yield Asker(client)


@asynccontextmanager
async def taking_handles(url: str, text: str) -> AsyncIterator[Client]:
    """Connect a client of the extension over HTTP."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {text}"}, timeout=http.SOON) as sender,
        Client(streamable_http_client(url, http_client=sender), extensions=[Tasks()]) as client,
    ):
        yield client
