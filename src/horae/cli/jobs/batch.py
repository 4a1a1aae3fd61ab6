"""``horae batch``: see, wait for and cancel batches of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, cast

import typer

from horae.api.jobs.batch import JobBatch
from horae.api.values import to_json
from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.jobs.bulk import Reason, Timeout
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.jobs.batch import BatchState
from horae.core.time.spans import span_from

group = typer.Typer(help="See, wait for and cancel batches of jobs.", no_args_is_help=True, rich_markup_mode=None)
BatchId = Annotated[str, typer.Argument(metavar="ID", help="The batch, such as batch_3.")]
SHOWN = 10  # jobs that failed, on the page of a batch


@command(group, "list", by_url=True, examples=("horae batch list --state open",))
def list_(
    terminal: Terminal,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="open, succeeded or failed. Repeat it.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only of this owner.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """Batches, newest first."""
    with reached(terminal) as here:
        page = here.batches.list(state=cast("list[BatchState]", state or []), owner=owner).page(cursor, limit=limit)
        now = here.now()
    terminal.result(to_json(page), batch_table(terminal, page.items, now) if page.items else "No batches.")
    terminal.mention_more(page.next_cursor)


@command(group, "show", by_url=True)
def show(terminal: Terminal, batch_id: BatchId) -> None:
    """One batch: its progress, its callbacks, and jobs that failed."""
    with reached(terminal) as here:
        batch, now = here.batches.get(batch_id), here.now()
        failed = [each.id for each in here.batches.jobs(batch_id, state="failed").page(None, limit=SHOWN).items]
    terminal.result(to_json(batch), batch_page(terminal, batch, failed, now))


@command(group, "wait", by_url=True, examples=("horae batch wait batch_3 --timeout 10m",))
def wait(terminal: Terminal, batch_id: BatchId, timeout: Timeout = "5m") -> None:
    """Wait until all jobs of a batch have ended.

    Exits with 0 when all succeeded, with 1 when one is dead or was cancelled, and with 75 when some are still open.
    """
    with reached(terminal) as here:
        batch = here.batches.wait(batch_id, timeout=span_from(timeout, "timeout"))
    terminal.result(to_json(batch), batch_line(batch))
    if batch.state != "succeeded":
        raise typer.Exit(Exit.FAILURE)


@command(group, "cancel", by_url=True)
def cancel(terminal: Terminal, batch_id: BatchId, reason: Reason = "") -> None:
    """Cancel every job of a batch that has not ended.

    Running jobs are asked to stop. When the last has ended, on_end and on_failure follow.
    """
    with reached(terminal) as here:
        batch = here.batches.cancel(batch_id, reason=reason)
    terminal.result(to_json(batch), batch_line(batch))


def batch_line(batch: JobBatch) -> str:
    """Return a batch in one line: ``batch_3 import is open: 7 of 10 jobs have ended, 1 failed``."""
    return f"{batch.id} {batch.name} is {batch.state}: {_progress(batch)} jobs have ended, {batch.failed:,} failed"


def batch_table(terminal: Terminal, batches: Sequence[JobBatch], now: datetime) -> str:
    headers = ("ID", "STATE", "NAME", "ENDED", "FAILED", "OWNER", "CREATED")
    rows = [
        (
            each.id, each.state, words.first_line(each.name, 40), _progress(each), f"{each.failed:,}", each.owner,
            words.relative(each.created_at, now),
        )
        for each in batches
    ]  # fmt: skip
    return terminal.table(headers, rows)


def batch_page(terminal: Terminal, batch: JobBatch, failed: Sequence[str], now: datetime) -> str:
    more = "" if batch.failed <= len(failed) else " …"
    facts = [
        ("jobs", f"{_progress(batch)} have ended: {batch.succeeded:,} succeeded, {batch.failed:,} failed"),
        ("failed", ", ".join(failed) + more),
        ("created", f"{words.both(batch.created_at, now)} by {batch.actor}"),
        ("ended", words.both(batch.ended_at, now)),
        ("cancelled", batch.cancel_reason),
        ("on end", batch.on_end),
        ("on success", batch.on_success),
        ("on failure", batch.on_failure),
        ("key", batch.key),
        ("owner", batch.owner),
    ]
    lines = [f"{terminal.bold(batch.id)}  {batch.name}  {batch.state}"]
    return "\n".join([*lines, *(f"  {name:<12}{value}" for name, value in facts if value not in ("", None))])


def _progress(batch: JobBatch) -> str:
    return f"{batch.total - batch.open:,} of {batch.total:,}"
