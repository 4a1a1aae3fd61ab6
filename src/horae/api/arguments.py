"""Arguments of operations, checked by the types in their signature before anything is done or sent.

So a value of another type is refused alike in this process and over HTTP. Types that say more than a plain one, such as
values of ours, mappings and lists of values, are left to the operation.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints, is_typeddict

from horae.core.checks import texts
from horae.core.jobs.payloads import ANY_SIZE, encode
from horae.errors import InvalidInput

LONGEST_REASON = 2000  # characters of what the audit keeps as a reason
WORDS: dict[type, str] = {
    str: "text", int: "a whole number", bool: "True or False", float: "a number", datetime: "an aware datetime",
    Mapping: "an object",
}  # fmt: skip  # a span is read by `horae.core.time.spans`
LISTS = (Iterable, Sequence, Collection, list, tuple)
LISTED = frozenset({list, tuple, set, frozenset, str, bytes, dict})
NOTHING: Any = type(None)


class Expected:
    """What an argument may be: of one of these types, or one of these texts."""

    def __init__(
        self,
        fits: frozenset[type],  # seen at once
        kinds: tuple[type, ...] = (),
        choices: tuple[str, ...] = (),
        is_list: bool = False,
    ) -> None:
        self.fits, self.kinds, self.choices, self.is_list = fits, kinds, choices, is_list

    def check(self, name: str, value: Any) -> None:
        if value in self.choices or type(value) in self.fits:
            return
        if self.is_list:
            if type(value) in LISTED or not isinstance(value, Iterable):
                texts(value, name)  # an iterator is left to the operation, which reads it once
        elif self.choices:
            shown = value if isinstance(value, str) else repr(value)
            raise InvalidInput("choice_unknown", name=name, value=shown, choices=list(self.choices))
        elif isinstance(value, bool) or not isinstance(value, self.kinds):
            expected = " or ".join(WORDS[kind] for kind in self.kinds)
            raise InvalidInput("type_wrong", name=name, value=repr(value), expected=expected)


class Arguments:
    """The arguments of one operation."""

    def __init__(self, build: Callable[..., Any]) -> None:
        parameters = list(inspect.signature(build).parameters.values())[1:]
        space = vars(sys.modules[build.__module__])
        self.names = [each.name for each in parameters]
        self.expected: dict[str, Expected] = {}
        for each in parameters:
            hint = _hint(each.name, each.annotation, space)
            if get_origin(hint) is Unpack:
                (terms,) = get_args(hint)
                found = get_type_hints(terms) if is_typeddict(terms) else {}
            else:
                found = {each.name: hint}
            for name, kind in found.items():
                if (known := _expected(kind)) is not None:
                    self.expected[name] = known

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        expected = self.expected
        for name, value in (*zip(self.names, args, strict=False), *kwargs.items()):
            known = expected.get(name)
            if known is not None and type(value) not in known.fits:
                known.check(name, value)
            if name == "reason" and value:
                check_reason(value)


def check_reason(text: str) -> None:
    """Refuse a reason that the audit cannot keep."""
    if len(text) > LONGEST_REASON:
        raise InvalidInput("text_too_long", name="reason", length=len(text), most=LONGEST_REASON)
    encode(text, "reason", ANY_SIZE)


def _hint(name: str, annotation: Any, space: dict[str, Any]) -> Any:
    """Return the type that an annotation means; None where it is only imported for type checkers."""
    try:
        return get_type_hints(types.SimpleNamespace(__annotations__={name: annotation}), space)[name]
    except NameError:
        return None


def _expected(hint: Any) -> Expected | None:
    inner = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    choices = tuple(text for each in inner if get_origin(each) is Literal for text in get_args(each))
    kinds = tuple(each for each in inner if each is not NOTHING and get_origin(each) is not Literal)
    empty = {NOTHING} if NOTHING in inner else set()
    if choices:
        is_plain = not kinds and all(isinstance(each, str) for each in choices)
        return Expected(frozenset(empty), choices=choices) if is_plain else None
    if len(kinds) == 1 and get_origin(kinds[0]) in LISTS and get_args(kinds[0])[0] is str:
        return Expected(frozenset(empty), is_list=True)
    kinds = tuple(Mapping if get_origin(each) is Mapping else each for each in kinds)
    if not kinds or any(each not in WORDS for each in kinds):
        return None
    return Expected(
        frozenset({*kinds, *empty, *({int} if float in kinds else ()), *({dict} if Mapping in kinds else ())}), kinds
    )
