"""Bodies and parameters of requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from horae.api.values import Free
from horae.errors import InvalidInput, InvalidPayload


def encode_body(body: Any) -> bytes:
    try:
        return _to_text(body).encode()
    except InvalidPayload:
        raise
    except (TypeError, ValueError) as problem:
        raise InvalidInput("request_not_json", problem=str(problem)) from None


def _checked(value: Any) -> Any:
    """Return a user's JSON as it is; a value that is not plain is refused."""
    if isinstance(value, Free):
        return value.checked()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_to_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_checked).encode


def query_parameters(query: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return query parameters: lists are repeated, None is left out, booleans are lower case."""
    return tuple(
        (name, str(each).lower() if isinstance(each, bool) else str(each))
        for name, value in query.items()
        if value is not None
        for each in (value if isinstance(value, list | tuple) else [value])
    )
