"""``horae import``: bring schedules from cron and other schedulers; say first what changes in meaning."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from horae.cli.failures import Exit
from horae.cli.imports.entries import Entry
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput, NotFound

group = typer.Typer(help="Bring schedules from cron and other schedulers.", no_args_is_help=True, rich_markup_mode=None)

Apply = Annotated[bool, typer.Option("--apply", help="Store them; without it nothing is written.")]
Zone = Annotated[str | None, typer.Option("--tz", metavar="ZONE", help="The IANA zone where the source names none.")]
Prefix = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Put this before every key.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="Put them into this group.")]
Disabled = Annotated[bool, typer.Option("--disabled", help="Store new ones disabled, until the old scheduler is off.")]
Owner = Annotated[str, typer.Option("--owner", metavar="NAME", help="Whose schedules they become.")]
Source = Annotated[str, typer.Argument(metavar="URL", help="The database to read from, such as sqlite:///site.db.")]
STDIN = "-"


@command(
    group,
    "crontab",
    by_url=True,
    examples=("horae import crontab my.cron --tz Europe/Berlin", "horae import crontab my.cron --apply --disabled"),
)
def crontab(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The crontab; - reads stdin.")],
    handler: Annotated[str, typer.Option("--handler", metavar="NAME", help="The job that runs commands.")] = (
        "run-command"
    ),
    system: Annotated[bool, typer.Option("--system", help="A user stands before each command (/etc/crontab).")] = False,
    zone: Zone = None,
    prefix: Prefix = "",
    group: Group = None,
    disabled: Disabled = False,
    apply: Apply = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Bring the lines of a crontab.

    Each becomes a schedule of one job with the argument `command`. Without --apply it only says what would change.
    """
    from horae.cli.imports.crontab import read_crontab

    found = read_crontab(_text_of(file), zone=zone, handler=handler, has_user=system)
    _bring(terminal, _adjusted(found, prefix, group, disabled), apply, owner, reason)


@command(group, "celery", by_url=True, examples=("horae import celery proj.celery:app",))
def celery(
    terminal: Terminal,
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="module:app, module:dictionary, a file with JSON, or - for stdin."),
    ],
    zone: Zone = None,
    prefix: Prefix = "",
    group: Group = None,
    disabled: Disabled = False,
    apply: Apply = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Bring the beat_schedule of a Celery application.

    Each entry becomes a schedule of the job of the same name as its task. Without --apply it only says what would
    change.
    """
    from horae.cli.imports.celery import read_beat

    if target == STDIN or target.endswith(".json"):
        source = _json_of(target)
    else:
        from horae.cli.process.targets import imported

        source = imported(target)
    _bring(terminal, _adjusted(read_beat(source, zone), prefix, group, disabled), apply, owner, reason)


@command(
    group,
    "django-celery-beat",
    by_url=True,
    examples=("horae import django-celery-beat postgresql://localhost/site",),
)
def django_celery_beat(
    terminal: Terminal,
    source: Source,
    zone: Zone = None,
    prefix: Prefix = "",
    group: Group = None,
    disabled: Disabled = False,
    apply: Apply = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Bring the periodic tasks of django-celery-beat.

    Its tables are read, not changed; neither Django nor Celery is needed. Without --apply it only says what would
    change.
    """
    from horae.cli.imports.django_celery_beat import read_django_celery_beat

    found = read_django_celery_beat(source, zone)
    _bring(terminal, _adjusted(found, prefix, group, disabled), apply, owner, reason)


@command(group, "apscheduler", by_url=True, examples=("horae import apscheduler sqlite:///jobs.sqlite",))
def apscheduler(
    terminal: Terminal,
    source: Source,
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="Its table.")] = "apscheduler_jobs",
    prefix: Prefix = "",
    group: Group = None,
    disabled: Disabled = False,
    apply: Apply = False,
    owner: Owner = "system",
    reason: Reason = "",
) -> None:
    """Bring the jobs of APScheduler 3.

    The table of its SQLAlchemyJobStore is read, not changed; what is pickled there is read as data, and none of it
    is run. Without --apply it only says what would change.
    """
    from horae.cli.imports.apscheduler import read_apscheduler

    found = read_apscheduler(source, table)
    _bring(terminal, _adjusted(found, prefix, group, disabled), apply, owner, reason)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _text_of(file: str) -> str:
    if file == STDIN:
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise NotFound("import_missing", path=file) from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput("import_unreadable", path=file, problem=str(problem)) from problem


def _json_of(file: str) -> Any:
    try:
        return json.loads(_text_of(file))
    except ValueError as problem:
        raise InvalidInput("import_unreadable", path=file, problem=str(problem)) from problem


def _adjusted(entries: Iterable[Entry], prefix: str, group: str | None, disabled: bool) -> list[Entry]:
    more = {} if group is None else {"group": group}
    return [
        replace(
            each,
            key=prefix + each.key,
            timing={**each.timing, **more} if each.timing else {},
            enabled=each.enabled and not disabled,
        )
        for each in entries
    ]


def _bring(terminal: Terminal, entries: list[Entry], apply: bool, owner: str, reason: str) -> None:
    from horae.cli.imports import plans

    if apply:
        with reached(terminal, may_create=True) as here:
            found = plans.apply(here, plans.plan(here, entries, owner), owner, reason)
    else:
        found = _where_stored(terminal, lambda here: plans.plan(here, entries, owner))
    counts = Counter(each.status for each in found)
    numbers = {status: counts[status] for status in ("new", "changed", "unchanged", "refused")}
    shape = {"dry_run": not apply, "counts": numbers, "entries": [each.as_json() for each in found]}
    terminal.result(shape, "\n".join([*_lines(terminal, found), _summary(numbers, apply)]))
    if not apply and (counts["new"] or counts["changed"]):
        raise typer.Exit(Exit.UNCONFIRMED)
    if counts["refused"]:
        raise typer.Exit(Exit.FINDINGS)


def _where_stored(terminal: Terminal, plan: Callable[[Any], Any]) -> Any:
    """Plan against the database; where there is none yet, a dry run does not make one."""
    try:
        with reached(terminal) as here:
            return plan(here)
    except NotFound as problem:
        if problem.reason != "database_missing_here":
            raise
        return plan(None)


def _lines(terminal: Terminal, found: list[Any]) -> list[str]:
    from horae.cli.imports.plans import describe

    lines = []
    for each in found:
        lines.append(f"{terminal.bold(each.entry.key)}  {each.status}  ({each.entry.origin})")
        words = each.words.get(terminal.language)
        lines += [f"  {words}"] if words else []
        lines += [f"  differs: {', '.join(each.differing)}"] if each.differing else []
        if each.entry.refusal is not None:
            lines.append(f"  cannot be brought: {describe(each.entry.refusal, terminal.language)}")
        else:
            lines += [f"  - {describe(note, terminal.language)}" for note in each.entry.notes]
    return lines


def _summary(numbers: dict[str, int], apply: bool) -> str:
    said = ", ".join(f"{count} {status}" for status, count in numbers.items() if count) or "nothing found"
    if apply or not (numbers["new"] or numbers["changed"]):
        return said
    return f"{said}; nothing is stored yet: add --apply"
