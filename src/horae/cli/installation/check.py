"""``horae check module:app``: every problem of what an application declares, for people and for CI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command, opened
from horae.errors import DefinitionError, HoraeError, InvalidInput
from horae.settings import DEFAULT_URL

if TYPE_CHECKING:
    from horae.app import Horae

Target = Annotated[str | None, typer.Argument(metavar="MODULE:APP", help="Where the application is; else $HORAE_APP.")]
Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="Overrides of jobs; else $HORAE_JOBS_CONF or jobs.conf.")
]


def register(app: typer.Typer) -> None:
    command(app, "check", by_url="flag")(check)


def load_application(terminal: Terminal, target: str | None, config: str | None, subcommand: str) -> Horae:
    """Load the application that a command is about, with its configuration file."""
    from horae.cli.process.targets import application

    name = target or terminal.settings.app
    if name is None:
        raise InvalidInput("application_unnamed", command=subcommand)
    app = application(name, terminal.database)
    if config is not None:
        app.config = config
    if terminal.url is not None:
        app.use_service(terminal.url, terminal.token)
    return app


def check(
    terminal: Terminal,
    target: Target = None,
    config: Config = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count like errors.")] = False,
) -> None:
    """List every problem of an application's jobs.

    In code and in jobs.conf. A database that --db or HORAE_DATABASE_URL names is asked for one thing: whether it is in
    a cluster, where jobs with two kinds of key need shard_key=. With --url it also lists what needs a database, which a
    worker of that service does not have; the service is not asked. Exit code 6 when there is an error, 0 when there is
    none.
    """
    from horae.declare.check import about_shard_keys
    from horae.declare.declarations import Problem, collecting

    with collecting() as collected:
        app = load_application(terminal, target, config, "check")
    needs = () if terminal.url is None else app.needs_database()
    findings = list(dict.fromkeys((*collected, *app.problems(), *needs)))
    if about_shard_keys(app, app.jobs_file(), in_cluster=False):  # few applications have any: no database is opened
        in_cluster = _is_in_cluster(terminal)
        if in_cluster is not False:
            findings += about_shard_keys(app, app.jobs_file(), in_cluster=in_cluster is True)
    jobs = list(app.definitions)
    if not jobs and not findings:
        findings.append(Problem.of(target or terminal.settings.app or app.name, DefinitionError("no_jobs_declared")))
    document: dict[str, Any] = {
        "jobs": len(jobs),
        "files": [str(path) for path in app.jobs_file().paths],
        "findings": [
            {"severity": each.severity, "where": each.where, "text": each.text, **each.error.as_json()}
            for each in findings
        ],
    }
    lines = [f"{each.severity}: {each}" for each in findings]
    lines.append(f"{words.count(len(jobs), 'job')}, {words.count(len(findings), 'finding')}")
    terminal.result({"check": document}, "\n".join(lines))
    if any(strict or each.severity == "error" for each in findings):
        raise typer.Exit(Exit.FINDINGS)


def _is_in_cluster(terminal: Terminal) -> bool | None:
    """Return whether the database that was named is in a cluster; None: none was, or it cannot be asked."""
    if terminal.url is not None or terminal.settings.database_url == DEFAULT_URL:
        return None
    try:
        with opened(terminal) as world:
            return world.cluster is not None
    except HoraeError:
        return None
