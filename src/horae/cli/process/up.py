"""``horae up``: the service and a worker process, offline, with jobs to look at."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horae.cli.process.server import Host, Port, add_built_in, settings_at
from horae.cli.terminal import Terminal, command, redact_url
from horae.cli.words import span
from horae.errors import ConfigurationError, HoraeError, StoreError
from horae.version import VERSION

if TYPE_CHECKING:
    from horae.app import Horae
    from horae.cli.process.story_log import Story
    from horae.ports.world import World
    from horae.server.process import ServiceServer

SLOTS = 4
TOKEN_LIFE = timedelta(hours=12)


def register(app: typer.Typer) -> None:
    command(app, "up")(up)


def up(
    terminal: Terminal,
    host: Host = None,
    port: Port = None,
    bare: Annotated[bool, typer.Option("--bare", help="No example jobs, schedules, agent and memories.")] = False,
) -> None:
    """See Horae at work: service, worker and example jobs.

    Tells a short story with a small example application, and goes on serving until Ctrl-C. The worker is a process of
    its own: kill it, and another one takes its place and its jobs. The token that is printed may do everything and is
    valid until this ends, for twelve hours at most. --bare leaves the examples out.
    """
    from horae.cli.demo.example import app as example
    from horae.cli.process.foreground import run_to_its_end
    from horae.cli.process.story_log import Story
    from horae.cli.process.targets import bare_application

    chosen = replace(terminal, settings=settings_at(terminal, host, port))
    app = bare_application("up", chosen.settings) if bare else example
    app.database = chosen.settings.database_url
    story = Story(chosen)
    logging.basicConfig(level="INFO", handlers=[story], force=True)
    for chatty in ("alembic", "horae.access", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel("WARNING")
    add_built_in(app, chosen.settings)
    try:
        app.wait_for_store()
        ended = run_to_its_end(chosen, Running(chosen, story, app, bare=bare, or_any=port is None).run())
    finally:
        app.close()
    if ended:
        raise typer.Exit(ended)


class Running:
    """One ``horae up``: the service in this process, the worker in another, the story in between."""

    def __init__(self, terminal: Terminal, story: Story, app: Horae, *, bare: bool, or_any: bool) -> None:
        self.terminal, self.story, self.app, self.bare = terminal, story, app, bare
        self.door = Door(terminal, app, bare=bare, or_any=or_any)
        self._signals = 0

    async def run(self) -> int:
        """Serve until a signal; return the exit code."""
        import asyncio

        from horae.cli.process.up_worker import options_for
        from horae.cli.process.worker_process import WorkerProcess
        from horae.clock import SystemClock, SystemDice

        settings = self.terminal.settings
        self.terminal.say(f"Horae {VERSION} on {redact_url(settings.database_url)}")
        self.worker = WorkerProcess(
            self.terminal, SystemClock(), SystemDice(), options_for(self.terminal, bare=self.bare)
        )
        self._stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, signal.Signals(number).name)
        await asyncio.to_thread(self.door.open)
        samples = [] if self.bare else await asyncio.to_thread(self._begin)
        working = asyncio.create_task(self.worker.run())
        answering = asyncio.create_task(self.door.serve())
        after = asyncio.create_task(_after_the_story(self.terminal, self.app.world, samples))
        await self._stopped.wait()
        self.door.stop()
        self.worker.stop()
        after.cancel()
        await self.worker.ended(working, settings.grace)
        await answering
        await asyncio.to_thread(self._end)
        return 0

    def _on_signal(self, name: str) -> None:
        self._signals += 1
        if self._signals == 1:
            grace = span(self.terminal.settings.grace)
            self.terminal.say(f"\n{name}: the worker finishes what it runs (up to {grace}); once more ends at once")
            self.terminal.event({"event": "stopping", "signal": name})
            self._stopped.set()
        elif self._signals == 2:
            self.worker.kill()

    def _begin(self) -> list[str]:
        """Enqueue the story, wake the schedules of an earlier time, give the agent something to do and to remember."""
        from horae.cli.demo.agent import add_tasks, make_agent
        from horae.cli.demo.example import GROUP, LEASE, enqueue_samples, remember

        with suppress(HoraeError):  # there is none yet, or all of them are awake
            self.app.schedules.resume_group(GROUP, reason="horae up has started")
        add_tasks(make_agent(self.app))
        samples = enqueue_samples()
        remember()
        self.terminal.say(
            f"A worker runs {SLOTS} jobs of each queue at once. Times are UTC. Ctrl-C ends everything. Kill the "
            f"worker, if you dare: its jobs are taken up again after {LEASE.total_seconds():g} seconds.\n"
        )
        for made, shows in samples:
            self.story.line(made.job.created_at, made.id, f"enqueued {made.job.handler}: it {shows}")
        return [made.id for made, _ in samples]

    def _end(self) -> None:
        """Revoke the token and pause the example schedules: no worker would run their jobs."""
        from horae.cli.demo.example import GROUP

        if not self.bare:
            with suppress(HoraeError):
                self.app.schedules.pause_group(GROUP, reason="horae up has ended")
        self.door.close()


class Door:
    """The service, and a token for it while it runs; none without the extra."""

    def __init__(self, terminal: Terminal, app: Horae, *, bare: bool, or_any: bool) -> None:
        self.terminal, self.app, self.bare, self.or_any = terminal, app, bare, or_any
        self._http: ServiceServer | None = None
        self._token_id: str | None = None

    def open(self) -> None:
        """Begin to listen, and print the URL."""
        from horae.actions.access.tokens import create_token

        settings = self.terminal.settings
        try:
            service = self.app.asgi(settings, example=not self.bare)
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
        link = self._log_in_at(url) if settings.console else None
        if link is not None:
            self.terminal.say(f"Open the console (once, within ten minutes):  {link}")
        self.terminal.say(f"The service answers at {url}    its API: {url}/docs")
        self.terminal.say(f'  curl -H "Authorization: Bearer {text}" {url}/scheduler/jobs')
        self.terminal.event(
            {"event": "serving", "url": url, "port": listening.getsockname()[1], "token": text, "console": link}
        )

    def _log_in_at(self, url: str) -> str:
        """Return a link that logs one browser in with the token of this process."""
        from horae.actions.access.sessions import create_code
        from horae.cli.access.console import login_url

        assert self._token_id is not None
        _, code = create_code(self.app.world, self._token_id, actor="cli/up")
        return login_url(url, code)

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

    if not job_ids:
        return
    alarm = Alarm(world.clock)
    jobs_now = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    while any(job.state in LIVE for job in jobs_now):
        await alarm.sleep(None, timedelta(milliseconds=300))
        jobs_now = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    terminal.event({"event": "story_told", "jobs": {job.id: job.state for job in jobs_now}})
    dead = next((job.id for job in jobs_now if job.state == "dead"), None)
    where = f" --db {redact_url(terminal.database)}" if terminal.database else ""
    horae = how_to_call_us()
    terminal.say("\nThat was the story; the worker goes on. From another terminal, in this folder:")
    terminal.say(f"  {horae} job list{where}")
    if dead is not None:
        terminal.say(f"  {horae} job show {dead}{where}      why it died")
        terminal.say(f"  {horae} job revive {dead}{where}    fill the paper, and it runs here")
    wrong = next((job.id for job in jobs_now if (job.state, job.handler) == ("dead", "example.invoice")), None)
    if wrong is not None:
        terminal.say(f"  {horae} job rerun {wrong}{where} --arg amount=12    mend the mistake, and run it once more")
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
