"""``horae up``: Horae at work on this machine, offline, with jobs to look at."""

from __future__ import annotations

import logging
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from horae.cli.terminal import Terminal, command, shown_url
from horae.version import VERSION

if TYPE_CHECKING:
    from horae.ports import World

SLOTS = 4


def register(app: typer.Typer) -> None:
    command(app, "up")(up)


def up(terminal: Terminal) -> None:
    """See Horae at work, with example jobs.

    Starts a worker with a small example application, tells a short story, and goes on serving until Ctrl-C.
    """
    import asyncio

    from horae.cli.example import app

    app.database = terminal.settings.database_url
    told = Story(terminal)
    logging.basicConfig(level="INFO", handlers=[told], force=True)
    logging.getLogger("alembic").setLevel("WARNING")
    try:
        ended = asyncio.run(_tell(terminal, told))
    finally:
        app.close()
    if ended:
        raise typer.Exit(ended)


async def _tell(terminal: Terminal, told: Story) -> int:
    import asyncio

    from horae.cli.example import QUEUE, app, enqueue_samples
    from horae.cli.serving import Serving
    from horae.runtime.worker import WorkerSettings

    settings = terminal.settings
    world = app.world
    terminal.say(f"Horae {VERSION} on {shown_url(settings.database_url)}")
    terminal.say(f"A worker serves the queue {QUEUE!r}, {SLOTS} jobs at once. Times are UTC. Ctrl-C ends it.\n")
    samples = enqueue_samples()
    for made, shows in samples:
        told.line(made.job.created_at, made.id, f"enqueued {made.job.handler}: it {shows}")
    queues = {QUEUE: SLOTS}
    serving = Serving(terminal, app.worker(WorkerSettings(queues=queues, lease=settings.lease, grace=settings.grace)))
    async with asyncio.TaskGroup() as both:
        after = both.create_task(_after_the_story(terminal, world, [made.id for made, _ in samples]))
        ended = await serving.run()
        after.cancel()
    return ended


async def _after_the_story(terminal: Terminal, world: World, job_ids: list[str]) -> None:
    """Once every sample has ended: what to do next, from another terminal."""
    import asyncio

    from horae.actions import jobs
    from horae.core.jobs import LIVE
    from horae.runtime.loop import Alarm

    alarm = Alarm(world.clock)
    found = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    while any(job.state in LIVE for job in found):
        await alarm.sleep(None, timedelta(milliseconds=300))
        found = [await asyncio.to_thread(jobs.get, world, job_id) for job_id in job_ids]
    terminal.event({"event": "story_told", "jobs": {job.id: job.state for job in found}})
    dead = next((job.id for job in found if job.state == "dead"), None)
    where = f" --db {shown_url(terminal.database)}" if terminal.database else ""
    horae = how_to_call_us()
    terminal.say("\nThat was the story; the worker goes on. From another terminal, in this folder:")
    terminal.say(f"  {horae} job list{where}")
    if dead is not None:
        terminal.say(f"  {horae} job show {dead}{where}      why it died")
        terminal.say(f"  {horae} job revive {dead}{where}    fill the paper, and it runs here")
    terminal.say(f"  {horae} job enqueue example.greet --app horae.cli.example:app --arg name=you{where}")


def how_to_call_us() -> str:
    """The command as this reader can type it: not everybody has it on the path."""
    me = Path(sys.argv[0])
    if me.name != "horae":
        return "python -m horae"
    known = shutil.which("horae")
    if known is not None and Path(known).resolve() == me.resolve():
        return "horae"
    here = Path.cwd()
    return str(me.resolve().relative_to(here)) if me.resolve().is_relative_to(here) else str(me)


class Story(logging.Handler):
    """What the worker and the jobs log, as lines a newcomer can follow."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        job_id = getattr(record, "job_id", "")
        about = record.getMessage().removeprefix(f"{job_id} ")
        self.line(datetime.fromtimestamp(record.created, UTC), job_id, about)

    def line(self, at: datetime, job_id: str, text: str) -> None:
        if self.terminal.is_json:
            self.terminal.event({"event": "told", "time": at.isoformat(), "job_id": job_id or None, "text": text})
        else:
            self.terminal.out(f"{at:%H:%M:%S}  {job_id:<8}  {text}")
