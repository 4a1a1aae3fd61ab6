"""What an operation says of several databases: how it asks all of them, and how their answers and rows become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horae.api.here import Here


@dataclass(frozen=True)
class Merged:
    """One answer of those that several databases gave, and the names of the databases that gave none."""

    answer: Any
    incomplete: tuple[str, ...] = ()


def over_all(verb: Callable[[Here], Any], merge: Callable[[list[Any]], Any]) -> Callable[[Here], Merged]:
    """Return what runs a verb in every database of a cluster and merges the answers; see ``api/shards.py``."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import gather_all  # a single database does not need it

        return gather_all(here, verb, merge)

    return gather


@dataclass(frozen=True)
class Join:
    """How rows of several databases that are about one thing become one row of a list.

    It stands where its first row would: those of other databases are added to that one, and left out further on.
    """

    key: Callable[[Any], Any]  # what is the same in all of its rows
    fetch: Callable[[Here, list[Any]], Iterable[Any]]  # the rows with these keys in a database, whether listed or not
    merge: Callable[[list[Any]], Any]
    fits: Callable[[Any], bool] = lambda row: True  # whether the list has a row; also asked of what they are together


def shared_out(
    most: int | None, act: Callable[[Here, int | None], Any], merge: Callable[[list[Any]], Any]
) -> Callable[[Here], Merged]:
    """Return what gives each database of a cluster its share of a limit, and merges the answers."""

    def gather(here: Here) -> Merged:
        from horae.api.shards import share_out

        return share_out(here, most, act, merge)

    return gather
