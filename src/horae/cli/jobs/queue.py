"""``horae queue``: see, pause, resume and limit queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.acting import Reason
from horae.cli.jobs.limit import max_running_from
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from horae.api.queues import QueueDetail

group = typer.Typer(help="See, pause, resume and limit queues.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    machinery: Annotated[
        bool, typer.Option("--machinery", help="Also the queue of Horae's own jobs, which every worker serves.")
    ] = False,
) -> None:
    """Every queue with settings, jobs or a worker."""
    with reached(terminal) as here:
        found = here.queues.list(machinery=machinery)
    headers = ("QUEUE", "STATUS", "WAITING", "RUNNING", "DEAD", "SUCCEEDED", "CANCELLED", "LIMIT", "WORKERS")
    text = terminal.table(headers, [_row(each) for each in found]) if found else "No queue yet."
    terminal.result(as_list(found), text)


def _row(queue: QueueDetail) -> tuple[str, ...]:
    jobs = queue.jobs
    status = "open" if queue.paused_at is None else f"paused by {queue.paused_by}"
    numbers = (str(jobs.get(state, 0)) for state in ("queued", "running", "dead", "succeeded", "cancelled"))
    return (queue.name, status, *numbers, str(queue.max_running or "-"), str(len(queue.workers)))


@command(group, "pause", by_url=True)
def pause(terminal: Terminal, name: Name, reason: Reason = "") -> None:
    """Hand out no more jobs of a queue.

    Running jobs go on, enqueueing goes on.
    """
    with reached(terminal) as here:
        changed = here.queues.pause(name, reason=reason)
    terminal.result(to_json(changed), f"{name} is paused; `horae queue resume {name}` lets it go on")


@command(group, "resume", by_url=True)
def resume(terminal: Terminal, name: Name, reason: Reason = "") -> None:
    """Hand out jobs of a paused queue again."""
    with reached(terminal) as here:
        changed = here.queues.resume(name, reason=reason)
    terminal.result(to_json(changed), f"{name} is open")


@command(group, "limit", by_url=True)
def limit(
    terminal: Terminal,
    name: Name,
    max_running: Annotated[str, typer.Argument(metavar="N|none", help="How many jobs; none lifts the limit.")],
    reason: Reason = "",
) -> None:
    """Let at most N jobs run at once.

    The limit holds over all workers. `horae limit` knows those of groups and over all, and where each comes from.
    """
    number = max_running_from(max_running)
    with reached(terminal) as here:
        changed = here.queues.limit(name, number, reason=reason)
    text = "has no limit" if number is None else f"runs at most {words.count(number, 'job')} at once"
    terminal.result(to_json(changed), f"{name} {text}")
