"""The jobs that one was enqueued after, as its handler reads them."""

from __future__ import annotations

from typing import Any

from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC

MOST_PARENTS = 1000
MOST_BYTES = 16 * 1024 * 1024  # of the results of all parents together


@dataclass(frozen=True, slots=True)
class ParentResult:
    """A job that had to end first: what it returned, or why it did not succeed.

    ``state`` is None where it is no longer on record; then there is neither result nor error.
    """

    __pydantic_config__ = PYDANTIC

    id: str
    state: str | None = None
    handler: str | None = None
    result: Any = None
    error: str | None = None
