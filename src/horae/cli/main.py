"""The command tree, and what becomes of errors that leave it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from inspect import getdoc
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.models import CommandInfo

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
    "status": "Say whether all is well, what needs you, and what fires next.",
    "top": "Show queues, workers and running jobs until Ctrl-C.",
    "watch": "Print which parts change, until Ctrl-C.",
    "mcp": "Give an agent its tasks, waits and schedules over MCP.",
}
GROUPS = {
    "job": "Enqueue jobs, look at them, act on them.",
    "act": "See and steer bulk acts on jobs.",
    "batch": "See, wait for and cancel batches of jobs.",
    "schedule": "Make, see, explain and steer schedules.",
    "calendar": "Keep calendars of days for schedules.",
    "expectation": "See runs that were expected and are missing.",
    "import": "Bring schedules from cron and other schedulers.",
    "queue": "See, pause, resume, limit and share queues.",
    "workers": "See who works and how full; drain and resume.",
    "errors": "See errors by cause; mute them, retry their jobs.",
    "view": "Keep filters under a name.",
    "limit": "Limit how many jobs run at once.",
    "retention": "See and say how long finished runs are kept.",
    "db": "Migrate, check, copy and move the database.",
    "config": "See which settings are in force.",
    "owner": "See and set what is special about a tenant.",
    "token": "Make, list and revoke tokens of the service.",
    "console": "Open the web console.",
    "attention": "See what an agent attends to, tell it something, answer it.",
    "object": "See, judge and end what agents remember, and erase it.",
    "policy": "See and set how objects age and are verified.",
    "governance": "Report on what agents remember, and plan it by new policies.",
    "decide": "Decide what an agent may do, and see what was decided.",
    "persona": "Say what an agent must not do, and see who said it.",
    "budget": "Set what jobs may spend, and see what they do.",
    "review": "See what a person is asked about an agent, and answer.",
    "audit": "List, verify and export what was written down.",
    "bus": "Publish what happens to a message bus.",
    "cluster": "Spread rows over several databases.",
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
    "status": "jobs.status",
    "top": "jobs.top",
    "watch": "process.watch",
    "mcp": "process.mcp",
    "job": "jobs.job",
    "act": "jobs.act",
    "batch": "jobs.batch",
    "schedule": "schedules.schedule",
    "calendar": "schedules.calendar",
    "expectation": "schedules.expectation",
    "import": "imports.command",
    "queue": "jobs.queue",
    "workers": "jobs.workers",
    "errors": "jobs.errors",
    "view": "jobs.view",
    "limit": "jobs.limit",
    "retention": "jobs.retention",
    "db": "installation.db",
    "bus": "installation.bus",
    "cluster": "installation.cluster",
    "config": "installation.config",
    "owner": "access.owner",
    "token": "access.token",
    "console": "access.console",
    "attention": "attention.attention",
    "object": "governance.object",
    "policy": "governance.policy",
    "governance": "governance.governance",
    "decide": "governance.decide",
    "persona": "governance.persona",
    "budget": "governance.budget",
    "review": "governance.review",
    "audit": "access.audit",
    "demo": "demo.command",
}
# Groups whose commands also take --url.
BY_URL = (
    "act",
    "batch",
    "attention",
    "budget",
    "calendar",
    "console",
    "decide",
    "errors",
    "expectation",
    "governance",
    "import",
    "job",
    "limit",
    "object",
    "owner",
    "persona",
    "policy",
    "queue",
    "retention",
    "review",
    "schedule",
    "stats",
    "status",
    "token",
    "top",
    "view",
    "watch",
    "workers",
)


def command_tree(typed: str | None = None, below: str | None = None) -> typer.Typer:
    """Build the tree of commands: whole, or only the command that was *typed*; in a group only that one *below*.

    Where no command of that name exists, each is one line, for the help and for the advice of what was meant.
    """
    app = typer.Typer(
        name="horae",
        help="Horae keeps what is due: durable jobs on SQLite, PostgreSQL or MariaDB.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        epilog=(
            "Every command takes --db, --json, --lang, --quiet and --no-color; "
            f"{', '.join(BY_URL[:-1])} and {BY_URL[-1]} also take --url. "
            "Exit codes: docs/reference/command-line.md."
        ),
        **PLAIN,
    )
    app.callback()(horae)
    known = COMMANDS | GROUPS
    for name, text in known.items() if typed not in known else [(typed, "")]:
        if typed not in (None, name):
            app.command(name, help=text)(_unloaded)
        elif name in GROUPS:
            app.add_typer(_only(import_module(f"horae.cli.{MODULES[name]}").group, below), name=name)
        else:
            import_module(f"horae.cli.{MODULES[name]}").register(app)
    _read_parameters(app.registered_commands)
    return app


def _only(group: typer.Typer, typed: str | None) -> typer.Typer:
    """Return a copy of a group that has the command that was *typed*; one line for each where there is none."""
    group, known = copy(group), group.registered_commands
    found = known if typed is None else [each for each in known if each.name == typed]
    _read_parameters(found)
    group.registered_commands = found or [_without_parameters(each) for each in known]
    return group


def _without_parameters(command: CommandInfo) -> CommandInfo:
    command = copy(command)
    command.help = command.help or getdoc(command.callback)
    command.callback = _unloaded
    return command


def _read_parameters(commands: Sequence[CommandInfo]) -> None:
    """Let commands read their parameters; Typer would read them of every command, and only one was typed."""
    if all(each.callback is _unloaded for each in commands):
        return
    from horae.cli.terminal import PARAMETERS

    for each in commands:
        if each.callback in PARAMETERS:
            PARAMETERS[each.callback]()


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


def _typed(arguments: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the command that was typed, and where it is a group, which of it: the first two words; "" is none.

    An option before the command may be --help, which is about all of them; no option of the root takes a value. A shell
    that asks for completions puts the words elsewhere and may ask for any command.
    """
    if "_HORAE_COMPLETE" in os.environ:
        return None, None
    words = [each for each in arguments if each != "--json"]  # may stand anywhere
    first, second, *_ = [*words, "", ""]
    return ("", "") if first.startswith("-") else (first, "" if second.startswith("-") else second)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error of Horae's own shows no traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        ended = command_tree(*_typed(given))(given, prog_name="horae", standalone_mode=False)
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
