"""One verb done to one job at once, or to many as a bulk act; and the options about which and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.jobs.tables import act_line, job_table
from horae.cli.terminal import Terminal
from horae.cli.verbs import reached
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.acts import Act, Verb
    from horae.api.jobs.room import Job
    from horae.cli.verbs import Verbs

Until = Annotated[
    str | None, typer.Option("--until", metavar="INSTANT", help="The pause ends then: 2030-01-07T06:00:00Z.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")]
Where = Annotated[
    str | None,
    typer.Option("--where", metavar="FILTER", help="All that fit a filter in words: 'queue:mail error:Timeout'."),
]
Timeout = Annotated[str, typer.Option("--timeout", metavar="SPAN", help="Wait at most 90s, 5m, 2h …; 0s looks once.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count and show the first few; change nothing.")]
FLAG = "--where"


def act_on(
    terminal: Terminal,
    verb: Verb,
    one: Callable[[Verbs, str], Job],
    job_ids: list[str] | None,
    where: str | None,
    dry_run: bool,
    reason: str,
    **times: Any,
) -> None:
    """Act on one job at once; on several, or on all that fit, begin a bulk act."""
    if job_ids and where is not None:
        raise InvalidInput("jobs_named_twice", flag=FLAG)
    if not job_ids and where is None:
        raise InvalidInput("jobs_unnamed", flag=FLAG)
    with reached(terminal) as here:
        if job_ids and len(job_ids) == 1 and not dry_run:
            job = one(here, job_ids[0])
            terminal.result(to_json(job), f"{job.id}: {job.state}")
            return
        which = where if where is not None else f"id:{','.join(job_ids or [])}"
        if dry_run:
            show_preview(terminal, here, verb, which)
            return
        show_begun(terminal, here.acts.start(verb, which, reason=reason, **times))


def show_begun(terminal: Terminal, begun: Act) -> None:
    """Show an act that has just begun, and how to wait for it."""
    terminal.result(to_json(begun), f"{act_line(begun)}\n`horae act wait {begun.id}` waits for its end")


def show_preview(terminal: Terminal, here: Verbs, verb: Verb, where: str) -> None:
    """Show what an act would reach now."""
    found = here.acts.preview(verb, where)
    number = f"{found.matched:,} jobs or more" if found.more else words.count(found.matched, "job")
    lines = [f"would {verb} {number}; nothing was changed"]
    if found.first:
        lines.append(job_table(terminal, found.first, here.now()))
    terminal.result({"dry_run": True, "verb": verb, **to_json(found)}, "\n".join(lines))
