"""Errors that travel between processes: as the fields of a problem document, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from horae import errors
from horae.core.access.callers import mask_token_values, mask_tokens
from horae.errors import HoraeError

# Attributes of the errors beside their text, with the value where the sender names none.
ATTRIBUTES: dict[type[HoraeError], dict[str, Any]] = {
    errors.TooManyRequests: {"retry_after": 1.0},
    errors.KeyConflict: {"key": "", "job_id": ""},
    errors.QuotaExceeded: {"limit": "", "allowed": 0},
    errors.LockNotAcquired: {"key": ""},
    errors.AlreadyRunning: {"key": "", "job_id": ""},
    errors.LeaseLost: {"job_id": "", "token": 0},
    errors.InvalidCron: {"expression": "", "field": "", "position": 1, "found": "", "allowed": "", "advice": ""},
    errors.UnknownZone: {"name": ""},
    errors.StoreUnavailable: {"outcome_unknown": False},
}


def to_problem(error: HoraeError) -> dict[str, Any]:
    """Return the fields of a problem document about an error: code, detail, reason, facts and its attributes."""
    own = {name: getattr(error, name, otherwise) for name, otherwise in attributes_of(type(error)).items()}
    return {"code": error.code, "detail": mask_tokens(str(error)), **error.as_json(), **own}


def from_problem(problem: Mapping[str, Any], *, otherwise: type[HoraeError] = HoraeError) -> HoraeError:
    """Return the error that a problem document is about; *otherwise* where its code is not known here."""
    kind = _by_code().get(str(problem.get("code")), otherwise)
    reason, facts = problem.get("reason"), problem.get("facts")
    error = kind.received(
        mask_tokens(str(problem.get("detail") or "")),
        reason if isinstance(reason, str) else "",
        mask_token_values(facts) if isinstance(facts, dict) else {},
    )
    for name, default in attributes_of(kind).items():
        setattr(error, name, problem.get(name, default))
    return error


def attributes_of(kind: type[HoraeError]) -> dict[str, Any]:
    return {name: value for each in reversed(kind.__mro__) for name, value in ATTRIBUTES.get(each, {}).items()}


def _by_code() -> dict[str, type[HoraeError]]:
    return {kind.code: kind for kind in _family(HoraeError)}


def _family(kind: type[HoraeError]) -> Iterator[type[HoraeError]]:
    """Yield a class and all below it; the parent last, so that it keeps its code where a child has not changed it."""
    for child in kind.__subclasses__():
        yield from _family(child)
    yield kind
