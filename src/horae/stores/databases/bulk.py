"""Insert many rows at once, and find many by name, in statements that stay the same however many there are.

Where a database takes arrays, a column of all rows is one parameter. With a parameter for each value, parsing the
statement took most of the time of a bulk import: psycopg reads it in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, CursorResult, Integer, Table, TextClause, insert, text

from horae.stores.codecs import Json
from horae.stores.databases.arrays import arrays
from horae.stores.databases.dialects import BY_NAME

Row = Mapping[str, Any]
Given = dict[str, Any]  # parameters
AT_ONCE = 500  # bound parameters of one statement


def type_of(column: Column[Any]) -> str:
    """Return the type of a column's values in an array that is unnested into rows."""
    kind = column.type
    if isinstance(kind, Json):
        return "json"
    if isinstance(kind, Integer):  # of which the others are kinds
        return "bigint" if isinstance(kind, BigInteger) else "int"
    return "text"


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, all with the same columns."""
    if not rows:
        return
    if BY_NAME[connection.dialect.name].arrays:
        _unnest(connection, table, rows)
    else:
        connection.execute(insert(table), list(rows))


def insert_drawing(connection: Connection, table: Table, rows: Sequence[Row], number: Column[Any]) -> list[int] | None:
    """Insert rows and return the numbers drawn for them in order; None, and nothing done, where that takes arrays."""
    if not rows or not BY_NAME[connection.dialect.name].arrays:
        return None if rows else []
    return [int(row[0]) for row in _unnest(connection, table, rows, f"RETURNING {number.name}")]


def insert_free(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """Insert the rows whose key is free; return how many that were."""
    dialect = BY_NAME[connection.dialect.name]
    before, behind = dialect.insert_ignore
    if dialect.arrays:
        return int(_unnest(connection, table, rows, behind).rowcount) if rows else 0
    taken = 0
    for start in range(0, len(rows), AT_ONCE):
        chunk, names = rows[start : start + AT_ONCE], list(rows[0])
        slots = ", ".join("(" + ", ".join(f":{name}{index}" for name in names) + ")" for index in range(len(chunk)))
        values = {f"{name}{index}": value for index, row in enumerate(chunk) for name, value in row.items()}
        statement = text(f"{before} {table.name} ({', '.join(names)}) VALUES {slots} {behind}")
        taken += connection.execute(statement, values).rowcount
    return taken


def any_of(
    connection: Connection, column: Column[Any], values: Collection[Any]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield conditions, each with its parameters, that together hold for these values of a column."""
    known = sorted(set(values))
    if known and BY_NAME[connection.dialect.name].arrays:
        kind = type_of(column)
        yield (
            text(f"{column.table.name}.{column.name} = ANY(CAST(:known AS {kind}[]))"),
            {"known": arrays((each,) for each in known)[0]},
        )
        return
    for start in range(0, len(known), AT_ONCE):
        yield column.in_(known[start : start + AT_ONCE]), {}


def _unnest(connection: Connection, table: Table, rows: Sequence[Row], behind: str = "") -> CursorResult[Any]:
    names = tuple(rows[0])
    columns = arrays([row[name] for name in names] for row in rows)
    return connection.execute(
        _statement(table, names, behind), {f"c{index}": each for index, each in enumerate(columns)}
    )


@lru_cache(maxsize=256)
def _statement(table: Table, names: tuple[str, ...], behind: str) -> TextClause:
    parts = ", ".join(f"CAST(:c{index} AS {type_of(table.c[name])}[])" for index, name in enumerate(names))
    return text(f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({parts}) {behind}")
