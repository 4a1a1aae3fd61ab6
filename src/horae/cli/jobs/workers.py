"""``horae workers``: who works, how full and how well; drain one and resume it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.queues import Worker

group = typer.Typer(help="See who works and how full; drain and resume.", no_args_is_help=True, rich_markup_mode=None)
Id = Annotated[str, typer.Argument(metavar="ID", help="The worker, as `horae workers list` shows it.")]


@command(group, "list", by_url=True)
def list_(terminal: Terminal) -> None:
    """List workers with their slots, memory and lag."""
    with reached(terminal) as here:
        found, now = here.workers.list(), here.now()
    headers = ("WORKER", "STATE", "SEEN", "BUSY", "MEMORY", "LAG", "QUEUES", "RELEASE")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No worker."
    terminal.result(as_list(found), text)


def _row(worker: Worker, now: datetime) -> tuple[str, ...]:
    return (
        worker.id,
        worker.state,
        words.relative(worker.seen_at, now),
        _busy(worker),
        _memory(worker),
        _lag(worker),
        ", ".join(worker.queues) or "-",
        worker.release or "-",
    )


def _busy(worker: Worker) -> str:
    return f"{'?' if worker.running is None else worker.running} of {worker.slots}"


def _memory(worker: Worker) -> str:
    return "-" if worker.memory is None else f"{worker.memory / 2**20:,.0f} MiB"


def _lag(worker: Worker) -> str:
    return "-" if worker.loop_lag is None else f"{worker.loop_lag.total_seconds() * 1000:,.0f} ms"


@command(group, "show", by_url=True)
def show(terminal: Terminal, id: Id) -> None:  # noqa: A002  # the argument's name on the command line
    """Show one worker."""
    with reached(terminal) as here:
        worker, now = here.workers.get(id), here.now()
    slots = (f"{queue} {(worker.busy or {}).get(queue, 0)} of {most}" for queue, most in worker.queues.items())
    lines = [
        f"{worker.id} is {worker.state}",
        f"process   {worker.pid} on {worker.host}, since {words.both(worker.started_at, now)}",
        f"version   {worker.version}, release {worker.release or '-'}",
        f"seen      {words.both(worker.seen_at, now)}",
        f"slots     {_busy(worker)} in use: {', '.join(slots) or 'no queue'}",
        f"memory    {_memory(worker)}",
        f"lag       {_lag(worker)} at most, of its event loop, since the heartbeat before",
    ]
    if worker.drain is not None:
        asked = "" if worker.drain_at is None else f" {words.both(worker.drain_at, now)}"
        because = f": {worker.drain_reason}" if worker.drain_reason else ""
        lines.append(f"drain     asked by {worker.drain_by or '-'}{asked}, then to {worker.drain}{because}")
    terminal.result(to_json(worker), "\n".join(lines))


@command(group, "drain", by_url=True)
def drain(
    terminal: Terminal,
    id: Id,  # noqa: A002  # the argument's name on the command line
    leave: Annotated[bool, typer.Option("--leave", help="End the process after its last job.")] = False,
    reason: Reason = "",
) -> None:
    """Let a worker finish and claim nothing more.

    It sees this with its next look, and then stays idle until it is resumed; with --leave it ends. Schedules go on
    firing through it.
    """
    with reached(terminal) as here:
        changed = here.workers.drain(id, leave=leave, reason=reason)
    then = "leaves after its last job" if leave else f"claims nothing more; `horae workers resume {id}` ends that"
    terminal.result(to_json(changed), f"{id} {then}")


@command(group, "resume", by_url=True)
def resume(terminal: Terminal, id: Id, reason: Reason = "") -> None:  # noqa: A002  # the argument's name on the command line
    """Let a drained worker claim jobs again."""
    with reached(terminal) as here:
        changed = here.workers.resume(id, reason=reason)
    terminal.result(to_json(changed), f"{id} claims jobs again")
