"""Answers as values: from the JSON of the service to frozen dataclasses, by their annotations.

Fields that this release does not know are left alone; they are in ``raw``. So an older client serves a newer service.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from horae.api.operation import Answer, Page
from horae.core.instants import from_iso
from horae.errors import InvalidInput, ServiceUnavailable

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Told:
    """Something that the service told."""

    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def one(kind: type[T], under: str | None = None) -> Callable[[Answer], T]:
    """Reads an answer that is one thing, or holds one *under* a name."""
    return lambda answer: value_of(kind, answer.body if under is None else _held(answer.body, under))


def many(kind: type[T], under: str | None = None) -> Callable[[Answer], tuple[T, ...]]:
    """Reads an answer that is a list, or holds one."""
    return lambda answer: _rows(kind, answer.body if under is None else _held(answer.body, under))


def page(kind: type[T], under: str = "items") -> Callable[[Answer], Page[T]]:
    """Reads one page of a listing."""
    return lambda answer: Page(_rows(kind, _held(answer.body, under)), answer.body.get("next_cursor"))


def nothing(answer: Answer) -> None:
    """For answers that say no more than that it was done."""


def text(answer: Answer) -> str:
    return answer.text


def body(answer: Answer) -> dict[str, Any]:
    """The JSON object as it came."""
    if not isinstance(answer.body, dict):
        raise _strange("an object", answer.body)
    return answer.body


def value_of(kind: type[T], raw: Any) -> T:
    """A dataclass from a JSON object."""
    if not isinstance(raw, dict):
        raise _strange(f"a {kind.__name__}", raw)
    told: dict[str, Any] = {"raw": raw} if issubclass(kind, Told) else {}
    known: Any = kind
    for name, hint, is_needed in _fields(known):
        if name in raw:
            try:
                told[name] = _as(hint, raw[name])
            except (InvalidInput, TypeError, ValueError, AttributeError):
                raise _strange(f"the {name} of a {kind.__name__}", raw[name]) from None
        elif is_needed:
            raise _strange(f"a {kind.__name__} with {name}", sorted(raw))
    return kind(**told)


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
        if each.name != "raw"
    )


def _as(hint: Any, raw: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return None if raw is None else _as(kinds[0], raw) if len(kinds) == 1 else raw
    if hint is datetime:
        return from_iso(raw)
    if hint is timedelta:
        return timedelta(seconds=raw)
    if origin is tuple:
        return tuple(_as(inner[0], each) for each in raw)
    if origin is dict and raw is not None:
        return {name: _as(inner[1], each) for name, each in raw.items()}
    return value_of(hint, raw) if isinstance(hint, type) and is_dataclass(hint) else raw


def _held(raw: Any, under: str) -> Any:
    if not isinstance(raw, dict) or under not in raw:
        raise _strange(f"an object with {under}", raw)
    return raw[under]


def _rows(kind: type[T], raw: Any) -> tuple[T, ...]:
    if not isinstance(raw, list):
        raise _strange("a list", raw)
    return tuple(value_of(kind, each) for each in raw)


def _strange(expected: str, found: Any) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"The service answered {str(found)[:100]!r} where {expected} was expected. Is the URL that of a Horae "
        "service, and of a release that this client knows?"
    )
