"""``horae mcp`` as a real process: over stdio, over HTTP, ended by a signal, and without its extra."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from horae.actions.access.tokens import create_token
from horae.actions.attention import events, lanes
from horae.app import Horae
from horae.mcp.server import MINIMAL
from horae.stores.schema import migrate
from tests.mcp.conftest import Host
from tests.mcp.test_durable_calls import Asker, taking_handles
from tests.mcp.test_http import at
from tests.support.waiting import eventually

SOON = 60
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("HORAE_")}


def host_of(url: str, *more: str) -> Client:
    answer = ["-m", "horae", "mcp", "--db", url, *more]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=answer, env=CLEAN)))


def run(*answer: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "horae", *answer], capture_output=True, text=True, env=CLEAN, timeout=SOON, check=False
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    where = f"sqlite:///{tmp_path}/horae.db"
    with Horae(where) as app:
        migrate(app.engine)
    return where


async def test_a_task_outlives_the_process_that_took_it(url: str) -> None:
    async with host_of(url, "--lane", "desk", "--owner", "alice") as client:
        host = Host(client)
        task = await host.focus("write")
        await host.call("safe_point", task_id=task, context={"page": 3})
    with Horae(url) as app:
        lane = lanes.get_lane(app.world, "desk", owner="alice")
        assert (lane.driver, lane.leased_until) == (None, None)  # given back when the host closed its end
    async with host_of(url, "--lane", "desk", "--owner", "alice", "--tools", "minimal") as client:
        assert len((await client.list_tools()).tools) == len(MINIMAL)
        answer = await Host(client).call("safe_point")
        assert (answer["task"]["id"], answer["task"]["context"]) == (task, {"page": 3})


async def test_agents_and_operators_are_two_processes(url: str) -> None:
    async with host_of(url, "--owner", "alice") as agent, host_of(url, "--operator") as port:
        task = await Host(agent).focus("refund")
        asked = await Host(agent).call("confirm_request", task_id=task, action="refund")
        (waiting,) = (await Host(port).call("confirm_list"))["items"]
        answer = await Host(port).call("confirm_answer", wait_id=waiting["id"], approve=True)
        assert (waiting["id"], answer["approved"]) == (asked["id"], True)
        assert answer["decided_by"].startswith("cli/")


async def test_over_http_it_says_where_and_ends_in_order(url: str) -> None:
    with Horae(url) as app:
        text = create_token(app.world, owner="alice", scopes=("tasks",))[1]
    command = [sys.executable, "-m", "horae", "mcp", "--db", url, "--http", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN)
    try:
        assert process.stdout is not None
        place = json.loads(process.stdout.readline())["url"]
        async with at(place, text) as host:
            await host.focus("write")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=SOON)
    finally:
        process.kill()
    assert (process.returncode, json.loads(out)) == (0, {"event": "ended"}), err
    with Horae(url) as app:
        assert lanes.get_lane(app.world, "main", owner="alice").driver is None


async def test_told_to_end_while_a_call_waits_it_answers_the_call_first(url: str) -> None:
    with Horae(url) as app:
        text = create_token(app.world, owner="alice", scopes=("tasks",))[1]
    told: dict[str, Any] = {}
    with serving(url) as (process, place), Horae(url) as app:
        with suppress(ExceptionGroup):  # the client says good-bye to a server that is gone
            async with at(place, text) as host:
                await host.client.list_tools()  # else the client asks for them to check the answer
                waiting = asyncio.create_task(host.call("next_work", timeout_s=50))
                await eventually(lambda: [each.driver for each in lanes.find_lanes(app.world)] != [])
                process.send_signal(signal.SIGTERM)
                told = await asyncio.wait_for(waiting, SOON)
        assert process.wait(SOON) == 0
    assert (told["answer"], told["task"]) == ("idle", None)


async def test_killed_while_calls_wait_it_loses_neither_work_nor_handle(url: str) -> None:
    """kill -9 in the middle of next_work and of a long call; the next process goes on with both."""
    with Horae(url) as app:
        text = create_token(app.world, owner="alice", scopes=("tasks",))[1]
    with serving(url) as (process, place):
        async with taking_handles(place, text) as client:
            handle, host = await Asker(client).start(), Host(client)
            assert (await host.call("next_work"))["task"]["id"] == handle.task_id
            await host.call("safe_point", task_id=handle.task_id, context={"page": 3})
            await host.call("wait_for", task_id=handle.task_id, keys=["go"], timeout_s=600)
        with pytest.raises(ExceptionGroup):
            await wait_until_killed(process, place, text)
    with Horae(url) as app:
        events.post(app.world, "main", "go", owner="alice")
        with app.engine.begin() as connection:  # instead of waiting half a minute for the lease of the dead process
            connection.exec_driver_sql("UPDATE horae_lanes SET leased_until = created_at")
    with serving(url) as (_, place):
        async with taking_handles(place, text) as client:
            assert (await Asker(client).get(handle.task_id)).status == "working"
            told = await Host(client).call("next_work")
            assert (told["task"]["id"], told["task"]["context"]) == (handle.task_id, {"page": 3})
            await Host(client).call("task_done", task_id=handle.task_id, result="read")
            ended = await Asker(client).get(handle.task_id)
            assert (ended.result or {})["structuredContent"]["result"] == "read"


async def wait_until_killed(process: subprocess.Popen[str], place: str, text: str) -> None:
    async with taking_handles(place, text) as client:
        waiting = asyncio.create_task(client.call_tool("next_work", {"timeout_s": 50}))
        await asyncio.wait({waiting}, timeout=0.5)
        process.kill()
        await waiting


@contextmanager
def serving(url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "horae", "mcp", "--db", url, "--http", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=CLEAN)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait(SOON)


def test_told_to_end_over_stdio_it_gives_its_lane_back(url: str) -> None:
    command = [sys.executable, "-m", "horae", "mcp", "--db", url]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=CLEAN)
    assert process.stdin is not None
    assert process.stdout is not None
    asks = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "safe_point", "arguments": {}}
    try:
        for number, (method, answer) in enumerate((("initialize", asks), ("tools/call", call))):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": answer}
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            assert "result" in json.loads(process.stdout.readline())
            if not number:
                process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        with Horae(url) as app:
            assert lanes.get_lane(app.world, "main").driver is not None
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SOON)
            assert lanes.get_lane(app.world, "main").driver is None
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (("--tools", "some"), "choose one of all, minimal"),
        (("--http", "--owner", "alice"), "The token says who the owner is"),
        (("--operator", "--tools", "minimal"), "server has none; leave it out"),
        (("--lane", "a lane"), "lane"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(url: str, answer: tuple[str, ...], why: str) -> None:
    ended = run("mcp", "--db", url, *answer)
    assert ended.returncode != 0
    assert ended.stderr.startswith("error: ")
    assert why in ended.stderr
    assert ended.stdout == ""


def test_without_its_extra_it_names_the_extra(url: str, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['mcp'] = None; from horae.cli.main import main; sys.exit(main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", hidden, "mcp", "--db", url],
        capture_output=True, text=True, env=CLEAN, timeout=SOON, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode != 0
    assert "pip install 'horae[mcp]'" in ended.stderr


def test_the_help_of_everything_does_not_load_the_sdk() -> None:
    looks = "import sys; import horae.cli.main; sys.exit('mcp' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", looks], env=CLEAN, timeout=SOON, check=False).returncode == 0
