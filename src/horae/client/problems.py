"""Errors of the library, made from problem+json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from horae import errors
from horae.core.access.callers import mask_token_values, mask_tokens
from horae.errors import HoraeError

# By status where the body does not say more, as when a proxy answers in the service's place.
BY_STATUS: dict[int, type[HoraeError]] = {
    400: errors.InvalidInput,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.VersionConflict,
    413: errors.InvalidInput,
    415: errors.InvalidInput,
    422: errors.InvalidInput,
    429: errors.TooManyRequests,
    502: errors.ServiceUnavailable,
    503: errors.ServiceUnavailable,
    504: errors.ServiceUnavailable,
    507: errors.StoreFull,
}
# Attributes of the errors beside their text, with the value where the service sends none.
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


def error_from(
    status: int, headers: Mapping[str, str], text: str, *, request: str, wait: float | None = None
) -> HoraeError:
    """Return the error that an answer stands for; *request* is noted in its traceback."""
    problem = _object(text)
    kind = _by_code().get(str(problem.get("code")), BY_STATUS.get(status, HoraeError))
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "an unknown status"
    detail = problem.get("detail") or f"The service answered {status} ({phrase}) to {request}."
    reason, facts = problem.get("reason"), problem.get("facts")
    error = kind.received(
        mask_tokens(str(detail)),
        reason if isinstance(reason, str) else "",
        mask_token_values(facts) if isinstance(facts, dict) else {},
    )
    if wait is not None:
        problem["retry_after"] = wait
    for name, otherwise in _attributes(kind).items():
        setattr(error, name, problem.get(name, otherwise))
    error.add_note(f"{status} to {request}" + _request_id(headers))
    return error


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, as a number or as a date."""
    text = headers.get("Retry-After", "").strip()
    try:
        seconds = float(text)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _attributes(kind: type[HoraeError]) -> dict[str, Any]:
    return {name: value for each in reversed(kind.__mro__) for name, value in ATTRIBUTES.get(each, {}).items()}


def _by_code() -> dict[str, type[HoraeError]]:
    return {kind.code: kind for kind in _family(HoraeError)}


def _family(kind: type[HoraeError]) -> Iterator[type[HoraeError]]:
    """Yield a class and all below it; the parent last, so that it keeps its code where a child has not changed it."""
    for child in kind.__subclasses__():
        yield from _family(child)
    yield kind


def _request_id(headers: Mapping[str, str]) -> str:
    identifier = headers.get("X-Request-Id", "")
    return f", request {identifier[:100]}" if identifier else ""
