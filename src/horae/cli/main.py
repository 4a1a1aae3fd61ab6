"""The command tree, and what becomes of errors that leave it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer

from horae.cli.failures import Exit, as_json, exit_code, message, point_at
from horae.errors import HoraeError
from horae.version import VERSION
from horae.words.languages import Language, from_environment

PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 110},
}

# The module of a command is imported when the command is typed; the rest of the tree is known by these lines alone.
# A test compares them with what each module says of itself.
COMMANDS = {
    "worker": "Run an application's jobs until Ctrl-C.",
    "server": "Serve the HTTP API until Ctrl-C.",
    "check": "List every problem of an application's jobs.",
    "doctor": "Check everything, and say how to mend what is not well.",
    "reload": "Bring the store in line with the code and jobs.conf, now.",
    "up": "See Horae at work: service, worker and example jobs.",
    "stats": "See what ended, how long it took and how late it began.",
    "mcp": "Give an agent its tasks, waits and schedules over MCP.",
}
GROUPS = {
    "job": "Enqueue jobs, look at them, act on them.",
    "act": "See and steer bulk acts on jobs.",
    "schedule": "Make, see, explain and steer schedules.",
    "queue": "See, pause, resume and limit queues.",
    "errors": "See errors by cause; mute them, retry their jobs.",
    "limit": "Limit how many jobs run at once.",
    "retention": "See and say how long finished runs are kept.",
    "db": "Migrate, check, copy and move the database.",
    "config": "See which settings are in force.",
    "token": "Make, list and revoke tokens of the service.",
    "attention": "See what an agent attends to, tell it something, answer it.",
    "audit": "Verify and export what was written down.",
    "demo": "See Horae at work: stories that need nothing set up.",
}

MODULES = {
    "worker": "process.worker",
    "server": "process.server",
    "check": "installation.check",
    "doctor": "installation.doctor",
    "reload": "process.reload",
    "up": "process.up",
    "stats": "jobs.stats",
    "mcp": "process.mcp",
    "job": "jobs.job",
    "act": "jobs.act",
    "schedule": "schedules.schedule",
    "queue": "jobs.queue",
    "errors": "jobs.errors",
    "limit": "jobs.limit",
    "retention": "jobs.retention",
    "db": "installation.db",
    "config": "installation.config",
    "token": "access.token",
    "attention": "attention.attention",
    "audit": "access.audit",
    "demo": "demo.command",
}


def command_tree(typed: str | None = None) -> typer.Typer:
    """Build the tree of commands: whole, or only the command that was *typed* and one line for each other."""
    app = typer.Typer(
        name="horae",
        help="Horae keeps what is due: durable jobs on SQLite, PostgreSQL or MariaDB.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        epilog=(
            "Every command takes --db, --json, --lang, --quiet and --no-color; act, attention, errors, job, limit, "
            "queue, retention, schedule, stats and token also take --url. "
            "Exit codes: docs/reference/command-line.md."
        ),
        **PLAIN,
    )
    app.callback()(horae)
    for name, text in (COMMANDS | GROUPS).items():
        if typed not in (None, name):
            app.command(name, help=text)(_unloaded)
        elif name in GROUPS:
            app.add_typer(import_module(f"horae.cli.{MODULES[name]}").group, name=name)
        else:
            import_module(f"horae.cli.{MODULES[name]}").register(app)
    return app


def _unloaded() -> None:
    raise AssertionError("only the command that was typed is called")


def _version(wanted: bool) -> None:
    if wanted:
        from horae.cli.terminal import dump_json

        print(dump_json({"version": VERSION}) if wants_json(sys.argv[1:]) else f"horae {VERSION}")
        raise typer.Exit


def horae(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Horae keeps what is due: durable jobs on SQLite, PostgreSQL or MariaDB."""


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell before anything is parsed, so that a usage error can be JSON too."""
    own = list(arguments)
    return "--json" in (own[: own.index("--")] if "--" in own else own)


def _typed(arguments: Sequence[str]) -> str | None:
    """Return the command that was typed: the first word, as no option of the root takes a value; "" is none.

    A shell that asks for completions puts the words elsewhere and may ask for any command.
    """
    if "_HORAE_COMPLETE" in os.environ:
        return None
    return next((each for each in arguments if not each.startswith("-")), "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error of Horae's own shows no traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = command_tree(_typed(given))(given, prog_name="horae", standalone_mode=False)
        return ended if isinstance(ended, int) else Exit.OK
    except HoraeError as problem:
        said = message(problem, typed_language(given, os.environ))
        return print_error(given, as_json(problem), exit_code(problem), said)
    except typer.TyperException as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":  # its message is the help itself
            print(problem.format_message(), file=sys.stderr)
            return Exit.USAGE
        return print_error(given, {"code": "usage", "message": usage(problem)}, Exit(problem.exit_code))
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except SystemExit as ended:  # Typer ends so where a pipe is closed: the reader of our result has seen enough
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def usage(problem: typer.TyperException) -> str:
    """Return what was not understood, and the command that shows what would be."""
    ctx = getattr(problem, "ctx", None)
    hint = f" Try: {ctx.command_path} --help" if ctx is not None else ""
    return f"{problem.format_message()}{hint}"


def typed_language(arguments: Sequence[str], environment: Mapping[str, str]) -> Language:
    """Return the language of the terminal; found without parsing, because what is wrong may be the options."""
    own = list(arguments)
    own = own[: own.index("--")] if "--" in own else own
    values = [after for option, after in pairwise([*own, ""]) if option == "--lang"]
    values += [each.removeprefix("--lang=") for each in own if each.startswith("--lang=")]
    if values:
        return "zh" if values[-1] == "zh" else "en"
    return from_environment(environment)


def print_error(arguments: Sequence[str], error: dict[str, Any], code: Exit, said: str = "") -> int:
    """Print an error: as JSON always in English, for a person in their language where it is known."""
    if wants_json(arguments):
        from horae.cli.terminal import dump_json

        print(dump_json({"error": error}))
    print("error:", " ".join((said or error["message"]).split()), file=sys.stderr)
    if where := point_at(error):
        print(where, file=sys.stderr)
    return code
