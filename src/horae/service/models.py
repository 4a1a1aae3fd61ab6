"""Models of request bodies, generated from the dataclasses that the operations take.

An unknown name is refused, because it may be a misspelt one; so is a value of another JSON type.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Sequence
from dataclasses import MISSING, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import Field, create_model

from horae.api.values import Unreadable, from_json, is_value
from horae.errors import DefinitionError, InvalidInput
from horae.service.fields import Instant, OperationBody, SpanField


class Model(OperationBody):
    """A request body that stands for a value."""


def model_of(kind: Any, name: str, *, without: Collection[str] = (), example: Any = None) -> type[Model]:
    """Make the model of a dataclass: its fields by their names, instants as text, spans in seconds.

    No field of a TypedDict is required: one that is missing has no value, and null is a value only where the type has
    it.
    """
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    if is_typeddict(kind):
        found = {each: (_hint(hint), Field(None, json_schema_extra=_no_default)) for each, hint in hints.items()}
        return create_model(name, __base__=Model, __doc__=kind.__doc__, **found)
    for each in fields(kind):
        if each.name in without:
            continue
        default = each.default if each.default is not MISSING else ... if each.default_factory is MISSING else None
        if isinstance(default, timedelta):
            default = default.total_seconds()  # as it would be sent
        hint = _hint(hints[each.name])
        found[each.name] = (hint, default if isinstance(default, str | int | float | bool | None) else Field(default))
    made: type[Model] = create_model(name, __base__=Model, __doc__=kind.__doc__, **found)
    if example is not None:
        made.model_config = {**made.model_config, "json_schema_extra": {"examples": [example]}}
        made.model_rebuild(force=True)
    return made


def value_of(kind: Any, model: Model) -> Any:
    """Return the value that was sent; what was not sent has its default."""
    said = model.model_dump(exclude_unset=True)
    try:
        if is_typeddict(kind):
            return {name: from_json(hint, said[name]) for name, hint in get_type_hints(kind).items() if name in said}
        return from_json(kind, said)
    except Unreadable as problem:
        if isinstance(problem.__context__, InvalidInput):  # a value that refuses itself says best what is wrong
            raise problem.__context__ from None
        raise
    except DefinitionError as problem:  # a retry policy that cannot work; here it is the caller's mistake
        raise InvalidInput.received(str(problem), problem.reason, problem.facts) from None


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


@cache
def _nested(kind: Any) -> type[Model]:
    return model_of(kind, f"New{kind.__name__}")  # the public value has the name itself


def _hint(hint: Any) -> Any:
    """Return a type as JSON can carry it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is datetime:
        return Instant
    if hint is timedelta:
        return SpanField
    if origin in (Union, types.UnionType):
        kinds = [each for each in inner if not (each in (float, str) and timedelta in inner)]  # one span, in any form
        return Union[tuple(_hint(each) for each in kinds)]  # noqa: UP007 - made of parts
    if origin in (tuple, Sequence):
        return list[_hint(inner[0])]  # type: ignore[misc]  # made of parts
    return _nested(hint) if is_value(hint) else hint
