"""``horae act``: see and steer bulk acts."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from horae.api.values import to_json
from horae.cli.failures import Exit
from horae.cli.jobs.bulk import Reason, Timeout
from horae.cli.jobs.tables import act_line, act_page, act_table
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.jobs.acts import ActState
from horae.core.time.spans import span_from
from horae.errors import WaitTimeout

group = typer.Typer(help="See and steer bulk acts on jobs.", no_args_is_help=True, rich_markup_mode=None)
ActId = Annotated[str, typer.Argument(metavar="ID", help="The act, such as act_3.")]
ROUND = 2.0  # seconds between two lines of progress


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="running, paused, done or cancelled. Repeat it."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """Bulk acts, newest first."""
    with reached(terminal) as here:
        page = here.acts.list(state=cast("list[ActState]", state or [])).page(cursor, limit=limit)
        now = here.now()
    terminal.result(to_json(page), act_table(terminal, page.items, now) if page.items else "No acts.")
    terminal.mention_more(page.next_cursor)


@command(group, "show", by_url=True)
def show(terminal: Terminal, act_id: ActId) -> None:
    """One act: its filter, progress, and what was skipped."""
    with reached(terminal) as here:
        act, now = here.acts.get(act_id), here.now()
    terminal.result(to_json(act), act_page(terminal, act, now))


@command(group, "pause", by_url=True)
def pause(terminal: Terminal, act_id: ActId, reason: Reason = "") -> None:
    """Let an act rest after the batch under way."""
    with reached(terminal) as here:
        act = here.acts.pause(act_id, reason=reason)
    terminal.result(to_json(act), f"{act_line(act)}; `horae act resume {act.id}` lets it go on")


@command(group, "resume", by_url=True)
def resume(terminal: Terminal, act_id: ActId, reason: Reason = "") -> None:
    """Let a paused act go on where it stopped."""
    with reached(terminal) as here:
        act = here.acts.resume(act_id, reason=reason)
    terminal.result(to_json(act), act_line(act))


@command(group, "cancel", by_url=True)
def cancel(terminal: Terminal, act_id: ActId, reason: Reason = "") -> None:
    """End an act after the batch under way.

    What it has changed stays changed.
    """
    with reached(terminal) as here:
        act = here.acts.cancel(act_id, reason=reason)
    terminal.result(to_json(act), act_line(act))


@command(group, "undo", by_url=True)
def undo(terminal: Terminal, act_id: ActId, reason: Reason = "") -> None:
    """Move the jobs of a reschedule back to their former time.

    It is an act of its own; a job that was moved since is skipped.
    """
    with reached(terminal) as here:
        act = here.acts.undo(act_id, reason=reason)
    terminal.result(to_json(act), act_line(act))


@command(group, "wait", by_url=True, examples=("horae act wait act_3 --timeout 10m",))
def wait(
    terminal: Terminal,
    act_id: ActId,
    timeout: Timeout = "5m",
) -> None:
    """Wait until an act rests, and show its progress meanwhile.

    Exits with 0 when it is done, with 1 when it was paused or cancelled, and with 75 when it is still running.
    """
    left = span_from(timeout, "timeout").total_seconds()
    with reached(terminal) as here:
        while left > ROUND:
            left -= ROUND
            try:
                here.acts.wait(act_id, timeout=ROUND)
                break
            except WaitTimeout:
                terminal.say(act_line(here.acts.get(act_id)))
        act = here.acts.wait(act_id, timeout=min(left, ROUND))
    terminal.result(to_json(act), act_line(act))
    if act.state != "done":
        raise typer.Exit(Exit.FAILURE)
