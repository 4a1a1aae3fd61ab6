"""``horae config show``: the settings in force, and where each comes from."""

from __future__ import annotations

import os
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.cli.installation.check import Config, Target, load_application
from horae.cli.terminal import Terminal, command, redact_url
from horae.errors import StoreError
from horae.settings import Settings, is_secret, origin_of

if TYPE_CHECKING:
    from horae.app import Horae
    from horae.core.schedules.schedule import Schedule

group = typer.Typer(help="See which settings are in force.", no_args_is_help=True, rich_markup_mode=None)
JOB_VALUES = ("enabled", "schedule", "zone", "mode", "lock_ttl", "misfire", "overlap", "queue")


@command(group, "show", by_url="flag")
def show(
    terminal: Terminal,
    target: Target = None,
    config: Config = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
) -> None:
    """Print the settings, and what holds for each job.

    The jobs are those of the application, where one is named. A job's value comes from the API (api) over jobs.conf
    (file) over the declaration (code) over the default. Passwords are not shown. With --url those of a running server.
    """
    settings = _settings(terminal) if terminal.url is None else _settings_of_server(terminal)
    lines = _lines(settings, origin)
    document: dict[str, Any] = {"settings": _as_json(settings, origin)}
    if terminal.url is None and (target or terminal.settings.app):
        app = load_application(terminal, target, config, "config show")
        jobs, note = _jobs(app)
        document["jobs"] = {key: _as_json(values, origin) for key, values in jobs.items()}
        document["files"] = [str(path) for path in app.jobs_file().paths]
        document["note"] = note
        for key, values in jobs.items():
            lines += ["", terminal.bold(key), *_lines(values, origin)]
        if note:
            terminal.say(f"warning: {note}")
    terminal.result({"config": document}, "\n".join(lines))


def _settings(terminal: Terminal) -> dict[str, tuple[Any, str]]:
    values = {}
    for each in fields(Settings):
        from_option = each.name == "database_url" and terminal.database is not None
        where = "option --db" if from_option else origin_of(each, os.environ)
        values[each.name] = (_printable(each.name, getattr(terminal.settings, each.name)), where)
    return values


def _settings_of_server(terminal: Terminal) -> dict[str, tuple[Any, str]]:
    from horae.cli.verbs import reached

    with reached(terminal) as here:
        return {each.name: (each.value, each.origin) for each in here.admin.settings()}


def _jobs(app: Horae) -> tuple[dict[str, dict[str, tuple[Any, str]]], str | None]:
    """Return each job's values as stored, or as planned where the store does not answer or has none yet."""
    from horae.actions.schedules import declared
    from horae.cli.terminal import refuse_missing_file
    from horae.errors import NotFound

    planned = {schedule.key: schedule for schedule in app.plan().schedules}
    note, stored = None, dict[str, "Schedule"]()
    try:
        if isinstance(app.database, str):
            refuse_missing_file(app.database)
        with app:
            stored = declared.find_stored(app.world, list(planned))
    except (StoreError, NotFound) as problem:
        note = f"changes through the API are not shown: {problem}"
    return {key: _values(_with_overrides(schedule, stored.get(key))) for key, schedule in planned.items()}, note


def _with_overrides(planned: Schedule, stored: Schedule | None) -> Schedule:
    """Return what would hold after the next reload: the plan, and over it what was changed through the API."""
    from dataclasses import replace

    from horae.actions.schedules.entries import CHANGEABLE

    if stored is None:
        return planned
    kept = [field for field, source in stored.sources.items() if source == "api" and field in CHANGEABLE]
    values = {field: getattr(stored, field) for field in kept}
    return replace(planned, **values, sources={**planned.sources, **dict.fromkeys(kept, "api")})


def _values(schedule: Schedule) -> dict[str, tuple[Any, str]]:
    values: dict[str, tuple[Any, str]] = {}
    for name in JOB_VALUES:
        field = "expression" if name == "schedule" else name
        value: Any = f"{schedule.kind} {schedule.expression}".strip() if name == "schedule" else getattr(schedule, name)
        values[name] = (_printable(name, value), schedule.sources.get(field, "default"))
    if schedule.kind == "every":
        for name in ("anchor", "initial_delay"):
            values[name] = (_printable(name, getattr(schedule, name)), schedule.sources.get(name, "default"))
    return values


def _printable(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if name == "database_url":
        return redact_url(str(value))
    if isinstance(value, str) and is_secret(name):
        return "***"
    if isinstance(value, tuple):
        return ", ".join(value)
    return dict(value) if isinstance(value, dict) else value


def _lines(values: dict[str, tuple[Any, str]], origin: bool) -> list[str]:
    """Return one line for each value, in columns."""
    names = max(map(len, values))
    rows = [(name, _in_words(value), where) for name, (value, where) in values.items()]
    return [
        f"{name:<{names}}  {text:<28}  {where}" if origin else f"{name:<{names}}  {text}" for name, text, where in rows
    ]


def _in_words(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_json(values: dict[str, tuple[Any, str]], origin: bool) -> dict[str, Any]:
    return {name: {"value": value, "origin": where} if origin else value for name, (value, where) in values.items()}
