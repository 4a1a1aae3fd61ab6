"""The door over HTTP: no call without a token, no approval for an agent, no tenant who sees another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.attention import lanes
from horae.app import Horae
from horae.errors import ConfigurationError, InvalidInput
from horae.mcp.here import Here
from horae.mcp.http import GRACE, application
from horae.mcp.server import agent_server, operator_server
from horae.ports.world import World
from horae.server.http_server import HttpServer
from horae.server.socket import listen
from horae.service.guard.limits import Rates
from horae.stores.schema import migrate
from tests.mcp.conftest import Host
from tests.support.refusals import refused

SOON = 30.0


class Listening(HttpServer):
    """Tells when it listens."""

    def __init__(self, *result: Any) -> None:
        super().__init__(*result, grace=GRACE)
        self.listens = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.listens.set()


@pytest.fixture
def world(sqlite_database_url: str) -> Iterator[World]:
    with Horae(sqlite_database_url) as app:
        migrate(app.engine)
        yield app.world


@contextmanager
def served(
    world: World, *, is_operator: bool = False, here: Here | None = None, wrong_per_address: int = 0
) -> Iterator[str]:
    here = here or Here.for_many(world)
    server = operator_server(here) if is_operator else agent_server(here)
    opened = listen("127.0.0.1", 0)
    rates = Rates(wrong_per_address=wrong_per_address)
    http = Listening(application(server, world, "127.0.0.1", is_operator=is_operator, rates=rates), opened)
    thread = threading.Thread(target=lambda: asyncio.run(http.run_until_stopped()), daemon=True)
    thread.start()
    try:
        assert http.listens.wait(SOON)
        yield f"http://127.0.0.1:{opened.getsockname()[1]}/mcp"
    finally:
        http.stop()
        thread.join(SOON)
        opened.close()


def token(world: World, owner: str, *scopes: str) -> str:
    return create_token(world, owner=owner, scopes=scopes or ("tasks",))[1]


def test_a_stream_ends_when_its_token_is_revoked(world: World) -> None:
    made, text = create_token(world, owner="alice", scopes=("tasks",))
    headers = {"Authorization": f"Bearer {text}", "Accept": "application/json, text/event-stream"}
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }  # fmt: skip
    with served(world) as url, httpx.Client(headers=headers, timeout=SOON) as http:
        session = http.post(url, json=hello).headers["mcp-session-id"]
        with http.stream("GET", url, headers={"mcp-session-id": session}) as stream:
            assert stream.status_code == 200
            revoke_token(world, made.token_id)
            with suppress(httpx.RemoteProtocolError):  # it is cut off, not ended in order
                assert list(stream.iter_lines()) == []
        assert http.post(url, json=hello).status_code == 401


def test_a_token_that_is_limited_to_queues_is_refused(world: World) -> None:
    """Lanes and their schedules belong to no queue of a worker's."""
    _, text = create_token(world, owner="alice", scopes=("tasks",), queues=("mail",))
    with served(world) as url:
        assert httpx.post(url, json={}, headers={"Authorization": f"Bearer {text}"}, timeout=60).status_code == 403


@asynccontextmanager
async def at(url: str, text: str, mode: str = "auto") -> AsyncIterator[Host]:
    headers = {"Authorization": f"Bearer {text}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SOON) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Host(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_tenants_never_see_each_other(world: World, mode: str) -> None:
    with served(world) as url:
        async with at(url, token(world, "alice"), mode) as alice, at(url, token(world, "bob"), mode) as bob:
            task = await alice.focus("secret plan")
            made = await alice.call(
                "schedule_create", name="s", kind="interval", expr="3600", goal="g", idempotency_key="s"
            )
            for tool in ("task_get", "task_cancel", "safe_point", "task_done"):
                assert "(not_found)" in await bob.refused(tool, task_id=task)
            assert "(not_found)" in await bob.refused("schedule_delete", schedule_id=made["schedule_id"])
            assert (await bob.call("attention_view"))["backlog"] == []
            assert (await bob.call("task_list"))["items"] == []
            assert (await bob.call("schedule_list"))["schedules"] == []
            assert (await bob.call("event_post", key="ack"))["state"] == "pending"
            other = await bob.focus("another plan")  # each has a focus of its own
            assert (await alice.call("attention_view"))["focus"]["id"] == task
            assert (await bob.call("attention_view"))["focus"]["id"] == other
    assert {lane.owner for lane in lanes.find_lanes(world)} == {"alice", "bob"}
    assert all(lane.driver is None for lane in lanes.find_lanes(world))  # given back at the end


def test_nobody_comes_in_without_a_valid_token(world: World) -> None:
    made, text = create_token(world, owner="alice", scopes=("tasks",))
    revoke_token(world, made.token_id)
    with served(world) as url:
        result: list[dict[str, str]] = [
            {}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {text}"},
            {"Authorization": "Bearer horae_x"},
        ]  # fmt: skip
        for headers in result:
            for path in ("", "/other"):
                answer = httpx.post(
                    f"{url}{path}", headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=60
                )
                assert (answer.status_code, answer.headers["connection"]) == (401, "close")
                assert answer.json()["error"] == "unauthorized"
                assert "token create" not in answer.text  # a model may read it, and has no shell
                assert "bearer" in answer.headers["www-authenticate"].lower()


@pytest.mark.parametrize(
    ("is_operator", "scopes"), [(False, ("read",)), (False, ("worker",)), (False, ("admin",)), (True, ("tasks",))]
)
def test_an_agents_token_is_not_an_operators_nor_the_other_way_round(
    world: World, is_operator: bool, scopes: tuple[str, ...]
) -> None:
    """Section 3.8: the agent's own credentials can never approve."""
    headers = {"Authorization": f"Bearer {token(world, 'alice', *scopes)}"}
    with served(world, is_operator=is_operator) as url:
        answer = httpx.post(url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=60)
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")


async def test_an_operator_answers_over_http_under_the_name_of_the_token(world: World) -> None:
    made, text = create_token(world, owner="system", scopes=("admin",))
    with served(world) as url, served(world, is_operator=True) as port:
        async with at(url, token(world, "alice")) as agent, at(port, text) as person:
            task = await agent.focus("refund")
            asked = await agent.call("confirm_request", task_id=task, action="refund", args={"amount": 40})
            result = await person.call("confirm_answer", wait_id=asked["id"], approve=True)
            assert (result["approved"], result["decided_by"]) == (True, f"token/{made.token_id}")
            (fact,) = (await agent.call("safe_point"))["facts"]
            assert fact["kind"] == "confirmed"


def test_an_address_that_cannot_be_had_is_said_so() -> None:
    taken = listen("127.0.0.1", 0)
    try:
        with refused(ConfigurationError, "port_taken"):
            listen("127.0.0.1", taken.getsockname()[1])
        with refused(InvalidInput, "host_not_ours"):
            listen("nowhere.invalid", 0)
    finally:
        taken.close()
