"""The parameters of a handler, read from its signature."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from horae.core.jobs.masking import is_sensitive
from horae.core.jobs.parameters import MOST, Parameter, ParameterKind, is_small

KINDS: dict[Any, ParameterKind] = {
    str: "text", bool: "boolean", int: "integer", float: "number", datetime: "instant", date: "date"
}  # fmt: skip
LONGEST_DESCRIPTION = 500


def parameters_of(
    function: Callable[..., Any], signature: inspect.Signature, sensitive: Collection[str]
) -> tuple[Parameter, ...]:
    """Return the parameters of a signature, which is that of *function* without its context."""
    if not signature.parameters:
        return ()  # without reading the annotations, a tenth of a millisecond for each of many scheduled handlers
    try:
        hints = get_type_hints(function)
    except Exception:  # a name that exists only for the type checker; the form then takes JSON
        hints = {}
    found = list(signature.parameters.values())[:MOST]
    return tuple(_parameter(each, hints.get(each.name, each.annotation), sensitive) for each in found)


def _parameter(parameter: inspect.Parameter, hint: Any, sensitive: Collection[str]) -> Parameter:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return Parameter(parameter.name, "extra", required=False)
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if has_default else None
    default = default.value if isinstance(default, Enum) else default
    kind, choices, nullable = _kind(hint, default)
    is_hidden = is_sensitive(parameter.name, sensitive)
    return Parameter(
        parameter.name,
        kind,
        required=not has_default,
        default=default if is_small(default) and not is_hidden else None,
        choices=choices,
        nullable=nullable or (has_default and default is None),
        sensitive=is_hidden,
    )


def _kind(hint: Any, default: Any) -> tuple[ParameterKind, tuple[Any, ...], bool]:
    """Return how a value of a type is entered, what may be chosen, and whether it may be null."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(inner[0], default)
    if origin in (Union, types.UnionType):
        kinds = [each for each in inner if each is not type(None)]
        nullable = len(kinds) < len(inner)
        kind, choices, _ = _kind(kinds[0], default) if len(kinds) == 1 else ("json", (), False)
        return kind, choices, nullable
    if origin is Literal:
        return _choice(inner)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(tuple(each.value for each in hint))
    if hint in (inspect.Parameter.empty, Any):
        hint = type(default) if isinstance(default, str | int | float) else Any
    return KINDS.get(hint, "json"), (), False


def _choice(values: tuple[Any, ...]) -> tuple[ParameterKind, tuple[Any, ...], bool]:
    plain = tuple(each for each in values if isinstance(each, str | int | float))
    nullable = None in values
    return ("choice", plain, nullable) if 0 < len(plain) <= MOST else ("json", (), nullable)


def description_of(function: Callable[..., Any]) -> str | None:
    """Return the first paragraph of a docstring on one line; None where there is none."""
    text = inspect.getdoc(function)
    if not text:
        return None
    return " ".join(text.split("\n\n", 1)[0].split())[:LONGEST_DESCRIPTION] or None
