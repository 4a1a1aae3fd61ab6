"""Say which extra an adapter needs where its framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from horae.errors import MissingExtra


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Turn a failed import of the framework into a sentence with the command that installs it."""
    try:
        yield
    except ImportError as problem:
        raise MissingExtra("adapter_extra_missing", extra=extra, problem=str(problem)) from problem
