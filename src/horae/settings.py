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
from typing import Any, Literal

from horae.errors import ConfigurationError, InvalidInput

DEFAULT_URL = "sqlite:///.horae/horae.db"
PREFIX = "HORAE_"
# Read elsewhere, or by the tests; listed so that they are not taken for a mistake.
ALSO_KNOWN = (
    "HORAE_FAULT", "HORAE_RATE_LIMIT_", "HORAE_STALE_TIMEOUT_MINUTES", "HORAE_TEST_",
)  # fmt: skip
STALE_NAMES = ("HORAE_STALE_TIMEOUT_MINUTES", "SYNC_TASK_STALE_TIMEOUT_MINUTES")  # ours first, then document 004's
LEVELS = ("debug", "info", "warning", "error")
SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
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


def _yes(text: str) -> bool:
    if text.lower() not in ("0", "1", "true", "false"):
        raise InvalidInput(f"{text!r} is neither 1 nor 0.")
    return text.lower() in ("1", "true")


def _whole(least: int, most: int) -> Any:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
            raise InvalidInput(f"{text!r} is not a whole number from {least} to {most}.")
        return int(text)

    return read


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(",", " ").split() if word)


def _switch(text: str) -> bool:
    if text.lower() not in SWITCH:
        raise InvalidInput(f"{text!r} is neither on nor off; write 1 or 0.")
    return SWITCH[text.lower()]


def is_on(environment: Mapping[str, str], name: str) -> bool:
    """Whether a switch of the environment is on; off unless it is set."""
    return bool(environment.get(name)) and bool(_read(name, _switch, environment[name]))


def _from(env: str, help_text: str, read: Any = str, *, also: str = "", file: bool = False) -> dict[str, Any]:
    """*also*: the name that one of the documents gives it; ours wins. *file*: ``…_FILE`` may name a file instead."""
    told = f"{help_text}; also `{also}`" if also else help_text
    told += f"; `{env}_FILE` names a file that holds it" if file else ""
    return {"env": env, "help": told, "read": read, "also": also, "file": file}


@dataclass(frozen=True)
class Settings:
    """What the command line needs to know. Every field has an environment variable."""

    database_url: str = field(
        default=DEFAULT_URL,
        metadata=_from("HORAE_DATABASE_URL", "the database", file=True),
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
    synchronous: Literal["FULL", "NORMAL"] = field(
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
    otel: bool = field(
        default=False,
        metadata=_from("HORAE_OTEL", "`1` traces enqueues and runs with OpenTelemetry (extra `otel`)", _switch),
    )
    metrics_open: bool = field(
        default=False, metadata=_from("HORAE_METRICS_OPEN", "`1` lets anybody read `/metrics` without a token", _switch)
    )
    actor: str | None = field(
        default=None, metadata=_from("HORAE_ACTOR", "who acts, for the audit; else `cli/` and the login name")
    )
    alert_webhook_url: str | None = field(
        default=None,
        metadata=_from("HORAE_ALERT_WEBHOOK_URL", "where to post when a job dies or nobody serves a queue"),
    )
    alert_stalled_after: timedelta = field(
        default=timedelta(minutes=5),
        metadata=_from(
            "HORAE_ALERT_STALLED_AFTER", "how long due work waits before a queue counts as stalled", span_from
        ),
    )
    url: str | None = field(
        default=None, metadata=_from("HORAE_URL", "the service that commands ask instead of opening a database")
    )
    token: str | None = field(
        default=None, repr=False, metadata=_from("HORAE_TOKEN", "the token that they show it", file=True)
    )
    host: str = field(default="127.0.0.1", metadata=_from("HORAE_HOST", "the address the service listens on"))
    port: int = field(default=8765, metadata=_from("HORAE_PORT", "its port; `0` picks a free one", _whole(0, 65535)))
    public_url: str = field(
        default="",
        metadata=_from("HORAE_PUBLIC_URL", "where the service is reached from outside, where a proxy stands before it"),
    )
    trusted_proxies: tuple[str, ...] = field(
        default=(),
        metadata=_from(
            "HORAE_TRUSTED_PROXIES", "addresses and networks whose `X-Forwarded-For` and `-Proto` are believed", _words
        ),
    )
    max_body_bytes: int = field(
        default=2 * 1024 * 1024,
        metadata=_from("HORAE_MAX_BODY_BYTES", "the longest request body", _whole(1024, 1024**3)),
    )
    calls_per_token: int = field(
        default=300,
        metadata=_from("HORAE_CALLS_PER_TOKEN", "requests a second for each token; `0`: any number", _whole(0, 10**6)),
    )
    calls_per_address: int = field(
        default=600,
        metadata=_from(
            "HORAE_CALLS_PER_ADDRESS", "requests a second from each address; `0`: any number", _whole(0, 10**6)
        ),
    )
    wrong_per_address: int = field(
        default=30,
        metadata=_from(
            "HORAE_WRONG_PER_ADDRESS", "wrong tokens a minute from each address; `0`: any number", _whole(0, 10**6)
        ),
    )
    jwt_secret: str | None = field(
        default=None,
        repr=False,
        metadata=_from("HORAE_JWT_SECRET", "accept JWTs signed with this secret (HS256)", file=True),
    )
    secret_key: str | None = field(
        default=None,
        repr=False,
        metadata=_from(
            "HORAE_SECRET_KEY",
            "what seals tenants' secrets, 32 bytes in base64; `new,old` while it is replaced",
            file=True,
        ),
    )
    jwt_jwks_url: str | None = field(
        default=None,
        metadata=_from("HORAE_JWT_JWKS_URL", "accept JWTs signed by one of the keys there (RS256, ES256, EdDSA)"),
    )
    jwt_issuer: str | None = field(
        default=None, metadata=_from("HORAE_JWT_ISSUER", "the `iss` a JWT must have; required where JWTs are accepted")
    )
    jwt_audience: str | None = field(
        default=None,
        metadata=_from("HORAE_JWT_AUDIENCE", "the `aud` a JWT must have; required where JWTs are accepted"),
    )
    jwt_scopes: tuple[str, ...] = field(
        default=("tasks",),
        metadata=_from("HORAE_JWT_SCOPES", "what JWTs may be allowed at most, `tasks,read`", _words),
    )
    max_enabled_tasks: int = field(
        default=20,
        metadata=_from(
            "HORAE_TASKS_MAX_ENABLED_PER_USER",
            "how many enabled tasks a user may have; `0`: any number",
            _whole(0, 10**6),
            also="SCHEDULED_TASKS_MAX_ENABLED_PER_USER",
        ),
    )
    max_unfinished_jobs: int = field(
        default=100_000,
        metadata=_from(
            "HORAE_JOBS_MAX_UNFINISHED_PER_USER",
            "how many unfinished jobs a user may have put there over HTTP; `0`: any number",
            _whole(0, 10**9),
        ),
    )
    shortest_interval: timedelta = field(
        default=timedelta(seconds=10),
        metadata=_from(
            "HORAE_TASK_INTERVAL_MIN_SECONDS",
            "the shortest interval of a user's task",
            span_from,
            also="SCHEDULED_TASK_INTERVAL_MIN_SECONDS",
        ),
    )
    simulation: bool = field(
        default=False, metadata=_from("HORAE_SIMULATION", "`1`: callers may say what time it is; for tests only", _yes)
    )

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that this environment gives."""
        given = {}
        for each in fields(cls):
            for name in filter(None, (each.metadata["env"], each.metadata["also"])):
                text = _value(environment, name, each.metadata["file"])
                if text:
                    given[each.name] = _read(name, each.metadata["read"], text)
                    break
        return cls(**given)


def database_url(environment: Mapping[str, str]) -> str:
    """Where the jobs are kept when nobody says otherwise."""
    return _value(environment, "HORAE_DATABASE_URL", True) or DEFAULT_URL


def unknown_names(environment: Mapping[str, str]) -> dict[str, str | None]:
    """Names that look like ours and are not, each with the one probably meant."""
    known = [each.metadata["env"] for each in fields(Settings)]
    known += [f"{each.metadata['env']}_FILE" for each in fields(Settings) if each.metadata["file"]]
    strange = [
        name
        for name in environment
        if name.startswith(PREFIX) and name not in known and not name.startswith(ALSO_KNOWN)
    ]
    return {name: next(iter(difflib.get_close_matches(name, known, n=1)), None) for name in sorted(strange)}


def _value(environment: Mapping[str, str], name: str, file: bool) -> str | None:
    """A variable, or, for what should stay secret, the contents of the file that ``…_FILE`` names."""
    path = environment.get(f"{name}_FILE") if file else None
    if environment.get(name) or not path:
        return environment.get(name)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise ConfigurationError(f"{name}_FILE names {path!r}, which cannot be read: {problem.strerror}.") from None


def _read(name: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except InvalidInput as problem:
        raise ConfigurationError(f"{name}: {problem}") from None
