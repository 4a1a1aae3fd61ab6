"""Errors of the library, made from problem+json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from horae import errors
from horae.api.problems import from_problem
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


def error_from(
    status: int, headers: Mapping[str, str], text: str, *, request: str, wait: float | None = None
) -> HoraeError:
    """Return the error that an answer stands for; *request* is noted in its traceback."""
    problem = _object(text)
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "an unknown status"
    if not problem.get("detail"):  # a proxy, or no service of ours
        plain = errors.ServiceUnavailable("service_status_unexpected", status=status, phrase=phrase, request=request)
        problem = {**problem, **plain.as_json(), "detail": str(plain)}
    if wait is not None:
        problem["retry_after"] = wait
    error = from_problem(problem, otherwise=BY_STATUS.get(status, HoraeError))
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


def _request_id(headers: Mapping[str, str]) -> str:
    identifier = headers.get("X-Request-Id", "")
    return f", request {identifier[:100]}" if identifier else ""
