"""A driver connection with the three calls that the hot statements need.

Statements are written once with ``%s``; a database with another placeholder gets them translated, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import TextClause, text


@lru_cache(maxsize=512)
def adapt_placeholders(sql: str, placeholder: str) -> str:
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
            cursor.execute(adapt_placeholders(sql, self.placeholder), tuple(parameters))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it touched."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(adapt_placeholders(sql, self.placeholder), tuple(parameters))
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        cursor = self.connection.cursor()
        try:
            cursor.executemany(adapt_placeholders(sql, self.placeholder), list(rows))
        finally:
            cursor.close()


class CallerDriver(Driver):
    """The same three calls on a caller's SQLAlchemy connection, whatever driver is behind it."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(*_bound(sql, parameters))]

    def change(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return int(self.connection.execute(*_bound(sql, parameters)).rowcount)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self.connection.execute(*_bound(sql, row))


def _bound(sql: str, parameters: Sequence[Any]) -> tuple[TextClause, dict[str, Any]]:
    """Return a statement with named parameters, which SQLAlchemy translates for every driver."""
    first, *rest = sql.split("%s")
    named = first + "".join(f":p{index}{part}" for index, part in enumerate(rest))
    return text(named), {f"p{index}": value for index, value in enumerate(parameters)}


def marks(count: int) -> str:
    """Return ``%s,%s,%s`` for an IN list."""
    return ",".join(["%s"] * count)
