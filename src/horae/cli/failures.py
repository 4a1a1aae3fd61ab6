"""Errors as exit codes, as JSON, and as the one line that a person reads."""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from horae.errors import (
    ConfigurationError,
    Conflict,
    DefinitionError,
    Forbidden,
    HoraeError,
    InvalidCron,
    InvalidFilter,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    NotFound,
    SchemaMissing,
    SchemaTooNew,
    ServiceUnavailable,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TooManyRequests,
    Unauthorized,
    WaitTimeout,
)
from horae.words.languages import Language


class Exit(enum.IntEnum):
    """Exit codes of commands."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    CONFLICT = 5
    FINDINGS = 6
    UNCONFIRMED = 7
    UNAVAILABLE = 69
    TRY_AGAIN = 75
    CONFIGURATION = 78
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "done",
    Exit.FAILURE: "failed for another reason",
    Exit.USAGE: "the command was not understood, or a value cannot be accepted",
    Exit.NOT_FOUND: "no such job, queue, database file …",
    Exit.REFUSED: "understood, and not allowed: in that state, or to you",
    Exit.CONFLICT: "contradicts what is stored: a key used again, a lease lost, a change in between",
    Exit.FINDINGS: "a check found something that needs you",
    Exit.UNCONFIRMED: "nothing was done: it only says what it would do until `--yes` (or `--apply`) is given",
    Exit.UNAVAILABLE: "the database or the service does not answer, or has no room left",
    Exit.TRY_AGAIN: "another process is at it, a wait has timed out, or a worker wants to be started again; repeat",
    Exit.CONFIGURATION: "a setting, a declaration or the tables do not fit",
    Exit.INTERRUPTED: "ended at once by a signal",
}

# The first line that fits decides, so a class stands before its parents.
CODES: tuple[tuple[type[HoraeError], Exit], ...] = (
    (InvalidInput, Exit.USAGE),
    (NotFound, Exit.NOT_FOUND),
    (Unauthorized, Exit.REFUSED),
    (Forbidden, Exit.REFUSED),
    (TooManyRequests, Exit.TRY_AGAIN),
    (NotAllowed, Exit.REFUSED),
    (WaitTimeout, Exit.TRY_AGAIN),
    (Conflict, Exit.CONFLICT),
    (LeaseLost, Exit.CONFLICT),
    (DefinitionError, Exit.CONFIGURATION),
    (ConfigurationError, Exit.CONFIGURATION),
    (SchemaMissing, Exit.CONFIGURATION),
    (SchemaTooNew, Exit.CONFIGURATION),
    (StoreUnavailable, Exit.UNAVAILABLE),
    (ServiceUnavailable, Exit.UNAVAILABLE),
    (StoreFull, Exit.UNAVAILABLE),
    (StoreBusy, Exit.TRY_AGAIN),
    (HoraeError, Exit.FAILURE),
)


def exit_code(problem: HoraeError) -> Exit:
    return next(code for kind, code in CODES if isinstance(problem, kind))


# What the errors of cron call by the name of its Python parameter, as a shell names it.
FLAGS = (
    (re.compile(r"pass lenient=True"), "add --lenient"),
    (re.compile(r"Pass lenient=True"), "Add --lenient"),
    (re.compile(r"with lenient=True"), "with --lenient"),
    (re.compile(r'pass day_match="or"'), "add --day-match or"),
    (re.compile(r'pass zone="([^"]*)"'), r"add --tz \1"),
    (re.compile(r"Pass every='([^']*)'"), r"Give --every \1"),
)


def as_json(problem: HoraeError) -> dict[str, Any]:
    """Return code, message, reason and facts; for a mistake in cron or a filter also its position."""
    document: dict[str, Any] = {"code": problem.code, "message": message(problem), **problem.as_json()}
    if isinstance(problem, InvalidCron):
        document |= {"expression": problem.expression, "field": problem.field, "position": problem.position}
    if isinstance(problem, InvalidFilter):
        document |= {name: problem.facts[name] for name in ("expression", "position")}
    return document


def message(problem: HoraeError, language: Language = "en") -> str:
    text = problem.in_words(language)
    for parameter, flag in FLAGS if isinstance(problem, InvalidCron) else ():
        text = parameter.sub(flag, text)
    return text


def point_at(error: Mapping[str, Any]) -> str:
    """Return the expression with a caret under the mistake; nothing for other errors."""
    expression = error.get("expression")
    if not isinstance(expression, str) or "\n" in expression:
        return ""
    before = expression[: error["position"] - 1]
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in before)
    return f"  {expression}\n  {' ' * (len(before) + wide)}^"
