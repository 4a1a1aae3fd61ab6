"""``horae mcp``: a server for agents that speak MCP, or for the people who approve what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.cli.terminal import Terminal, actor, command, redact_url
from horae.core.jobs.job import SYSTEM
from horae.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from horae.mcp.here import Here
    from horae.ports.world import World

PORT = 8765


def register(app: typer.Typer) -> None:
    examples = ("horae mcp --lane main", "horae mcp --http --port 8766", "horae mcp --http --operator --port 8767")
    command(app, "mcp", examples=examples)(mcp)


def mcp(
    terminal: Terminal,
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="NAME", help="The agent's lane; else main. Operators: else all.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="The tenant; else system. Over HTTP the token tells.")
    ] = None,
    tools: Annotated[str, typer.Option("--tools", metavar="WHICH", help="all or minimal (eight tools).")] = "all",
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP at /mcp with tokens, instead of stdio.")] = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Its port; 0 picks a free one.")
    ] = PORT,
    operator: Annotated[
        bool, typer.Option("--operator", help="The approvals, and nothing else; never give it to an agent.")
    ] = False,
) -> None:
    """Give an agent its tasks, waits and schedules over MCP.

    Without --http it speaks on stdin and stdout, for one host that starts it. With --http every call needs a token:
    scope tasks for agents, admin for operators. Schedules fire while a worker runs: horae worker.
    """
    if http and owner is not None and not operator:
        raise InvalidInput("owner_from_token")
    if tools not in ("all", "minimal"):
        raise InvalidInput("choice_unknown", name="--tools", value=tools, choices=["all", "minimal"])
    if operator and tools != "all":
        raise InvalidInput("tools_for_operator")
    _need_extra()
    from horae.app import Horae

    settings = terminal.settings
    with Horae(settings.database_url, synchronous=settings.synchronous) as app:
        world = app.world
        here = _here(terminal, world, lane, owner, http=http)
        server = _server(here, lane, owner, tools, operator=operator)
        if http:
            _serve_http(terminal, server, here, host, port, operator=operator)
        else:
            _serve_stdio(server, here)


def _need_extra() -> None:
    try:
        import mcp.server.mcpserver
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != "mcp":
            raise
        raise MissingExtra("mcp_extra_missing") from None
    assert mcp.server.mcpserver is not None


def _here(terminal: Terminal, world: World, lane: str | None, owner: str | None, *, http: bool) -> Here:
    from horae.mcp.here import COMMITTED, LANE, Here

    is_file = terminal.settings.database_url.startswith("sqlite")
    weak = is_file and terminal.settings.synchronous != "FULL"
    durability = f"{COMMITTED}, though the last moments before a power failure may be lost" if weak else COMMITTED
    if http:
        return Here.for_many(world, lane or LANE, durability=durability)
    return Here.for_one(world, lane or LANE, owner=owner or SYSTEM, actor=actor(terminal), durability=durability)


def _server(here: Here, lane: str | None, owner: str | None, tools: str, *, operator: bool) -> MCPServer[None]:
    from horae.mcp.server import agent_server, operator_server

    if operator:
        return operator_server(here, owner=owner, lane=lane)
    return agent_server(here, "minimal" if tools == "minimal" else "all")


def _serve_stdio(server: MCPServer[None], here: Here) -> None:
    """Serve on stdin and stdout; logs go to stderr. A signal gives the lanes back first."""
    import asyncio
    import os
    import signal

    from horae.cli.logs import start_logging

    start_logging("text", "WARNING")

    def end(number: int) -> None:
        here.sessions.close()
        os._exit(128 + number)  # the reader of stdin is in a thread that nothing but a line can end

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
        await server.run_stdio_async()

    asyncio.run(serve())


def _serve_http(
    terminal: Terminal, server: MCPServer[None], here: Here, host: str, port: int, *, operator: bool
) -> None:
    import asyncio
    import signal

    from horae.cli.logs import start_logging
    from horae.mcp.http import GRACE, PATH, application
    from horae.server.http_server import HttpServer
    from horae.server.socket import listen, url_of
    from horae.service.guard.limits import Rates

    start_logging("json" if terminal.is_json else "text", "INFO")
    listening = listen(host, port)
    url = url_of(listening) + PATH
    settings = terminal.settings
    rates = Rates(settings.calls_per_token, settings.calls_per_address, settings.wrong_per_address)
    http = HttpServer(application(server, here.world, host, is_operator=operator, rates=rates), listening, grace=GRACE)
    terminal.say(f"Horae serves {'operators' if operator else 'agents'} over MCP: {url}")
    terminal.say(f"  store   {redact_url(settings.database_url)}")
    terminal.say(f"  tokens  horae token create --owner NAME --scopes {'admin' if operator else 'tasks'}")
    terminal.say("  Ctrl-C ends it in order")
    terminal.event({"event": "started", "url": url, "operator": operator})

    def stop() -> None:
        http.stop()
        here.answer_waiting()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop)
        await http.run_until_stopped()

    try:
        asyncio.run(serve())
    finally:
        listening.close()
    terminal.event({"event": "ended"})
