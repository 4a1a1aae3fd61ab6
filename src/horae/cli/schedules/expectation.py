"""``horae expectation``: runs of schedules, and jobs, that should have succeeded by now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.schedules.expectations import MissedRun

group = typer.Typer(
    help="See runs that were expected and are missing.", no_args_is_help=True, rich_markup_mode=None
)  # fmt: skip


@command(group, "list", by_url=True, examples=("horae expectation list --state open",))
def list_(
    terminal: Terminal,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="Only those: waiting (jobs), open, recovered or dropped."),
    ] = None,
    schedule: Annotated[str | None, typer.Option("--schedule", metavar="KEY", help="Only of this schedule.")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="ID", help="Only of this job.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only of this owner.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 50,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """List expectations that were not met, the newest first.

    A schedule says what is expected of it: `horae schedule change KEY --expect "within 10m"`; so does a job: `horae job
    enqueue NAME --expect "within 10m"`.
    """
    with reached(terminal) as here:
        listing = here.expectations.list(owner=owner, state=cast(Any, state), schedule=schedule, job=job)
        page, now = listing.page(cursor, limit=limit), here.now()
    headers = ("OF", "STATE", "EXPECTED", "DUE", "MISSED", "ENDED")
    rows = [_row(each, now) for each in page.items]
    terminal.result(to_json(page), terminal.table(headers, rows) if rows else "Nothing is missing.")
    if page.next_cursor is not None and not terminal.is_json:
        terminal.say(f"more with --cursor {page.next_cursor}")


def _row(missed: MissedRun, now: datetime) -> tuple[str, ...]:
    ended = "-" if missed.ended_at is None else words.relative(missed.ended_at, now)
    why = missed.state if missed.reason is None else f"{missed.state} ({missed.reason})"
    return (
        missed.schedule or missed.job or "",
        why,
        missed.expect,
        words.both(missed.due_at, now),
        f"{missed.count:,}",
        ended,
    )
