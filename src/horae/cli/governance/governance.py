"""``horae governance``: count what agents remember, report what became of it, and plan it by new policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.jobs.stats import sparkline
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    from horae.api.governance.report import GovernanceReport

group = typer.Typer(
    help="Report on what agents remember, and plan it by new policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@command(group, "replan", by_url=True, examples=("horae governance replan --dry-run",))
def replan(
    terminal: Terminal,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would move.")] = False,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's objects.")] = None,
    reason: Reason = "",
) -> None:
    """Plan objects by the policies that hold now, at once.

    Otherwise each follows a changed policy from its next action on.
    """
    with reached(terminal) as here:
        done = here.policies.replan(dry_run=dry_run, reason=reason, owner=owner)
        now = here.now()
    verb = "would move" if done.dry_run else "moved"
    lines = [f"{words.count(done.looked_at, 'object')} looked at, {done.moved:,} {verb}"]
    for each in done.first[:20]:
        due = "nothing" if each.next_action_at is None else f"{each.next_action} {words.both(each.next_action_at, now)}"
        lines.append(f"  {each.object.kind} {each.object.id}: {due}")
    terminal.result(to_json(done), "\n".join(lines))


@command(
    group,
    "report",
    by_url=True,
    examples=("horae governance report", "horae governance report --last 90d --owner alice --json"),
)
def report(
    terminal: Terminal,
    last: Annotated[str, typer.Option("--last", metavar="SPAN", help="How far to look back: 24h, 7d, 90d …")] = "7d",
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")] = None,
) -> None:
    """Report what became of governed objects, and what is wrong.

    It warns of any dead letter, of more than 20 % of jobs with a failed attempt, of lateness above 300 s (p95), of
    budgets that were exceeded and of rollbacks that are not finished.
    """
    with reached(terminal) as here:
        found = here.governance.report(period=span_from(last), owner=owner)
    terminal.result(to_json(found), _report_text(terminal, found))


def _report_text(terminal: Terminal, found: GovernanceReport) -> str:
    head, *lines = [each.in_words(terminal.language) for each in found.lines]
    parts = [terminal.bold(head), *lines]
    parts += [f"! {each.in_words(terminal.language)}" for each in found.warnings]
    if found.objects:
        rows = [(each.kind, each.state, f"{each.count:,}") for each in found.objects]
        parts += ["", terminal.table(("KIND", "STATE", "OBJECTS"), rows)]
    if found.events:
        spans = found.series
        rows = [(name, f"{count:,}", sparkline([each.events.get(name, 0) for each in spans]))
                for name, count in found.events.items()]  # fmt: skip
        parts += ["", terminal.table(("EVENT", "TIMES", f"BY {found.grain.upper()}"), rows)]
    if found.decisions:
        decided = [(name, f"{count:,}") for name, count in found.decisions.items()]
        parts += ["", terminal.table(("DECIDED", "TIMES"), decided)]
    return "\n".join(parts)


@command(group, "status", by_url=True)
def status(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's objects.")] = None,
) -> None:
    """Count objects by kind and state, and say what is due."""
    with reached(terminal) as here:
        seen = here.objects.overview(owner=owner)
    rows = [
        (it.kind, it.status if it.epistemic_state is None else f"{it.status}/{it.epistemic_state}", f"{it.count:,}")
        for it in seen.counts
    ]
    lines = [terminal.table(("KIND", "STATE", "OBJECTS"), rows) if rows else "No objects."]
    if not seen.complete:
        lines.append(f"counted are the newest {seen.looked_at:,}")
    lines.append(f"{seen.due_in_a_day:,} due within a day, {seen.late:,} late, {seen.open_reviews:,} open reviews")
    terminal.result(to_json(seen), "\n".join(lines))
