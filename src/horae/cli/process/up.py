"""``horae up``: the service and a worker in one process, offline, with jobs to look at."""

from __future__ import annotations

import logging
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from horae.cli.process.server import Host, Port, add_built_in, settings_at, with_alerts
from horae.cli.terminal import Terminal, command, shown_url
from horae.errors import ConfigurationError, StoreError
from horae.version import VERSION

if TYPE_CHECKING:
    from horae.app import Horae
    from horae.ports import World
    from horae.runtime.worker.worker import Worker
    from horae.server.process import ServiceServer

SLOTS = 4
TOKEN_LIFE = timedelta(hours=12)


def register(app: typer.Typer) -> None:
    command(app, "up")(up)


def up(terminal: Terminal, host: Host = None, port: Port = None) -> None:
    """See Horae at work: service, worker and example jobs.

    Tells a short story with a small example application, and goes on serving until Ctrl-C. The token that it prints
    may do everything and is valid until it ends, for twelve hours at most.
    """
    from horae.cli.demo.example import app
    from horae.cli.process.foreground import run_to_its_end

    chosen = replace(terminal, settings=settings_at(terminal, host, port))
    app.database = chosen.settings.database_url
    story = Story(chosen)
    logging.basicConfig(level="INFO", handlers=[story], force=True)
    for chatty in ("alembic", "horae.access", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel("WARNING")
    add_built_in(app, chosen.settings)
    try:
        app.wait_for_store()
        ended = run_to_its_end(chosen, _run_story(chosen, story, or_any=port is None))
    finally:
        app.close()
    if ended:
        raise typer.Exit(ended)


async def _run_story(terminal: Terminal, story: Story, *, or_any: bool) -> int:
    import asyncio

    from horae.cli.demo.example import QUEUE, app, enqueue_samples
    from horae.cli.process.foreground import Serving
    from horae.runtime.worker.worker import WorkerSettings

    settings = terminal.settings
    terminal.say(f"Horae {VERSION} on {shown_url(settings.database_url)}")
    queues = with_alerts(dict.fromkeys((QUEUE, "default"), SLOTS), settings)
    worker = app.worker(WorkerSettings(queues=queues, lease=settings.lease, grace=settings.grace))
    door = Door(terminal, app, worker, or_any=or_any)
    await asyncio.to_thread(door.open)
    served = ", ".join(repr(queue) for queue in queues)
    terminal.say(f"A worker serves the queues {served}, {SLOTS} jobs at once. Times are UTC. Ctrl-C ends it.\n")
    samples = enqueue_samples()
    for made, shows in samples:
        story.line(made.job.created_at, made.id, f"enqueued {made.job.handler}: it {shows}")
    serving = Serving(terminal, worker, door.stop)
    async with asyncio.TaskGroup() as all_three:
        after = all_three.create_task(_after_the_story(terminal, app.world, [made.id for made, _ in samples]))
        answering = all_three.create_task(door.serve())
        ended = await serving.run()
        door.stop()
        after.cancel()
        await answering
    await asyncio.to_thread(door.close)
    return ended


class Door:
    """The service beside the worker, and a token for it while it runs; none without the extra."""

    def __init__(self, terminal: Terminal, app: Horae, worker: Worker, *, or_any: bool) -> None:
        self.terminal, self.app, self.worker, self.or_any = terminal, app, worker, or_any
        self._http: ServiceServer | None = None
        self._token_id: str | None = None

    def open(self) -> None:
        """Begin to listen, and print the URL."""
        from horae.actions.access.tokens import create_token

        settings = self.terminal.settings
        try:
            service = self.app.asgi(replace(settings, server_chores=False))  # the worker beside it does them
        except ConfigurationError as problem:
            if not isinstance(problem.__cause__, ModuleNotFoundError):
                raise
            self.terminal.say(f"No service, only a worker: {problem}")
            return
        from horae.server.process import ServiceServer
        from horae.server.socket import listen, url_of

        listening = listen(settings.host, settings.port, or_any=self.or_any)
        self._http = ServiceServer(service, listening, grace=settings.grace, proxies=settings.trusted_proxies)
        made, text = create_token(
            self.app.world, owner="system", scopes=["admin"], title="horae up", expires_in=TOKEN_LIFE, actor="cli/up"
        )
        self._token_id = made.token_id
        url = url_of(listening)
        self.terminal.say(f"The service answers at {url}    its API: {url}/docs")
        self.terminal.say(f'  curl -H "Authorization: Bearer {text}" {url}/scheduler/jobs')
        self.terminal.event({"event": "serving", "url": url, "port": listening.getsockname()[1], "token": text})

    async def serve(self) -> None:
        if self._http is not None:
            await self._http.run_until_stopped()

    def stop(self) -> None:
        if self._http is not None:
            self._http.stop()

    def close(self) -> None:
        """Revoke the token, which ends with the process that printed it."""
        from horae.actions.access.tokens import revoke_token

        if self._token_id is not None:
            with suppress(StoreError):  # it ends by itself, only later
                revoke_token(self.app.world, self._token_id, actor="cli/up")


async def _after_the_story(terminal: Terminal, world: World, job_ids: list[str]) -> None:
    """Print what to do next, from another terminal, once every sample has ended."""
    import asyncio

    from horae.actions.jobs import jobs
    from horae.core.jobs.job import LIVE
    from horae.runtime.loop import Alarm

    alarm = Alarm(world.clock)
    jobs_now = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    while any(job.state in LIVE for job in jobs_now):
        await alarm.sleep(None, timedelta(milliseconds=300))
        jobs_now = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    terminal.event({"event": "story_told", "jobs": {job.id: job.state for job in jobs_now}})
    dead = next((job.id for job in jobs_now if job.state == "dead"), None)
    where = f" --db {shown_url(terminal.database)}" if terminal.database else ""
    horae = how_to_call_us()
    terminal.say("\nThat was the story; the worker goes on. From another terminal, in this folder:")
    terminal.say(f"  {horae} job list{where}")
    if dead is not None:
        terminal.say(f"  {horae} job show {dead}{where}      why it died")
        terminal.say(f"  {horae} job revive {dead}{where}    fill the paper, and it runs here")
    terminal.say(f"  {horae} job enqueue example.greet --app horae.cli.demo.example:app --arg name=you{where}")


def how_to_call_us() -> str:
    """Return the command as this reader can type it; it may not be on the path."""
    me = Path(sys.argv[0])
    if me.name != "horae":
        return "python -m horae"
    known = shutil.which("horae")
    if known is not None and Path(known).resolve() == me.resolve():
        return "horae"
    here = Path.cwd()
    return str(me.resolve().relative_to(here)) if me.resolve().is_relative_to(here) else str(me)


class Story(logging.Handler):
    """Prints what the worker and the jobs log, as lines that a newcomer can follow."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        job_id = getattr(record, "job_id", "")
        about = record.getMessage().partition("\n")[0].removeprefix(f"{job_id} ")
        self.line(datetime.fromtimestamp(record.created, UTC), job_id, about)

    def line(self, at: datetime, job_id: str, text: str) -> None:
        if self.terminal.is_json:
            self.terminal.event({"event": "told", "time": at.isoformat(), "job_id": job_id or None, "text": text})
        else:
            self.terminal.out(f"{at:%H:%M:%S}  {job_id:<8}  {text}")
