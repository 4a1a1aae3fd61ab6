"""Attention: facts keep what Horae adds apart from their data; a lane knows which kinds of tasks its driver serves.

Revision ID: 0007
Revises: 0006

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Column, Text, inspect
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"


LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def columns() -> list[tuple[str, Column[Any]]]:
    """The new columns with their tables; made anew each time, because a column belongs to one operation."""
    return [("horae_facts", Column("about", LongText)), ("horae_lanes", Column("kinds", Json))]


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    for table, column in columns():
        if column.name not in {known["name"] for known in inspect(bind).get_columns(table)}:
            op.add_column(table, column)


def downgrade() -> None:
    for table, column in columns():
        op.drop_column(table, str(column.name))
