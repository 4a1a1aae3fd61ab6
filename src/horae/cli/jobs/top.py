"""``horae top``: queues, workers, running jobs and rates, refreshed each second."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.dataclass import dataclass
from horae.core.time.instants import iso
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    from horae.api.jobs.room import Job
    from horae.api.overview import Overview
    from horae.api.queues import QueueDetail, Worker
    from horae.api.statistics import Figures
    from horae.cli.verbs import Verbs

HOUR = timedelta(hours=1)
SHOWN = 15  # running jobs, queues and workers
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def register(app: typer.Typer) -> None:
    command(app, "top", by_url=True, examples=("horae top", "horae top --once --json"))(top)


@dataclass(frozen=True)
class Look:
    """What is going on at one instant."""

    at: datetime
    overview: Overview
    queues: Sequence[QueueDetail]
    workers: Sequence[Worker]
    running: Sequence[Job]
    rates: Sequence[Figures]

    def as_json(self) -> dict[str, Any]:
        names = ("overview", "queues", "workers", "running", "rates")
        return {"at": iso(self.at), **{name: to_json(getattr(self, name)) for name in names}}


def top(
    terminal: Terminal,
    once: Annotated[bool, typer.Option("--once", help="Look once and end; so it is without a terminal.")] = False,
    every: Annotated[str, typer.Option("--every", metavar="SPAN", help="Between two looks: 1s, 5s …")] = "1s",
) -> None:
    """Show queues, workers and running jobs until Ctrl-C.

    Rates are those of the last hour, counted a minute or two after jobs have ended. With --json every look is one line.
    """
    pause = max(span_from(every, "--every"), timedelta(milliseconds=200))
    goes_on = not once and (terminal.is_json or sys.stdout.isatty())
    with reached(terminal) as here:
        while True:
            look = _look(here)
            if terminal.is_json:
                terminal.event(look.as_json()) if goes_on else terminal.result(look.as_json(), "")
            else:
                terminal.out((CLEAR if goes_on else "") + _page(terminal, look))
            if not goes_on:
                return
            from horae.runtime.loop import sleep_in_thread

            sleep_in_thread(pause.total_seconds())


def _look(here: Verbs) -> Look:
    now = here.now()
    running = here.jobs.list(state=["running"]).page(None, limit=SHOWN).items
    rates = here.statistics.list("queue", since=now - HOUR, limit=100)
    return Look(now, here.overview.get(), here.queues.list(), here.workers.list(), running, rates)


def _page(terminal: Terminal, look: Look) -> str:
    seen = look.overview
    head = f"{seen.running:,} running, {seen.due:,} due, {words.count(seen.workers, 'worker')}"
    lines = [f"{terminal.bold(seen.health.in_words(terminal.language))}  {terminal.faint(iso(look.at))}", head]
    for title, text in (("QUEUES", _queues), ("WORKERS", _workers), ("RUNNING", _running)):
        found = text(terminal, look)
        lines += ["", found] if found else ["", terminal.faint(f"{title}: none")]
    return "\n".join(lines)


def _queues(terminal: Terminal, look: Look) -> str:
    rates = {each.name: each for each in look.rates}
    busiest = sorted(look.queues, key=lambda each: (-each.jobs.get("queued", 0), each.name))[:SHOWN]
    rows = [_queue_row(each, rates.get(each.name)) for each in busiest]
    headers = ("QUEUE", "WAITING", "RUNNING", "DEAD", "DONE/MIN", "FAILED/H", "DELAY P95", "WORKERS")
    return terminal.table(headers, rows) if rows else ""


def _queue_row(queue: QueueDetail, rate: Figures | None) -> tuple[str, ...]:
    jobs = queue.jobs
    limit = "" if queue.max_running is None else f" of {queue.max_running}"
    done = "" if rate is None else f"{rate.succeeded / 60:.1f}"
    failed = "" if rate is None else f"{rate.failed:,}"
    delay = "" if rate is None or rate.delay_p95 is None else words.span(rate.delay_p95)
    served = "paused" if queue.paused_at is not None else str(len(queue.workers))
    counts = (f"{jobs.get('queued', 0):,}", f"{jobs.get('running', 0):,}{limit}", f"{jobs.get('dead', 0):,}")
    return (queue.name, *counts, done, failed, delay, served)


def _workers(terminal: Terminal, look: Look) -> str:
    rows = [
        (each.id, each.state, f"{each.running or 0}/{each.slots}", ", ".join(each.queues),
         words.relative(each.seen_at, look.at))
        for each in look.workers[:SHOWN]
    ]  # fmt: skip
    return terminal.table(("WORKER", "STATE", "BUSY", "QUEUES", "SEEN"), rows) if rows else ""


def _running(terminal: Terminal, look: Look) -> str:
    rows = [
        (each.id, each.handler, each.queue, str(each.attempt + 1),
         "" if each.started_at is None else words.span(look.at - each.started_at), _progress(each.progress))
        for each in look.running
    ]  # fmt: skip
    return terminal.table(("JOB", "HANDLER", "QUEUE", "ATTEMPT", "FOR", "PROGRESS"), rows) if rows else ""


def _progress(value: Any) -> str:
    return "" if value is None else words.first_line(str(value), 40)
