"""The columns of a batch as PostgreSQL array literals, for ``unnest``.

psycopg adapts a list element by element in Python, 0.7 µs each; for the thirty columns of a job that was most of the
cost of a bulk enqueue. Here a column becomes text in one pass; one that holds a single value, as most do, costs
nothing; and one of nothing but NULL is NULL itself, which ``unnest`` fills up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def arrays(rows: Iterable[Sequence[Any]]) -> list[str | None]:
    """Return one array literal for each column of these rows, of which there is at least one."""
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> str | None:
    first = column[0]
    if column.count(first) == len(column):
        return None if first is None else "{" + ",".join([_element(first)] * len(column)) + "}"
    return "{" + ",".join(map(_element, column)) + "}"


def _element(value: str | int | None) -> str:
    if type(value) is int:
        return str(value)
    if value is None:
        return "NULL"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
