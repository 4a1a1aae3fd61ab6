"""A process loads the database that it uses, and no other: each dialect costs megabytes and tens of milliseconds."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from horae.stores.databases.dialects import NO_ROOM

EVERY_TABLE = "import sys; import horae, horae.stores.metadata; print(*sys.modules)"


@pytest.mark.slow
def test_the_tables_load_no_dialect_and_no_driver() -> None:
    found = subprocess.run([sys.executable, "-c", EVERY_TABLE], capture_output=True, text=True, check=True)
    loaded = found.stdout.split()
    assert "horae.stores.tables.attention" in loaded
    assert not {"sqlite3", "psycopg", "pymysql"} & set(loaded)
    assert not [name for name in loaded if name.startswith("sqlalchemy.dialects.")]


def test_the_numbers_that_say_no_room_are_sqlite_s_own() -> None:
    assert {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE} == NO_ROOM
