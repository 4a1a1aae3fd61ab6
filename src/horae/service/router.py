"""Routers whose routes build their validators at first use.

FastAPI builds one for each parameter, body and answer when a route is declared: with several hundred of them that is
most of the processor time that a service takes to start, and most processes serve a few routes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter
from fastapi._compat.v2 import ModelField
from fastapi.routing import APIRoute

_declaring = threading.RLock()
_build = ModelField.__post_init__


class _AtFirstUse:
    """Stands for the validator of a field that was declared without one; what it builds takes its place."""

    def __get__(self, field: ModelField | None, owner: type[ModelField]) -> Any:
        if field is None:
            return self
        _build(field)
        return vars(field)["_type_adapter"]


@contextmanager
def _without_validators() -> Iterator[None]:
    with _declaring:
        ModelField.__post_init__ = lambda self: None  # type: ignore[method-assign]  # on purpose
        try:
            yield
        finally:
            ModelField.__post_init__ = _build  # type: ignore[method-assign]  # as it was


class Route(APIRoute):
    """A route that is declared without building its validators. Routes of an application around us are as ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with _without_validators():
            super().__init__(*arguments, **options)


def make_router(**options: Any) -> APIRouter:
    """Return a router for one room of the service."""
    return APIRouter(route_class=Route, **options)


ModelField._type_adapter = _AtFirstUse()  # type: ignore[assignment]  # a descriptor
