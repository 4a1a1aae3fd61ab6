"""Check the arguments of an enqueue against the annotations of the handler, as far as JSON carries their types.

Nothing is converted: what does not fit is refused with the name of the argument, what was expected and what was given.
A payload is JSON, so that an instant is text and a tuple a list; a type that JSON does not know is not checked.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from horae.core.dataclass import dataclass
from horae.core.jobs.masking import is_sensitive
from horae.errors import InvalidArguments

LONGEST_SHOWN = 40  # characters of a value that is refused
LISTS = (list, tuple, Sequence, MutableSequence, Iterable)
OBJECTS = (dict, Mapping, MutableMapping)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part of an argument that does not fit: where in it, what was expected, and the value."""

    path: str
    expected: str
    value: Any


Check = Callable[[Any], Misfit | None]


def checks_of(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Check]:
    """Return a check for each parameter whose annotation says something about JSON; ``**`` stands for the others."""
    if not signature.parameters:
        return {}
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # a name that exists only for the type checker
        return {}
    found: dict[str, Check] = {}
    for each in signature.parameters.values():
        check = check_for(hints.get(each.name, Any))
        if check is not None:
            name = "**" if each.kind is inspect.Parameter.VAR_KEYWORD else each.name
            found[name] = _or_none(check) if each.default is None else check
    return found


def refuse_misfits(
    handler: str, checks: Mapping[str, Check], arguments: Mapping[str, Any], sensitive: Sequence[str]
) -> None:
    """Raise ``InvalidArguments`` for the first argument whose type does not fit."""
    for name, value in arguments.items():
        check = checks.get(name) or checks.get("**")
        if check is not None and (misfit := check(value)) is not None:
            raise InvalidArguments(
                "argument_type_wrong",
                handler=handler,
                argument=f"{name}{misfit.path}",
                expected=misfit.expected,
                given=_describe_value(misfit.value, is_hidden=is_sensitive(name, sensitive)),
            )


def check_for(hint: Any) -> Check | None:
    """Return the check of a type; None where anything fits, or JSON cannot tell."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return check_for(inner[0])
    if hasattr(hint, "__supertype__"):  # a NewType
        return check_for(hint.__supertype__)
    if origin in (Union, types.UnionType):
        return _one_of(inner)
    if origin is Literal:
        return _choice(inner)
    if origin in LISTS or hint in LISTS:
        return _list_of(inner, is_fixed=origin is tuple and inner[-1:] != (...,))
    if origin in OBJECTS or hint in OBJECTS or is_typeddict(hint):
        return _object_of(inner[1] if len(inner) == 2 else Any)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(tuple(each.value for each in hint))
    return PLAIN.get(hint) if isinstance(hint, type) else None


def _exact(expected: str, *kinds: type) -> Check:
    """Check for classes; a boolean is no number, although Python counts with it."""

    def check(value: Any) -> Misfit | None:
        if type(value) in kinds or (isinstance(value, kinds) and not isinstance(value, bool)):
            return None
        return Misfit("", expected, value)

    return check


def _text_for(expected: str, read: Callable[[str], Any]) -> Check:
    def check(value: Any) -> Misfit | None:
        try:
            if isinstance(value, str):
                read(value)
                return None
        except ValueError:
            pass
        return Misfit("", expected, value)

    return check


PLAIN: dict[Any, Check] = {
    str: _exact("str", str),
    bool: _exact("bool", bool),
    int: _exact("int", int),
    float: _exact("float", float, int),
    type(None): _exact("None", type(None)),
    datetime: _text_for("an instant as text, such as 2030-01-07T06:00:00Z", datetime.fromisoformat),
    date: _text_for("a date as text, such as 2030-01-07", date.fromisoformat),
}


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _one_of(kinds: Sequence[Any]) -> Check | None:
    checks = [check_for(each) for each in kinds]
    known = [each for each in checks if each is not None]
    if len(known) < len(checks):
        return None

    def check(value: Any) -> Misfit | None:
        misfits = [misfit for each in known if (misfit := each(value)) is not None]
        if len(misfits) < len(known):
            return None
        deeper = [each for each in misfits if each.path]
        if len(deeper) == 1:  # the right kind of container, and something in it is wrong
            return deeper[0]
        return Misfit("", " or ".join(dict.fromkeys(each.expected for each in misfits)), value)

    return check


def _choice(choices: Sequence[Any]) -> Check | None:
    plain = [each.value if isinstance(each, Enum) else each for each in choices]
    if not all(each is None or isinstance(each, str | int | float) for each in plain):
        return None
    expected = "one of " + ", ".join(map(repr, plain[:20]))

    def check(value: Any) -> Misfit | None:
        fits = any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in plain)
        return None if fits else Misfit("", expected, value)

    return check


def _list_of(inner: Sequence[Any], *, is_fixed: bool) -> Check:
    if is_fixed and inner:
        return _fixed_list([check_for(each) for each in inner])
    item = check_for(inner[0]) if inner else None

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, list | tuple):
            return Misfit("", "list", value)
        return None if item is None else _first(enumerate(value), item)

    return check


def _fixed_list(items: Sequence[Check | None]) -> Check:
    def check(value: Any) -> Misfit | None:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            return Misfit("", f"list of {len(items)}", value)
        for index, (item, each) in enumerate(zip(items, value, strict=True)):
            if item is not None and (misfit := item(each)) is not None:
                return Misfit(f"[{index}]{misfit.path}", misfit.expected, misfit.value)
        return None

    return check


def _object_of(kind: Any) -> Check:
    item = check_for(kind)

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, Mapping):
            return Misfit("", "dict", value)
        return None if item is None else _first(value.items(), item)

    return check


def _first(items: Iterable[tuple[Any, Any]], check: Check) -> Misfit | None:
    for at, each in items:
        if (misfit := check(each)) is not None:
            return Misfit(f"[{at!r}]{misfit.path}", misfit.expected, misfit.value)
    return None


def _describe_value(value: Any, *, is_hidden: bool) -> str:
    kind = type(value).__name__
    if is_hidden or not isinstance(value, str | int | float | None):
        return kind
    text = repr(value)
    return f"{text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + '…'} ({kind})"
