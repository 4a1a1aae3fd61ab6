"""A migrated SQLite file to copy: making the tables anew for each of thousands of tests took minutes."""

import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.stores.store import SqlStore


def put_tables(file: Path) -> str:
    """Return the URL of a new database that has its tables already."""
    shutil.copyfile(_template(), file)
    return f"sqlite:///{file}"


def open_in_memory() -> SqlStore:
    """Open a store in memory whose tables are a copy of the migrated file."""
    engine = create_store_engine("sqlite://")
    with engine.connect() as connection, sqlite3.connect(_template()) as template:
        memory = connection.connection.driver_connection
        assert isinstance(memory, sqlite3.Connection)
        template.backup(memory)
    template.close()
    return open_store(engine)


@cache
def _template() -> Path:
    file = Path(tempfile.mkdtemp(prefix="horae-template-")) / "horae.db"
    engine = create_store_engine(f"sqlite:///{file}")
    migrate(engine)
    engine.dispose()  # the last connection takes the log along: the file is whole
    return file
