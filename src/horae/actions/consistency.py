"""Make verbs that call several reads consistent."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from horae.ports import World

P = ParamSpec("P")
T = TypeVar("T")


def one_moment(verb: Callable[Concatenate[World, P], T]) -> Callable[Concatenate[World, P], T]:
    """Run all reads of a read-only verb, also those of verbs that it calls, in one consistent transaction."""

    @wraps(verb)
    def read(world: World, /, *arguments: P.args, **options: P.kwargs) -> T:
        with world.route().store.moment():
            return verb(world, *arguments, **options)

    return read
