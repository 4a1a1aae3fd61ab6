"""Make verbs that call several reads consistent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from horae.ports.world import World

P = ParamSpec("P")
T = TypeVar("T")


def moment(world: World) -> AbstractContextManager[None]:
    """Make all reads of this thread inside the block consistent."""
    return world.route().store.moment()


def one_moment(verb: Callable[Concatenate[World, P], T]) -> Callable[Concatenate[World, P], T]:
    """Run all reads of a read-only verb, also those of verbs that it calls, in one consistent transaction."""

    @wraps(verb)
    def read(world: World, /, *arguments: P.args, **options: P.kwargs) -> T:
        with moment(world):
            return verb(world, *arguments, **options)

    return read
