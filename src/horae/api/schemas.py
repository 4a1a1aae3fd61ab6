"""JSON Schemas of public values, made from their fields: what is published is what the doors return."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from horae.api.values import is_value

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "number"},
    Any: {},
}


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a public value."""
    return {"$schema": DIALECT, "title": kind.__name__, **_object(kind)}


def _object(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    required = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]
    description = (kind.__doc__ or "").strip().partition("\n")[0]
    return {
        "type": "object",
        "description": description,
        "properties": {each.name: _schema(hints[each.name]) for each in fields(kind)},
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint: Any) -> dict[str, Any]:
    if hint in PLAIN:
        return dict(PLAIN[hint])
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [{"type": "null"} if each is type(None) else _schema(each) for each in inner]}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if is_value(hint):
        return _object(hint)
    raise TypeError(f"no schema for {hint}")
