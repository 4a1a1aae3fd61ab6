"""Insert many rows at once, and find many by name, in statements that stay the same however many there are.

Where a database takes arrays, a column of all rows is one parameter. With a parameter for each value, parsing the
statement took most of the time of a bulk import: psycopg reads it in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    true,
    update,
)

from horae.stores.codecs import Json
from horae.stores.databases.arrays import arrays
from horae.stores.databases.dialects import BY_NAME

Values = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]  # each in the order of the names of the columns
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


def unnested(table: Table, names: Iterable[str]) -> str:
    """Return a parameter for each column, all its values in one array."""
    return ", ".join(f"%s::{type_of(table.c[name])}[]" for name in names)


def insert_rows(connection: Connection, table: Table, names: Sequence[str], rows: Rows) -> None:
    """Insert rows of these columns."""
    if not rows:
        return
    if BY_NAME[connection.dialect.name].arrays:
        _unnest(connection, table, tuple(names), rows)
    else:
        connection.execute(insert(table), by_column(names, rows))


def insert_drawing(
    connection: Connection, table: Table, names: Sequence[str], rows: Rows, number: Column[Any]
) -> list[int] | None:
    """Insert rows and return the numbers drawn for them in order; None, and nothing done, where that takes arrays."""
    if not rows or not BY_NAME[connection.dialect.name].arrays:
        return None if rows else []
    return [int(row[0]) for row in _unnest(connection, table, tuple(names), rows, f"RETURNING {number.name}")]


def by_column(names: Sequence[str], rows: Rows) -> list[dict[str, Any]]:
    """Return rows by the names of their columns."""
    return [dict(zip(names, row, strict=True)) for row in rows]


def insert_free(connection: Connection, table: Table, rows: Sequence[Values]) -> int:
    """Insert the rows whose key is free, all with the same columns; return how many that were."""
    if not rows:
        return 0
    dialect, names = BY_NAME[connection.dialect.name], tuple(rows[0])
    before, behind = dialect.insert_ignore
    if dialect.arrays:
        return int(_unnest(connection, table, names, [list(row.values()) for row in rows], behind).rowcount)
    slots = ", ".join(f":{name}" for name in names)
    statement = text(f"{before} {table.name} ({', '.join(names)}) VALUES ({slots}) {behind}")
    return int(connection.execute(statement, list(rows)).rowcount)


def update_rows(
    connection: Connection,
    table: Table,
    names: Sequence[str],
    rows: Rows,
    number: Column[Any],
    fence: Column[Any],
    known: Sequence[tuple[int, int]],
) -> int:
    """Write rows of these columns over those of a number and a known fence; return how many were found."""
    fenced = [[*which, *row] for which, row in zip(known, rows, strict=True)]
    if BY_NAME[connection.dialect.name].arrays:
        given = {f"c{index}": each for index, each in enumerate(arrays(fenced))}
        return int(connection.execute(_change(table, tuple(names), number, fence), given).rowcount)
    change = update(table).where(number == bindparam("_number"), fence == bindparam("_fence"))
    return int(connection.execute(change, by_column(["_number", "_fence", *names], fenced)).rowcount)


def find_by(
    connection: Connection,
    query: Select[Any],
    column: ColumnElement[Any],
    values: Collection[Any],
    *,
    each: bool = False,
) -> Iterator[Any]:
    """Yield what a query finds for these values of a column, in no order.

    With *each* every value is looked up by itself, where the database can, and in the order of the column: only its own
    index gives that. Before a table was analyzed a planner takes any index of the owner for as good, and would read all
    rows of the owner for every value.
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
        alike = query.where(column.between(values_given.c.value, values_given.c.value)).order_by(column)
        one = alike.offset(literal_column("0")).lateral("found")
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


def _unnest(
    connection: Connection, table: Table, names: tuple[str, ...], rows: Rows, behind: str = ""
) -> CursorResult[Any]:
    given = {f"c{index}": each for index, each in enumerate(arrays(rows))}
    return connection.execute(_statement(table, names, behind), given)


@lru_cache(maxsize=256)
def _statement(table: Table, names: tuple[str, ...], behind: str) -> TextClause:
    parts = _arrays_of([table.c[name] for name in names])
    return text(f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({parts}) {behind}")


@lru_cache(maxsize=256)
def _change(table: Table, names: tuple[str, ...], number: Column[Any], fence: Column[Any]) -> TextClause:
    parts = _arrays_of([number, fence, *(table.c[name] for name in names)])
    given = ", ".join(["which", "fence", *(f"v{index}" for index in range(len(names)))])
    values = ", ".join(f"{name} = given.v{index}" for index, name in enumerate(names))
    return text(
        f"UPDATE {table.name} SET {values} FROM unnest({parts}) AS given ({given}) "
        f"WHERE {table.name}.{number.name} = given.which AND {table.name}.{fence.name} = given.fence"
    )


def _arrays_of(columns: Sequence[Column[Any]]) -> str:
    return ", ".join(_array_of(f"c{index}", each) for index, each in enumerate(columns))
