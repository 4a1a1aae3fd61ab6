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
from operator import attrgetter
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from horae.core.jobs.payloads import check_plain, refuse_key
from horae.core.time.instants import aware, from_iso, iso
from horae.core.time.spans import span
from horae.errors import DefinitionError

T = TypeVar("T")
Get = Callable[[Any], Any]
INCOMPLETE = "incomplete"  # the field that names databases of a cluster without an answer; left out where it is empty
DATABASES = "databases"  # and the field with the number of databases that a change is for
PLAIN = frozenset({str, int, float, bool, type(None)})  # what JSON says as it is


# -- from core values --------------------------------------------------------------------------------------------------


def to_public(hint: Any, value: Any) -> Any:
    """Turn the result of a verb into public values: alone, in tuples or in pages."""
    publish = _publisher(hint)
    return value if publish is None else publish(value)


@functools.cache
def _publisher(hint: Any) -> Get | None:
    """Compile how a value of that type is published, once for each type; None where it stays what it is."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return _publisher(kinds[0]) if len(kinds) == 1 else None
    if origin is tuple:
        each = _publisher(inner[0])
        return _unless_none(tuple if each is None else lambda values: tuple(map(each, values)))
    if origin is dict:
        item = _publisher(inner[1])
        return None if item is None else _unless_none(lambda value: {name: item(at) for name, at in value.items()})
    kind: Any = origin or hint
    if not is_value(kind):
        return None
    if origin is not None:  # a generic value such as Page[Job]
        return _unless_none(
            lambda value: kind(**{name: to_public(each, getattr(value, name)) for name, each, _ in _fields(hint)})
        )
    return _unless_none(lambda value: value if isinstance(value, kind) else _compiled(kind, value)(value))


def _compiled(public: Any, value: Any) -> Get:
    core: Any = type(value)
    return compile_to_public(public, core)


def _unless_none(publish: Get) -> Get:
    return lambda value: None if value is None else publish(value)


@functools.cache
def compile_to_public(public: Any, core: Any) -> Get:
    """Compile how a public value is made of a core value: each field from the attribute of the same name.

    ``DERIVED`` on the public class names the fields that are made in another way.
    """
    gets = _getters(public)
    return lambda value: public(**{name: get(value) for name, get in gets})


def enrich(public: Any, value: Any, /, **more: Any) -> Any:
    """Make a public value of a core value, and of *more* fields that the core value does not have."""
    return public(**more, **{name: get(value) for name, get in _getters(public) if name not in more})


@functools.cache
def _getters(public: Any) -> list[tuple[str, Get]]:
    derived: Mapping[str, Get] = getattr(public, "DERIVED", {})
    hints = get_type_hints(public)
    return [
        (each.name, derived[each.name] if each.name in derived else _getter(each.name, hints[each.name]))
        for each in fields(public)
        if each.name
        not in (INCOMPLETE, DATABASES)  # no core value has them: they are about the databases that were asked
    ]


def extend(kind: type[T], value: Any, **more: Any) -> T:
    """Return a value as a class with more fields, given in *more*."""
    return kind(**vars(value), **more)


def is_value(kind: Any) -> bool:
    """Return whether it is a public value, without narrowing the type of *kind*."""
    return is_dataclass(kind)


def _getter(name: str, hint: Any) -> Get:
    get, publish = attrgetter(name), _publisher(hint)
    return get if publish is None else lambda value: publish(get(value))


# -- to JSON -----------------------------------------------------------------------------------------------------------


class Free:
    """JSON that a user has made, on its way to a service: checked as where it is stored, and never converted.

    The check runs when it is sent. In this process the verb does it.
    """

    __slots__ = ("check", "value", "what")

    def __init__(self, value: Any, what: str = "payload", check: Callable[[Any], object] | None = None) -> None:
        self.value, self.what, self.check = value, what, check

    def checked(self) -> Any:
        if self.check is None:
            check_plain(self.value, self.what)
        else:
            self.check(self.value)
        return self.value


def free(value: Any, what: str = "payload") -> Free | None:
    """Return a user's JSON as a field of a body; None where there is none."""
    return None if value is None else Free(value, what)


def to_json(value: Any) -> Any:
    """Return a value as plain JSON: dataclasses by their field names, instants as text, spans in seconds."""
    kind: Any = type(value)
    return value if kind in PLAIN else _writer(kind)(value)


@functools.cache
def _writer(kind: type) -> Get:
    """Compile how values of a class become JSON."""
    if issubclass(kind, str | int | float):
        return _same
    if issubclass(kind, datetime):
        return lambda value: iso(aware(value))
    if issubclass(kind, timedelta):
        return timedelta.total_seconds
    if issubclass(kind, Free):
        return Free.checked
    if is_dataclass(kind):
        return _field_writer(_names(kind))
    if issubclass(kind, Mapping):
        return lambda value: {_key(name): to_json(each) for name, each in value.items()}
    if issubclass(kind, list | tuple | set | frozenset):
        return lambda value: [to_json(each) for each in value]
    return _same


def _key(name: Any) -> str:
    if not isinstance(name, str):
        refuse_key(name, "object")
    return str(name)


def _field_writer(names: Sequence[str]) -> Get:
    def write(value: Any) -> dict[str, Any]:
        said = {name: getattr(value, name) for name in names}
        if INCOMPLETE in said and not said[INCOMPLETE]:
            del said[INCOMPLETE]
            said.pop(DATABASES, None)
        for name, each in said.items():
            if type(each) not in PLAIN:
                said[name] = to_json(each)
        return said

    return write


def _same(value: Any) -> Any:
    return value


def as_list(values: Sequence[Any]) -> dict[str, Any]:
    """Return values in the envelope of all lists."""
    incomplete = list(getattr(values, INCOMPLETE, ()))
    return {"items": to_json(list(values)), "next_cursor": None, **({INCOMPLETE: incomplete} if incomplete else {})}


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def drop_none(**values: Any) -> dict[str, Any]:
    """Return values as JSON, without those that are None; a user's own JSON is left alone."""
    return {
        name: value if type(value) is Free else to_json(value) for name, value in values.items() if value is not None
    }


# -- from JSON ---------------------------------------------------------------------------------------------------------


def from_json(hint: Any, raw: Any) -> Any:
    """Read a value of that type. Fields that this release does not know are ignored; missing ones get their default."""
    read = _reader(hint)
    return raw if read is None else read(raw)


@functools.cache
def _reader(hint: Any) -> Get | None:
    """Compile how a value of that type is read, once for each type; None where JSON is the value."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return None if len(kinds) != 1 else _optional(_reader(kinds[0]))
    if hint is datetime:
        return lambda raw: raw if isinstance(raw, datetime) else from_iso(raw)
    if hint is timedelta:
        return span
    if origin is tuple:
        each = _reader(inner[0])
        return tuple if each is None else lambda raw: tuple(map(each, raw))
    if origin is dict:
        return _optional(_dict_reader(_reader(inner[1])))
    return functools.partial(_object, hint) if is_value(origin or hint) else None


def _optional(read: Get | None) -> Get | None:
    return None if read is None else lambda raw: None if raw is None else read(raw)


def _dict_reader(each: Get | None) -> Get:
    return lambda raw: {name: item if each is None else each(item) for name, item in raw.items()}


def _object(kind: Any, raw: Any) -> Any:
    title = getattr(kind, "__name__", str(kind))
    if not isinstance(raw, dict):
        raise Unreadable(f"a {title}", raw)
    found: dict[str, Any] = {}
    for name, read, is_needed in _readers(kind):
        if name in raw:
            try:
                found[name] = raw[name] if read is None else read(raw[name])
            except (DefinitionError, Unreadable):
                raise
            except (TypeError, ValueError, AttributeError):  # InvalidInput is a ValueError
                raise Unreadable(f"the {name} of a {title}", raw[name]) from None
        elif is_needed:
            raise Unreadable(f"a {title} with {name}", sorted(raw))
    return kind(**found)


@functools.cache
def _readers(kind: Any) -> tuple[tuple[str, Get | None, bool], ...]:
    return tuple((name, _reader(hint), is_needed) for name, hint, is_needed in _fields(kind))


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    origin, inner = get_origin(kind), get_args(kind)
    hints = get_type_hints(origin or kind)
    if origin is not None:  # a generic value such as Page[Job]
        variables = dict(zip(origin.__parameters__, inner, strict=True))
        hints = {name: _fill_variables(hint, variables) for name, hint in hints.items()}
    return tuple(
        (each.name, hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(origin or kind)
    )


def _fill_variables(hint: Any, variables: Mapping[Any, Any]) -> Any:
    names = getattr(hint, "__parameters__", ())
    return hint[tuple(variables[name] for name in names)] if names else variables.get(hint, hint)


class Unreadable(Exception):
    """Some JSON is not what was expected."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"{str(found)[:100]!r} where {expected} was expected")
