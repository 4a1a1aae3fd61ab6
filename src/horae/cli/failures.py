"""Errors as exit codes, and as the one line a person reads: the only place that knows both."""

from __future__ import annotations

import enum

from horae.errors import (
    ConfigurationError,
    Conflict,
    DefinitionError,
    HoraeError,
    InvalidInput,
    LeaseLost,
    NotAllowed,
    NotFound,
    SchemaMissing,
    SchemaTooNew,
    StoreBusy,
    StoreUnavailable,
)


class Exit(enum.IntEnum):
    """What a shell learns about how a command ended."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    CONFLICT = 5
    FINDINGS = 6
    UNAVAILABLE = 69
    TRY_AGAIN = 75
    CONFIGURATION = 78
    INTERRUPTED = 130


MEANING = {
    Exit.OK: "done",
    Exit.FAILURE: "failed for another reason",
    Exit.USAGE: "the command was not understood, or a value cannot be accepted",
    Exit.NOT_FOUND: "no such job, queue, database file …",
    Exit.REFUSED: "understood, and not allowed in that state",
    Exit.CONFLICT: "contradicts what is stored: a key used again, a lease lost, a change in between",
    Exit.FINDINGS: "a check found something that needs you",
    Exit.UNAVAILABLE: "the database does not answer",
    Exit.TRY_AGAIN: "somebody else is at it, or a worker wants to be started again; repeat",
    Exit.CONFIGURATION: "a setting, a declaration or the tables do not fit",
    Exit.INTERRUPTED: "ended at once by a signal",
}

# The first line that fits decides, so a class stands before its parents.
CODES: tuple[tuple[type[HoraeError], Exit], ...] = (
    (InvalidInput, Exit.USAGE),
    (NotFound, Exit.NOT_FOUND),
    (NotAllowed, Exit.REFUSED),
    (Conflict, Exit.CONFLICT),
    (LeaseLost, Exit.CONFLICT),
    (DefinitionError, Exit.CONFIGURATION),
    (ConfigurationError, Exit.CONFIGURATION),
    (SchemaMissing, Exit.CONFIGURATION),
    (SchemaTooNew, Exit.CONFIGURATION),
    (StoreUnavailable, Exit.UNAVAILABLE),
    (StoreBusy, Exit.TRY_AGAIN),
    (HoraeError, Exit.FAILURE),
)


def exit_code(problem: HoraeError) -> Exit:
    return next(code for kind, code in CODES if isinstance(problem, kind))


def as_json(problem: HoraeError) -> dict[str, str]:
    return {"code": problem.code, "message": str(problem)}
