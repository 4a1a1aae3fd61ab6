"""``horae errors``: errors by cause; mute them, retry their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.bulk import DryRun, Reason, show_begun, show_preview
from horae.cli.jobs.stats import sparkline
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.error_groups import dead_jobs_of
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.error_groups import ErrorGroup

group = typer.Typer(
    help="See errors by cause; mute them, retry their jobs.", no_args_is_help=True, rich_markup_mode=None
)
Fingerprint = Annotated[str, typer.Argument(metavar="FINGERPRINT", help="As `horae errors list` shows it.")]
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="The tenant; else the house.")]
NONE_YET = "No errors. A failure is listed a minute or two after it happened; `horae job list` shows it at once."


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")] = None,
    handler: Annotated[str | None, typer.Option("--handler", metavar="NAME", help="Only of this handler.")] = None,
    muted: Annotated[bool, typer.Option("--muted", help="Also muted ones.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
) -> None:
    """List groups of errors, those seen last first.

    Failures with the same handler, type, text (without numbers, ids and times) and place are one group. They are
    grouped a minute or two after they happened.
    """
    with reached(terminal) as here:
        only = None if muted else False
        found = tuple(here.error_groups.list(owner=owner, handler=handler, muted=only, limit=limit))
        now = here.now()
    headers = ("FINGERPRINT", "COUNT", "LAST SEEN", "FIRST SEEN", "HANDLER", "ERROR")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else NONE_YET
    terminal.result(as_list(found), text)


def _row(each: ErrorGroup, now: datetime) -> tuple[str, ...]:
    title = words.first_line(each.title) + (" (muted)" if each.muted else "")
    seen = (words.relative(each.last_seen, now), words.relative(each.first_seen, now))
    return (each.fingerprint, str(each.count), *seen, each.handler or "-", title)


@command(group, "show", by_url=True)
def show(terminal: Terminal, fingerprint: Fingerprint, owner: Owner = None) -> None:
    """Show one group: how often, since when, and an example."""
    with reached(terminal) as here:
        found = here.error_groups.get(fingerprint, owner=owner)
        now = here.now()
    lines = [
        f"{found.title}",
        f"handler   {found.handler or '-'}" + (f", in {found.raised_in}" if found.raised_in else ""),
        f"seen      {words.count(found.count, 'time')}; first {words.both(found.first_seen, now)}, "
        f"last {words.both(found.last_seen, now)}",
        f"release   {found.first_release or '-'} to {found.last_release or '-'}",
        f"latest    {found.message}",
        f"example   {found.sample_run}; `horae job show {found.sample_job}`",
    ]
    if found.days:
        lines.append(f"by day    {sparkline(list(found.days.values()))} since {min(found.days)}")
    if found.muted:
        until = "it is unmuted" if found.muted_until is None else words.both(found.muted_until, now)
        lines.append(f"muted     by {found.muted_by} until {until}: {found.mute_reason}")
    terminal.result(to_json(found), "\n".join(lines))


@command(group, "mute", by_url=True)
def mute(
    terminal: Terminal,
    fingerprint: Fingerprint,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")],
    until: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="For 2h, 7d …; else until it is unmuted.")
    ] = None,
    owner: Owner = None,
) -> None:
    """Mute a group; it goes on counting, and stays muted when it grows."""
    span = None if until is None else span_from(until)
    with reached(terminal) as here:
        end = None if span is None else here.now() + span
        changed = here.error_groups.mute(fingerprint, reason=reason, until=end, owner=owner)
    terminal.result(to_json(changed), f"{fingerprint} is muted; `horae errors unmute {fingerprint}` ends that")


@command(group, "unmute", by_url=True)
def unmute(terminal: Terminal, fingerprint: Fingerprint, owner: Owner = None, reason: Reason = "") -> None:
    """Let a group be heard of again."""
    with reached(terminal) as here:
        changed = here.error_groups.unmute(fingerprint, reason=reason, owner=owner)
    terminal.result(to_json(changed), f"{fingerprint} is no longer muted")


@command(group, "retry", by_url=True)
def retry(
    terminal: Terminal, fingerprint: Fingerprint, owner: Owner = None, dry_run: DryRun = False, reason: Reason = ""
) -> None:
    """Revive the dead jobs of a group, for example after a fix.

    Begins a bulk act, as `horae job revive --where 'fingerprint:…'` does. A job that changed meanwhile, or whose unique
    name is taken, is skipped.
    """
    with reached(terminal) as here:
        if dry_run:
            found = here.error_groups.get(fingerprint, owner=owner)
            show_preview(terminal, here, "revive", dead_jobs_of(found.owner, found.handler, found.fingerprint))
            return
        show_begun(terminal, here.error_groups.retry(fingerprint, reason=reason, owner=owner))
