"""Public values: from core values by equal names, and to and from JSON.

A public value is a frozen dataclass whose field names are its JSON names. Instants are aware datetimes, ISO-8601 with
``Z`` in JSON; spans are timedeltas, seconds in JSON. Nothing here needs pydantic.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from horae.core.time.instants import aware, from_iso, iso
from horae.errors import DefinitionError

T = TypeVar("T")
Get = Callable[[Any], Any]
# How pydantic is to read these dataclasses where a service or an MCP server shows them: as `to_json` writes them.
PYDANTIC = {"ser_json_timedelta": "float"}


# -- from core values --------------------------------------------------------------------------------------------------


def published(hint: Any, value: Any) -> Any:
    """Turn the result of a verb into public values: alone, in tuples or in pages."""
    origin, inner = get_origin(hint), get_args(hint)
    if value is None or hint in (Any, None, type(None)):
        return value
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return published(kinds[0], value) if len(kinds) == 1 else value
    if origin is tuple:
        return tuple(published(inner[0], each) for each in value)
    if origin is dict:
        return {name: published(inner[1], each) for name, each in value.items()}
    kind: Any = origin or hint
    if not is_value(kind):
        return value
    if origin is not None:  # a generic value such as Page[Job]
        return kind(**{name: published(each, getattr(value, name)) for name, each, _ in _fields(hint)})
    core: Any = type(value)
    return value if isinstance(value, kind) else publisher(kind, core)(value)


@functools.cache
def publisher(public: Any, core: Any) -> Callable[[Any], Any]:
    """Compile how a public value is made of a core value: each field from the attribute of the same name.

    ``DERIVED`` on the public class names the fields that are made in another way.
    """
    gets = _getters(public)
    return lambda value: public(**{name: get(value) for name, get in gets})


def enriched(public: Any, value: Any, /, **more: Any) -> Any:
    """Make a public value of a core value, and of *more* fields that the core value does not have."""
    return public(**more, **{name: get(value) for name, get in _getters(public) if name not in more})


@functools.cache
def _getters(public: Any) -> list[tuple[str, Get]]:
    derived: Mapping[str, Get] = getattr(public, "DERIVED", {})
    hints = get_type_hints(public)
    return [
        (each.name, derived[each.name] if each.name in derived else _getter(each.name, hints[each.name]))
        for each in fields(public)
    ]


def extended(kind: type[T], value: Any, **more: Any) -> T:
    """Return a value as a class with more fields, given in *more*."""
    return kind(**vars(value), **more)


def is_value(kind: Any) -> bool:
    """Return whether it is a public value, without narrowing the type of *kind*."""
    return is_dataclass(kind)


def _getter(name: str, hint: Any) -> Get:
    return lambda value: published(hint, getattr(value, name))


# -- to JSON -----------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Return a value as plain JSON: dataclasses by their field names, instants as text, spans in seconds."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, datetime):
        return iso(aware(value))
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(each) for each in value]
    return value


def as_list(values: Sequence[Any]) -> dict[str, Any]:
    """Return values in the envelope of all lists."""
    return {"items": to_json(list(values)), "next_cursor": None}


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def given(**values: Any) -> dict[str, Any]:
    """Return values as JSON, without those that are None."""
    return {name: to_json(value) for name, value in values.items() if value is not None}


# -- from JSON ---------------------------------------------------------------------------------------------------------


def from_json(hint: Any, raw: Any) -> Any:
    """Read a value of that type. Fields that this release does not know are ignored; missing ones get their default."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in (Any, None, type(None)):
        return raw
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return None if raw is None else from_json(kinds[0], raw) if len(kinds) == 1 else raw
    if hint is datetime:
        return raw if isinstance(raw, datetime) else from_iso(raw)
    if hint is timedelta:
        return timedelta(seconds=raw)
    if origin is Literal:
        return raw
    if origin is tuple:
        return tuple(from_json(inner[0], each) for each in raw)
    if origin is dict and raw is not None:
        return {name: from_json(inner[1], each) for name, each in raw.items()}
    return _object(hint, raw) if is_value(origin or hint) else raw


def _object(kind: Any, raw: Any) -> Any:
    title = getattr(kind, "__name__", str(kind))
    if not isinstance(raw, dict):
        raise Unreadable(f"a {title}", raw)
    found: dict[str, Any] = {}
    for name, hint, is_needed in _fields(kind):
        if name in found:
            continue
        if name in raw:
            try:
                found[name] = from_json(hint, raw[name])
            except (DefinitionError, Unreadable):
                raise
            except (TypeError, ValueError, AttributeError):  # InvalidInput is a ValueError
                raise Unreadable(f"the {name} of a {title}", raw[name]) from None
        elif is_needed:
            raise Unreadable(f"a {title} with {name}", sorted(raw))
    return kind(**found)


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    origin, inner = get_origin(kind), get_args(kind)
    hints = get_type_hints(origin or kind)
    if origin is not None:  # a generic value such as Page[Job]
        variables = dict(zip(origin.__parameters__, inner, strict=True))
        hints = {name: _filled(hint, variables) for name, hint in hints.items()}
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(origin or kind)
    )


def _filled(hint: Any, variables: Mapping[Any, Any]) -> Any:
    names = getattr(hint, "__parameters__", ())
    return hint[tuple(variables[name] for name in names)] if names else variables.get(hint, hint)


class Unreadable(Exception):
    """Some JSON is not what was expected."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"{str(found)[:100]!r} where {expected} was expected")
