"""``horae job rerun``: a new job like one that has ended, with other arguments where they were wrong."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from horae.api.values import to_json
from horae.cli.arguments import arguments_from
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput


def register(group: typer.Typer) -> None:
    """Add the command to ``horae job``."""
    examples = ("horae job rerun job_12", "horae job rerun job_12 --arg amount=12 --reason 'it was a word'")
    command(group, "rerun", by_url=True, examples=examples)(rerun)


def rerun(
    terminal: Terminal,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job, such as job_12.")],
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="K=V", help="Change one argument; V is JSON, or else text. Repeat it."),
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="All arguments as one JSON object, instead of the old.")
    ] = None,
    reason: Reason = "",
) -> None:
    """Run a job that has ended once more, as a new job.

    It is due now and names the old one. Without --arg and --args its arguments are the same; sensitive values stay as
    they are unless they are given. A dead job that needs no change can be revived instead: `horae job revive`.
    """
    with reached(terminal) as here:
        payload = None
        if arg or args is not None:
            payload = changed(
                here.jobs.get(job_id).payload if args is None else {}, arguments_from(arg or [], args, None)
            )
        made = here.jobs.rerun(job_id, payload=payload, reason=reason)
    terminal.result(to_json(made), f"{made.id} runs like {job_id}")


def changed(payload: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with those given in place of the old ones; refuse where the old ones have no names."""
    if not isinstance(payload, dict | None):
        raise InvalidInput("rerun_arguments_unnamed")
    return {**(payload or {}), **given}
