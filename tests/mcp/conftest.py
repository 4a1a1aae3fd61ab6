"""A server in memory with the SDK's own client at its other end; the clock stands still until it is moved."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer

from horae.mcp.here import Here
from horae.mcp.server import agent_server, operator_server
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import LoadedDice, VirtualClock
from horae.words.sentences import sentence


def says(reason: str, **facts: Any) -> str:
    """Return the sentence of a refusal: a tool hands over the sentence and the code, not reason and facts."""
    text = sentence(reason, facts)
    assert text is not None, f"{reason} has no sentence, or not with these facts"
    return text


@dataclass(frozen=True)
class Host:
    """A host that calls tools."""

    client: Client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        assert answer.structured_content is not None
        return dict(answer.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error, answer.structured_content
        return str(getattr(answer.content[0], "text", ""))

    async def focus(self, goal: str, priority: int = 50) -> str:
        """Add a task and give it the focus, which is free."""
        task = await self.call("task_add", goal=goal, idempotency_key=goal, priority=priority)
        answer = await self.call("safe_point")
        assert answer["task"]["id"] == task["id"]
        return str(task["id"])


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store = open_store(create_store_engine("sqlite://"))
    yield World(store, clock, LoadedDice())
    store.close()


@asynccontextmanager
async def at(server: MCPServer[None]) -> AsyncIterator[Host]:
    async with Client(server) as client:
        yield Host(client)


@asynccontextmanager
async def agent(world: World, owner: str = "alice", **more: Any) -> AsyncIterator[Host]:
    async with at(agent_server(Here.for_one(world, owner=owner, actor=f"agent/{owner}"), **more)) as host:
        yield host


@asynccontextmanager
async def operator(world: World, **more: Any) -> AsyncIterator[Host]:
    async with at(operator_server(Here.for_one(world, actor="user/olga"), **more)) as host:
        yield host
