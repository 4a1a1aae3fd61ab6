"""The command tree, and the one place where errors leave it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from horae.cli import (
    attention,
    audit,
    check,
    config,
    db,
    demo,
    doctor,
    job,
    limit,
    mcp,
    queue,
    reload,
    schedule,
    server,
    token,
    up,
    worker,
)
from horae.cli.failures import Exit, as_json, exit_code, pointed
from horae.cli.terminal import dumped
from horae.errors import HoraeError
from horae.version import VERSION

PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 110},
}

app = typer.Typer(
    name="horae",
    help="Horae keeps what is due: durable jobs on SQLite, PostgreSQL or MariaDB.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=(
        "Every command takes --db, --json, --quiet and --no-color; attention, job, limit, queue, schedule and token "
        "also take --url. "
        "Exit codes: docs/reference/command-line.md."
    ),
    **PLAIN,
)
app.add_typer(job.group, name="job")
app.add_typer(schedule.group, name="schedule")
app.add_typer(queue.group, name="queue")
app.add_typer(limit.group, name="limit")
app.add_typer(db.group, name="db")
app.add_typer(config.group, name="config")
app.add_typer(token.group, name="token")
app.add_typer(attention.group, name="attention")
app.add_typer(audit.group, name="audit")
app.add_typer(demo.group, name="demo")
worker.register(app)
server.register(app)
check.register(app)
doctor.register(app)
reload.register(app)
up.register(app)
mcp.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(dumped({"version": VERSION}) if wants_json(sys.argv[1:]) else f"horae {VERSION}")
        raise typer.Exit


@app.callback()
def horae(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Horae keeps what is due: durable jobs on SQLite, PostgreSQL or MariaDB."""


def wants_json(arguments: Sequence[str]) -> bool:
    """Known before anything is parsed, so that a usage error can be JSON too."""
    own = list(arguments)
    return "--json" in (own[: own.index("--")] if "--" in own else own)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is its exit code. No traceback for anything Horae says on purpose."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = app(given, prog_name="horae", standalone_mode=False)
        return ended if isinstance(ended, int) else Exit.OK
    except HoraeError as problem:
        return failed(given, as_json(problem), exit_code(problem))
    except typer.TyperException as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":  # its message is the help itself
            print(problem.format_message(), file=sys.stderr)
            return Exit.USAGE
        return failed(given, {"code": "usage", "message": usage(problem)}, Exit(problem.exit_code))
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except SystemExit as ended:  # Typer ends so where a pipe is closed: whoever read our result has seen enough
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def usage(problem: typer.TyperException) -> str:
    """What was not understood, and where to read what would be."""
    ctx = getattr(problem, "ctx", None)
    hint = f" Try: {ctx.command_path} --help" if ctx is not None else ""
    return f"{problem.format_message()}{hint}"


def failed(arguments: Sequence[str], error: dict[str, Any], code: Exit) -> int:
    if wants_json(arguments):
        print(dumped({"error": error}))
    print("error:", " ".join(error["message"].split()), file=sys.stderr)
    if where := pointed(error):
        print(where, file=sys.stderr)
    return code
