"""Helpers for frozen values: a quicker constructor for the hot path, and their JSON form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from operator import attrgetter
from typing import Any, ParamSpec, TypeVar, cast

from horae.core.dataclass import default_of

P = ParamSpec("P")
T = TypeVar("T")
# How pydantic is to read dataclasses where a service or an MCP server shows them: spans as seconds.
PYDANTIC = {"ser_json_timedelta": "float"}


def swift(value: Callable[P, T]) -> Callable[P, T]:
    """Return a second constructor for a frozen dataclass with slots: the same value for a fifth of the time.

    The one that ``dataclass`` writes stores every field through ``object.__setattr__``; for a job that took 5 µs, an
    eighth of what a whole job may cost (docs/decisions/0021-swift-values.md). This one fills an open twin with the
    same slots, which then becomes what it stands for.
    """
    frozen = cast(Any, value)

    def become(made: Any) -> None:
        made.__class__ = frozen

    return make_dataclass(
        frozen.__name__,
        [(each.name, Any, field(**default_of(each))) for each in fields(frozen)],
        repr=False,  # these two and match_args: the twin lives for a moment, and writing methods takes its time
        eq=False,
        match_args=False,
        slots=True,
        namespace={"__post_init__": become, "__doc__": frozen.__doc__},  # else it is made from the signature, slowly
    )


def replacing(value: type[T], make: Callable[..., T] | None = None) -> Callable[..., T]:
    """Return what :func:`dataclasses.replace` does for a frozen dataclass with slots, for a sixth of the time.

    Of an object with sixty fields ``replace`` takes 14 µs, and proposing one replaces it half a dozen times.
    """
    names = [each.name for each in fields(cast(Any, value))]
    index = {name: place for place, name in enumerate(names)}
    read, quick = attrgetter(*names), make or swift(cast(Callable[..., T], value))

    def changed(it: T, **changes: Any) -> T:
        values = list(read(it))
        for name, each in changes.items():
            values[index[name]] = each
        return quick(*values)

    return changed
