"""``horae queue``: see, pause, resume, limit and share queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.arguments import until_from
from horae.cli.jobs.bulk import Reason, Until
from horae.cli.jobs.limit import max_running_from
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.queues import QueueDetail

group = typer.Typer(help="See, pause, resume, limit and share queues.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    machinery: Annotated[
        bool, typer.Option("--machinery", help="Also the queue of Horae's own jobs, which every worker serves.")
    ] = False,
) -> None:
    """List all queues with settings, jobs or a worker."""
    with reached(terminal) as here:
        found = here.queues.list(machinery=machinery)
    headers = ("QUEUE", "STATUS", "WAITING", "RUNNING", "DEAD", "SUCCEEDED", "CANCELLED", "LIMIT", "WORKERS")
    text = terminal.table(headers, [_row(each) for each in found]) if found else "No queue yet."
    terminal.result(as_list(found), text)


def _row(queue: QueueDetail) -> tuple[str, ...]:
    jobs = queue.jobs
    numbers = (str(jobs.get(state, 0)) for state in ("queued", "running", "dead", "succeeded", "cancelled"))
    return (queue.name, _status(queue), *numbers, str(queue.max_running or "-"), str(len(queue.workers)))


def _status(queue: QueueDetail) -> str:
    status = "open" if queue.paused_at is None else f"paused by {queue.paused_by}"
    return f"{status}, fair" if queue.fair else status


@command(group, "show", by_url=True)
def show(terminal: Terminal, name: Name) -> None:
    """Show one queue: its settings, its jobs by state, who serves it."""
    with reached(terminal) as here:
        found = here.queues.get(name)
    quiet = "none" if found.quiet_hours is None else f"{found.quiet_hours} ({found.quiet_zone})"
    lines = {
        "queue": found.name,
        "status": _status(found),
        "order": found.order,
        "shared": "owners take turns" if found.fair else "first come, first served",
        "limit": str(found.max_running or "none"),
        "quiet": quiet,
        "jobs": ", ".join(f"{count} {state}" for state, count in found.jobs.items() if count) or "none",
        "workers": ", ".join(found.workers) or "none",
    }
    terminal.result(to_json(found), "\n".join(f"{label:8} {text}" for label, text in lines.items()))


@command(
    group,
    "set",
    by_url=True,
    examples=("horae queue set mail --fair owner", "horae queue set mail --fair none --order run_at"),
)
def set_(
    terminal: Terminal,
    name: Name,
    fair: Annotated[
        str | None,
        typer.Option(
            "--fair", metavar="owner|none", help="owner: owners take turns, by their weights; none: they do not."
        ),
    ] = None,
    order: Annotated[
        str | None, typer.Option("--order", metavar="priority|run_at", help="Which job of an owner comes first.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Set how a queue is shared and in which order it is served.

    With --fair owner no owner keeps another one waiting, however many jobs it has. `horae owner set` gives weights.
    """
    if fair is None and order is None:
        raise InvalidInput("queue_set_nothing", queue=name)
    with reached(terminal) as here:
        changed = None if order is None else here.queues.order(name, order, reason=reason)  # type: ignore[arg-type]  # the room checks it
        if changed is None or fair is not None:
            changed = here.queues.share(name, None if fair == "none" else fair, reason=reason)  # type: ignore[arg-type]  # the room checks it
    shared = "owners take turns" if changed.fair else "first come, first served"
    terminal.result(to_json(changed), f"{name}: {shared}, by {changed.order}")


@command(group, "pause", by_url=True)
def pause(terminal: Terminal, name: Name, until: Until = None, reason: Reason = "") -> None:
    """Hand out no more jobs of a queue.

    With --until it goes on by itself then. Running jobs go on, enqueueing goes on.
    """
    with reached(terminal) as here:
        changed = here.queues.pause(name, **until_from(until), reason=reason)
    ends = "" if changed.paused_until is None else f" until {words.exact(changed.paused_until)}"
    terminal.result(to_json(changed), f"{name} is paused{ends}; `horae queue resume {name}` lets it go on")


@command(group, "resume", by_url=True)
def resume(terminal: Terminal, name: Name, reason: Reason = "") -> None:
    """Hand out jobs of a paused queue again."""
    with reached(terminal) as here:
        changed = here.queues.resume(name, reason=reason)
    terminal.result(to_json(changed), f"{name} is open")


@command(group, "quiet", by_url=True, examples=("horae queue quiet mail 22:00-07:00 --tz Europe/Berlin",))
def quiet(
    terminal: Terminal,
    name: Name,
    hours: Annotated[str, typer.Argument(metavar="HOURS|none", help="Such as 22:00-07:00; none lifts them.")],
    zone: Annotated[str, typer.Option("--tz", metavar="ZONE", help="The IANA zone of the hours.")] = "UTC",
    reason: Reason = "",
) -> None:
    """Start no job of a queue in some hours.

    Running jobs go on. The queue is paused when the hours begin and resumed when they end.
    """
    with reached(terminal) as here:
        changed = here.queues.quiet(name, None if hours == "none" else hours, zone=zone, reason=reason)
    text = "has no quiet hours" if changed.quiet_hours is None else f"is quiet {changed.quiet_hours} ({zone})"
    terminal.result(to_json(changed), f"{name} {text}")


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
