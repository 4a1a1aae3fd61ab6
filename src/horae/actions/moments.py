"""What is put together from several looks shows one moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from horae.ports import World

P = ParamSpec("P")
T = TypeVar("T")


def one_moment(verb: Callable[Concatenate[World, P], T]) -> Callable[Concatenate[World, P], T]:
    """Let everything that a verb reads, also through other verbs, be of one moment. For verbs that only look."""

    @wraps(verb)
    def look(world: World, /, *arguments: P.args, **options: P.kwargs) -> T:
        with world.store.moment():
            return verb(world, *arguments, **options)

    return look
