"""Insert many rows at once, and find many by name, in statements that stay the same however many there are.

Where a database takes arrays, a column of all rows is one parameter. With a parameter for each value, parsing the
statement took most of the time of a bulk import: psycopg reads it in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Integer,
    Select,
    Table,
    TextClause,
    func,
    insert,
    literal_column,
    select,
    text,
    true,
)

from horae.stores.codecs import Json
from horae.stores.databases.arrays import arrays
from horae.stores.databases.dialects import BY_NAME

Values = Mapping[str, Any]
AT_ONCE = 500  # bound parameters of one statement
MANY = 50  # values that are worth a plan of their own


def type_of(column: ColumnElement[Any]) -> str:
    """Return the type of a column's values in an array that is unnested into rows."""
    kind = column.type
    if isinstance(kind, Json):
        return "json"
    if isinstance(kind, Integer):  # of which the others are kinds
        return "bigint" if isinstance(kind, BigInteger) else "int"
    return "text"


def insert_rows(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """Insert rows, all with the same columns."""
    if not rows:
        return
    if BY_NAME[connection.dialect.name].arrays:
        _unnest(connection, table, rows)
    else:
        connection.execute(insert(table), list(rows))


def insert_drawing(
    connection: Connection, table: Table, rows: Sequence[Values], number: Column[Any]
) -> list[int] | None:
    """Insert rows and return the numbers drawn for them in order; None, and nothing done, where that takes arrays."""
    if not rows or not BY_NAME[connection.dialect.name].arrays:
        return None if rows else []
    return [int(row[0]) for row in _unnest(connection, table, rows, f"RETURNING {number.name}")]


def insert_free(connection: Connection, table: Table, rows: Sequence[Values]) -> int:
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


def find_by(
    connection: Connection,
    query: Select[Any],
    column: ColumnElement[Any],
    values: Collection[Any],
    *,
    each: bool = False,
) -> Iterator[Any]:
    """Yield what a query finds for these values of a column, in no order.

    With *each* every value is looked up by itself, where the database can, so that the planner has no choice but the
    index; for columns whose index nothing else resembles, or it would read the rows of an owner for every value.
    """
    known = sorted(set(values))
    dialect = BY_NAME[connection.dialect.name]
    if len(known) < MANY or not dialect.arrays:
        for start in range(0, len(known), AT_ONCE):
            yield from connection.execute(query.where(column.in_(known[start : start + AT_ONCE])))
        return
    connection.execute(text(dialect.fresh_plans))  # not those that were made when the table was empty
    array, given = _array_of("known", column), {"known": _one_array(known)}
    if each:
        values_given = func.unnest(text(array)).table_valued("value", name="given").render_derived()
        one = query.where(column == values_given.c.value).offset(literal_column("0")).lateral("found")
        yield from connection.execute(select(one).select_from(values_given).join(one, true()), given)
    else:
        once = text(f"ANY(ARRAY(SELECT unnest({array})))")  # a subquery, or it would be read again for every row
        yield from connection.execute(query.where(column == once), given)


def _array_of(parameter: str, column: ColumnElement[Any]) -> str:
    """Return SQL that reads an array literal; as text first, because a caller's driver may want a list otherwise."""
    return f"CAST(CAST(:{parameter} AS text) AS {type_of(column)}[])"


def _one_array(values: Sequence[Any]) -> str | None:
    (given,) = arrays((each,) for each in values)
    return given


def _unnest(connection: Connection, table: Table, rows: Sequence[Values], behind: str = "") -> CursorResult[Any]:
    names = tuple(rows[0])
    columns = arrays([row[name] for name in names] for row in rows)
    return connection.execute(
        _statement(table, names, behind), {f"c{index}": each for index, each in enumerate(columns)}
    )


@lru_cache(maxsize=256)
def _statement(table: Table, names: tuple[str, ...], behind: str) -> TextClause:
    parts = ", ".join(_array_of(f"c{index}", table.c[name]) for index, name in enumerate(names))
    return text(f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({parts}) {behind}")
