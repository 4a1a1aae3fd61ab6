"""How answers and rows of several databases become one; what asks for them is in ``api/everywhere.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.api.here import Here


@dataclass(frozen=True)
class Merged:
    """One answer of those that several databases gave, and the names of the databases that gave none."""

    answer: Any
    incomplete: tuple[str, ...] = ()
    databases: int | None = None  # that a change is for


@dataclass(frozen=True)
class Join:
    """How rows of several databases that are about one thing become one row of a list.

    It stands where its first row would: those of other databases are added to that one, and left out further on.
    """

    key: Callable[[Any], Any]  # what is the same in all of its rows
    fetch: Callable[[Here, list[Any]], Iterable[Any]]  # the rows with these keys in a database, whether listed or not
    merge: Callable[[list[Any]], Any]
    fits: Callable[[Any], bool] = lambda row: True  # whether the list has a row; also asked of what they are together
    drained: bool = False  # whether databases that keep nothing any more may have such rows, too
