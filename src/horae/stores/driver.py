"""A driver connection with the three calls that the hot statements need.

Statements are written once with ``%s``; a database with another placeholder gets them translated, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=512)
def translated(sql: str, placeholder: str) -> str:
    return sql.replace("%s", placeholder)


class Driver:
    """Plain DB-API, inside a transaction that somebody else opened."""

    __slots__ = ("connection", "placeholder")

    def __init__(self, connection: Any, placeholder: str = "%s") -> None:
        self.connection = connection
        self.placeholder = placeholder

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        try:
            cursor.execute(translated(sql, self.placeholder), tuple(parameters))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """How many rows the statement touched."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(translated(sql, self.placeholder), tuple(parameters))
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        cursor = self.connection.cursor()
        try:
            cursor.executemany(translated(sql, self.placeholder), list(rows))
        finally:
            cursor.close()


def marks(count: int) -> str:
    """``%s,%s,%s`` for an IN list."""
    return ",".join(["%s"] * count)
