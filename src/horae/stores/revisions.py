"""Which revisions of the tables a process serves beside its own, while a cluster is migrated database by database.

A migration says two things of itself, beside ``revision``:

``older_code_serves = True``
    Code of the revision before goes on with tables that have it, because it only adds to them. What the oldest such
    code is stands in the database, beside the revision: code cannot know what came after it.

``serves_without = True``
    Code that knows it serves tables that do not have it yet.

What a migration does not say is not so: then the code before is refused, and this code waits for the migration.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, inspect, text

VERSION_TABLE = "horae_version"
VERSIONS = Path(__file__).parent / "migrations" / "versions"
# Every revision, oldest first: a migration's file is named by it. Read from the names, because importing Alembic to ask
# for them costs more than most commands do.
KNOWN = tuple(sorted(file.stem for file in VERSIONS.glob("[0-9]*.py")))
HEAD = KNOWN[-1]

Promise = Literal["older_code_serves", "serves_without"]


@cache
def oldest_code() -> str:
    """Return the oldest revision whose code works with tables of the newest."""
    return _back_while("older_code_serves")


@cache
def oldest_tables() -> str:
    """Return the oldest revision of tables that this code works with."""
    return _back_while("serves_without")


def _back_while(promise: Promise) -> str:
    """Return the revision before the earliest of those that all keep a promise."""
    index = len(KNOWN) - 1
    while index and re.search(rf"^{promise} = True\b", (VERSIONS / f"{KNOWN[index]}.py").read_text(), re.MULTILINE):
        index -= 1
    return KNOWN[index]


def is_served(connection: Connection, found: str) -> bool:
    """Return whether a database whose tables have another revision than this code is served all the same.

    Only one of a cluster is: there processes and databases are upgraded one after the other.
    """
    if not _is_member(connection):
        return False
    if found in KNOWN:
        return found >= oldest_tables()
    return _oldest_of(connection) in KNOWN


def set_oldest(connection: Connection) -> None:
    """Write which code works with these tables, as this code has just made them."""
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET oldest = :oldest"), {"oldest": oldest_code()})


def _is_member(connection: Connection) -> bool:
    return inspect(connection).has_table("horae_cluster") and bool(
        connection.execute(text("SELECT count(*) FROM horae_cluster")).scalar()
    )


def _oldest_of(connection: Connection) -> str | None:
    columns = {each["name"] for each in inspect(connection).get_columns(VERSION_TABLE)}
    if "oldest" not in columns:
        return None
    found = connection.execute(text(f"SELECT oldest FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)
