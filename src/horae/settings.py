"""What the outside may set: one frozen value, read once when a command starts.

A plain dataclass and not pydantic-settings: reading a handful of words from the environment is a page of code, and
importing pydantic alone takes longer than ``horae --help`` may. Flags win over the environment, the environment over
the defaults. A misspelled ``HORAE_…`` name is reported, because the default that would apply instead is another
database.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from horae.errors import ConfigurationError, InvalidInput

DEFAULT_URL = "sqlite:///.horae/horae.db"
PREFIX = "HORAE_"
# Read elsewhere, or by the tests; listed so that they are not taken for a mistake.
ALSO_KNOWN = (
    "HORAE_DATABASE_URL_FILE", "HORAE_FAULT", "HORAE_RATE_LIMIT_", "HORAE_STALE_TIMEOUT_MINUTES", "HORAE_TEST_",
)  # fmt: skip
STALE_NAMES = ("HORAE_STALE_TIMEOUT_MINUTES", "SYNC_TASK_STALE_TIMEOUT_MINUTES")  # ours first, then document 004's
LEVELS = ("debug", "info", "warning", "error")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def span_from(text: str, what: str = "duration") -> timedelta:
    """``90``, ``90s``, ``1.5m``, ``2h``, ``1d`` or ``250ms`` as a span; a bare number is seconds."""
    unit = next((unit for unit in _UNITS if text.endswith(unit) and text[: -len(unit)][-1:].isdigit()), "")
    digits = text.removesuffix(unit)
    try:
        seconds = float(digits) * _UNITS[unit or "s"]
        if not 0 <= seconds < 10**10:
            raise ValueError(seconds)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a {what}; write for example 250ms, 90s, 5m, 2h or 1d.") from None
    return timedelta(seconds=seconds)


def stale_timeout(environment: Mapping[str, str]) -> timedelta:
    """How long a running job may show no progress, as document 004 sets it: ten minutes unless told otherwise."""
    for name in STALE_NAMES:
        if name in environment:
            try:
                minutes = float(environment[name])
            except ValueError:
                minutes = 0.0
            if not 0 < minutes < 10**6:
                raise ConfigurationError(f"{name}={environment[name]!r} is not a number of minutes above zero.")
            return timedelta(minutes=minutes)
    return timedelta(minutes=10)


def queues_from(text: str) -> dict[str, int]:
    """``mail=10,reports`` as the queues to serve and the slots of each; the default where none are given."""
    from horae.core.jobs import SLOTS  # when asked for: --help must not wait for it

    told: dict[str, int] = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, slots = part.partition("=")
        if not name or (equals and not (slots.isascii() and slots.isdigit() and 1 <= int(slots) <= 10_000)):
            raise InvalidInput(f"{part!r} does not name a queue and its slots; write for example mail=10,reports=2.")
        told[name] = int(slots) if equals else SLOTS
    return told


def _one_of(*words: str) -> Any:
    def read(text: str) -> str:
        if text not in words:
            raise InvalidInput(f"{text!r} is not one of {', '.join(words)}.")
        return text

    return read


def _from(env: str, help_text: str, read: Any = str) -> dict[str, Any]:
    return {"env": env, "help": help_text, "read": read}


@dataclass(frozen=True)
class Settings:
    """What the command line needs to know. Every field has an environment variable."""

    database_url: str = field(
        default=DEFAULT_URL,
        metadata=_from("HORAE_DATABASE_URL", "the database; `HORAE_DATABASE_URL_FILE` names a file that holds it"),
    )
    app: str | None = field(
        default=None, metadata=_from("HORAE_APP", "the application, `module:app`, where a command can use one")
    )
    queues: Mapping[str, int] | None = field(
        default=None,
        metadata=_from(
            "HORAE_QUEUES", "what a worker serves, `mail=10,reports=2`; else all its app names", queues_from
        ),
    )
    lease: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_from("HORAE_LEASE", "how long a worker holds a job before it must renew", span_from),
    )
    grace: timedelta = field(
        default=timedelta(seconds=30),
        metadata=_from("HORAE_GRACE", "how long a stopping worker waits for what it runs", span_from),
    )
    synchronous: str = field(
        default="FULL",
        metadata=_from(
            "HORAE_SYNCHRONOUS", "SQLite: `FULL` survives power loss, `NORMAL` is faster", _one_of("FULL", "NORMAL")
        ),
    )
    log_format: str = field(
        default="text",
        metadata=_from("HORAE_LOG_FORMAT", "`text` for people, `json` for machines", _one_of("text", "json")),
    )
    log_level: str = field(
        default="info",
        metadata=_from("HORAE_LOG_LEVEL", f"one of {', '.join(LEVELS)}", _one_of(*LEVELS)),
    )
    jobs_conf: str | None = field(
        default=None,
        metadata=_from("HORAE_JOBS_CONF", "the file that overrides declared jobs; else `jobs.conf` beside the app"),
    )
    environment: str | None = field(
        default=None,
        metadata=_from("HORAE_ENVIRONMENT", "for example `prod`: then `jobs.prod.conf` wins over `jobs.conf`"),
    )
    actor: str | None = field(
        default=None, metadata=_from("HORAE_ACTOR", "who acts, for the audit; else `cli/` and the login name")
    )

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that this environment gives."""
        given = {}
        for each in fields(cls):
            text = _value(environment, each.metadata["env"])
            if text:
                given[each.name] = _read(each.metadata["env"], each.metadata["read"], text)
        return cls(**given)


def database_url(environment: Mapping[str, str]) -> str:
    """Where the jobs are kept when nobody says otherwise."""
    return _value(environment, "HORAE_DATABASE_URL") or DEFAULT_URL


def unknown_names(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Names that look like ours and are not, each with the one probably meant."""
    known = [each.metadata["env"] for each in fields(Settings)]
    strange = [
        name
        for name in environment
        if name.startswith(PREFIX) and name not in known and not name.startswith(ALSO_KNOWN)
    ]
    return {name: next(iter(difflib.get_close_matches(name, known, n=1)), None) for name in sorted(strange)}


def _value(environment: Mapping[str, str], name: str) -> str | None:
    """A variable, or for the database the contents of the file that ``…_FILE`` names, so that it can stay secret."""
    file = environment.get(f"{name}_FILE") if name == "HORAE_DATABASE_URL" else None
    if environment.get(name) or not file:
        return environment.get(name)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise ConfigurationError(f"{name}_FILE names {file!r}, which cannot be read: {problem.strerror}.") from None


def _read(name: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except InvalidInput as problem:
        raise ConfigurationError(f"{name}: {problem}") from None
