"""``horae doctor``: what is wrong with this installation, and the command that mends it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.installation.check import Target
from horae.cli.terminal import Terminal, command, redact_url, sqlite_file

if TYPE_CHECKING:
    from horae.doctor.findings import Finding

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}
Bundle = Annotated[
    Path | None,
    typer.Option("--support-bundle", metavar="FILE", help="Also write what a helper needs as a zip, without secrets."),
]


def register(app: typer.Typer) -> None:
    command(app, "doctor", by_url="flag")(doctor)


def doctor(terminal: Terminal, target: Target = None, support_bundle: Bundle = None) -> None:
    """Check everything, and say how to mend what is not well.

    Changes nothing. Exit code 6 when there is a problem; warnings alone are no failure. With --url a running server
    examines its own installation.
    """
    settings = terminal.settings
    found = _examine_remote(terminal) if terminal.url is not None else _examine_here(terminal, target)
    if support_bundle is not None:
        from horae.doctor.bundle import write_bundle

        names = write_bundle(support_bundle, settings, os.environ, found)
        terminal.say(f"{support_bundle}: {', '.join(names)}; look through it before you send it")
    levels = Counter(finding.level for finding in found)
    document = {
        "healthy": not levels["problem"],
        "database": redact_url(settings.database_url) if terminal.url is None else terminal.url,
        "checks": [finding.as_json() for finding in found],
    }
    lines = [line for finding in found for line in _lines(terminal, finding)]
    lines.append(
        f"{words.count(len(found), 'check')}: {levels['ok']} ok, {words.count(levels['warning'], 'warning')}, "
        f"{words.count(levels['problem'], 'problem')}"
    )
    terminal.result({"doctor": document}, "\n".join(lines))
    if levels["problem"]:
        raise typer.Exit(Exit.FINDINGS)


def _examine_here(terminal: Terminal, target: str | None) -> list[Finding]:
    from horae.doctor.examination import examine

    settings = terminal.settings
    findings = [
        *_check_application(terminal, target),
        *examine(settings, os.environ, sqlite_file(settings.database_url)),
    ]
    return [replace(finding, mend=_typed(terminal, target, finding.mend)) for finding in findings]


def _examine_remote(terminal: Terminal) -> list[Finding]:
    from horae.cli.verbs import reached
    from horae.core.jobs.reasons import Reason
    from horae.doctor.findings import Finding

    with reached(terminal) as here:
        seen = here.admin.doctor()
    if not seen.complete:
        terminal.say("The time was up before the last check; the findings are not complete.")
    return [
        Finding(each.check, each.level, Reason(each.check, each.reason or each.text, each.facts), each.mend)
        for each in seen.findings
    ]


def _check_application(terminal: Terminal, target: str | None) -> list[Finding]:
    """Return the findings of ``horae check`` about the application."""
    from horae.cli.process.targets import application
    from horae.core.jobs.reasons import Reason
    from horae.doctor.engine import limits
    from horae.doctor.findings import Finding, Level, ok
    from horae.errors import HoraeError

    def found_by_check(level: Level, text: object) -> Finding:
        return Finding("application", level, Reason("application", str(text)), f"horae check {name}")

    name = target or terminal.settings.app
    if name is None:
        return []
    try:
        app = application(name, terminal.database)
        found = app.problems()
    except HoraeError as trouble:
        return [found_by_check("problem", trouble)]
    errors = [each for each in found if each.severity == "error"]
    own = [] if isinstance(app.database, str) else list(limits(app.database, name))
    if errors:
        return [*own, *(found_by_check("problem", each) for each in errors)]
    if found:
        return [*own, *(found_by_check("warning", each) for each in found)]
    return [*own, ok("application", "application_declares", app=name, count=len(list(app.definitions)))]


def _lines(terminal: Terminal, finding: Finding) -> list[str]:
    level = f"{finding.level:<8}"
    coloured = level if terminal.is_plain else typer.style(level, fg=COLOURS[finding.level])
    lines = [f"{coloured} {finding.check:<12} {' '.join(finding.why.in_words(terminal.language).split())}"]
    return lines if finding.mend is None else [*lines, f"{'':<22}→ {finding.mend}"]


def _typed(terminal: Terminal, target: str | None, mend: str | None) -> str | None:
    """Return the command as it must be typed for this application and this database."""
    if mend is None:
        return None
    typed = mend.replace("MODULE:APP", target or terminal.settings.app or "MODULE:APP")
    database = terminal.database
    is_ours = typed.startswith("horae ") and "--db" not in typed
    return f"{typed} --db {redact_url(database)}" if is_ours and database is not None else typed
