"""Rows that draw a number: in a cluster the number carries their virtual shard, which they enter by drawing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

if TYPE_CHECKING:
    from horae.stores.cluster.shard import Entrance

NUMBER = "id"


class NumberedRows:
    """The rows of a room inside one transaction; without an *entrance* the database numbers new ones."""

    def __init__(self, connection: Connection, entrance: Entrance | None = None) -> None:
        self.connection = connection
        self.entrance = entrance

    def with_number(self, row: dict[str, Any], owner: str) -> dict[str, Any]:
        """Return a new row with its number, where it is not for the database to give one."""
        if self.entrance is None:
            return row
        return {NUMBER: self.entrance.number(self.connection, owner)[0], **row}

    def with_own_number(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a new row, which every database has for itself, with its number."""
        return row if self.entrance is None else {NUMBER: self.entrance.number_of_copy(self.connection), **row}


def with_numbers(numbers: Sequence[int], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return rows with their numbers in front."""
    return [[number, *row] for number, row in zip(numbers, rows, strict=True)]
