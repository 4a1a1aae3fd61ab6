"""Chores: what is done now and then by one process at a time, whose turn it is, and the line on which leases end."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, SmallInteger, String, Table

from horae.stores.codecs import Name
from horae.stores.declaration import metadata

# Instants are on the lease line, so that no step of a host's clock makes a chore early, late or held for ever.
chores = Table(
    "horae_chores",
    metadata,
    Column("name", Name, primary_key=True),
    Column("due_at", BigInteger, nullable=False),
    Column("leased_until", BigInteger, nullable=False, server_default="0"),  # 0: no process is at it
    Column("token", String(64), nullable=False, server_default=""),
    Column("holder", Name, nullable=False, server_default=""),
    Column("done_at", BigInteger),  # when it last ended without an error
)

# SQLite: the start of the boot to which its leases belong, by the clock when it was first stored. One row.
lease_line = Table(
    "horae_lease_line",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("boot", String(64), nullable=False),
    Column("began_at", BigInteger, nullable=False),
)
