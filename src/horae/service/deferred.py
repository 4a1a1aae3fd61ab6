"""Build the validators of the routes at their first use instead of at start.

FastAPI builds one for each parameter, body and answer when a route is declared, several hundred of them: most of the
processor time that a service takes to start, for routes of which most processes serve a few.
"""

from __future__ import annotations

from typing import Any

from fastapi._compat.v2 import ModelField

_build = ModelField.__post_init__


class _Deferred:
    """Stands in for a field's validator until its first use; what is built then hides it."""

    def __get__(self, field: ModelField | None, owner: type[ModelField]) -> Any:
        if field is None:
            return self
        _build(field)
        return vars(field)["_type_adapter"]


def defer_validators() -> None:
    """Let fields that are declared from now on build their validators when these are used. Repeating it is harmless."""
    ModelField.__post_init__ = lambda self: None  # type: ignore[method-assign]  # on purpose
    ModelField._type_adapter = _Deferred()  # type: ignore[assignment]  # a descriptor
