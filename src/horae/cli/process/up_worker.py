"""The worker of ``horae up``, in a process of its own: ``python -m horae.cli.process.up_worker '{…}'``.

It prints what happens to the same terminal, and ends when ``horae up`` does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

from horae.cli.process.foreground import Serving, run_to_its_end
from horae.cli.process.server import add_built_in, with_alerts
from horae.cli.process.story_log import Story
from horae.cli.process.worker_process import on_parent_end
from horae.cli.terminal import Terminal
from horae.errors import HoraeError
from horae.settings import Settings

SLOTS = 4


def options_for(terminal: Terminal, *, bare: bool) -> dict[str, Any]:
    """Return what the worker must know, as JSON: the environment says the rest."""
    return {
        "database": terminal.settings.database_url,
        "json": terminal.is_json,
        "quiet": terminal.is_quiet,
        "plain": terminal.is_plain,
        "bare": bare,
    }


def main(arguments: list[str]) -> int:
    """Run the worker until the parent ends, or a signal; return the exit code."""
    given = json.loads(arguments[0])
    settings = replace(Settings.read(os.environ), database_url=given["database"])
    terminal = Terminal(settings, is_json=given["json"], is_quiet=given["quiet"], is_plain=given["plain"])
    logging.basicConfig(level="INFO", handlers=[Story(terminal)], force=True)
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel("WARNING")
    return run_to_its_end(terminal, _serve(terminal, bare=given["bare"]))


async def _serve(terminal: Terminal, *, bare: bool) -> int:
    from horae.cli.demo.example import LEASE, QUEUE
    from horae.cli.demo.example import app as example
    from horae.cli.process.targets import bare_application
    from horae.runtime.worker.worker import WorkerSettings

    settings = terminal.settings
    app = bare_application("up", settings) if bare else example
    app.database = settings.database_url
    add_built_in(app, settings)
    queues = with_alerts(dict.fromkeys(app.served_queues if bare else (QUEUE, *app.served_queues), SLOTS), settings)
    lease = settings.lease if bare or "HORAE_LEASE" in os.environ else LEASE
    look_every = settings.poll if bare else min(settings.poll, lease)  # a killed one is missed as soon as its jobs are
    try:
        await asyncio.to_thread(app.wait_for_store)
        chosen = WorkerSettings(queues=queues, lease=lease, grace=settings.grace, look_every=look_every)
        serving = Serving(terminal, app.worker(chosen))
        loop = asyncio.get_running_loop()
        on_parent_end(lambda: loop.call_soon_threadsafe(serving.end_quietly))
        return await (serving.run() if bare else _with_agent(serving, app))
    finally:
        app.close()


async def _with_agent(serving: Serving, app: Any) -> int:
    """Serve, and drive the example's lane beside it."""
    from horae.cli.demo.agent import make_agent

    agent = make_agent(app)
    driving = asyncio.create_task(agent.serve())
    try:
        return await serving.run()
    finally:
        agent.stop()
        driving.cancel()
        with suppress(asyncio.CancelledError, HoraeError):
            await driving


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
