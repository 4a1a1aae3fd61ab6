"""``horae retention``: how long finished runs are kept, by queue and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    from horae.api.admin import Retention

group = typer.Typer(help="See and say how long finished runs are kept.", no_args_is_help=True, rich_markup_mode=None)
Queue = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only runs of this queue.")]
Outcome = Annotated[
    str | None, typer.Option("--outcome", metavar="OUTCOME", help="Only runs that ended so: succeeded, failed, …")
]


@command(group, "show", by_url=True)
def show(terminal: Terminal) -> None:
    """How long runs and fire records are kept, and who said so."""
    with reached(terminal) as here:
        found = here.admin.retention()
    terminal.result(to_json(found), _table(terminal, found))


@command(
    group,
    "set",
    by_url=True,
    examples=(
        "horae retention set 90d",
        "horae retention set 7d --outcome succeeded",
        "horae retention set 365d --queue invoices",
        "horae retention set default --queue invoices",
    ),
)
def set_(
    terminal: Terminal,
    keep: Annotated[str, typer.Argument(metavar="SPAN|default", help="30d, 12h; default forgets the rule.")],
    queue: Queue = None,
    outcome: Outcome = None,
    reason: Reason = "",
) -> None:
    """Keep runs for so long: all, of a queue, of an outcome, or of both.

    The most particular rule decides. It holds for all workers and wins over HORAE_KEEP_RUNS.
    """
    kept = None if keep == "default" else span_from(keep)
    with reached(terminal) as here:
        changed = here.admin.set_retention(kept, queue=queue, outcome=outcome, reason=reason)
    terminal.result(to_json(changed), _table(terminal, changed))


def _table(terminal: Terminal, found: Retention) -> str:
    rows = [
        (each.queue or "any", each.outcome or "any", words.span(each.keep), f"stored by {each.stored_by}")
        for each in found.rules
    ]
    if not any(each.queue is None and each.outcome is None for each in found.rules):
        rows.append(("any", "any", words.span(found.runs), "setting HORAE_KEEP_RUNS or its default"))
    rows.append(("fire records", "", words.span(found.fires), "setting HORAE_KEEP_FIRES or its default"))
    return terminal.table(("QUEUE", "OUTCOME", "KEPT FOR", "ORIGIN"), rows)
