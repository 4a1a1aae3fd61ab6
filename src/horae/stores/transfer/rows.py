"""Which tables go into the file, and how a row of each is written there.

A row has the names of its columns, and its values as they are stored: instants and spans are microseconds, JSON is
text, bytes are base64. So nothing is lost between two databases, and no reader has to know what a value means.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Column, Integer, LargeBinary, SmallInteger, Table

from horae.core.dataclass import dataclass
from horae.errors import InvalidInput
from horae.stores.metadata import metadata  # with every table: a command imports only those that it needs

PREFIX = "horae_"
# Every other table is exported; a table that a release adds is, too, unless it is listed here.
LEFT_OUT = {
    "horae_bus": "the name of the old database in the ids of its events; switch the bus on again",
    "horae_outbox": "events of the old database, which it publishes",
    "horae_cluster": "what the old database is in a cluster",
    "horae_cluster_members": "the databases of the old cluster",
    "horae_vshards": "the map of the old cluster",
    "horae_forwards": "where jobs of the old cluster are",
    "horae_settings": "which settings the databases of the old cluster have agreed on",
    "horae_parcels": "what is on the way between databases of the old cluster; finish moves first",
    "horae_parcel_rows": "what is on the way between databases of the old cluster; finish moves first",
    "horae_calls": "calls of the last minutes, counted anew",
    "horae_counted_partitions": "partitions that are about to be dropped; their runs are left out with them",
    "horae_depths": "counts of live jobs, made anew",
    "horae_labelling": "how far the map of labels reaches",
    "horae_labels": "a map of jobs, made anew",
    "horae_lease_line": "the boot of the machine that keeps the database",
    "horae_locks": "held by processes that work on the old database; they end by themselves",
    "horae_login_codes": "valid for minutes",
    "horae_nodes": "processes that work on the old database; they report to the new one when they start",
    "horae_rates": "names of rate limits, made when they are first used",
    "horae_serving": "leases of workers on the old database; they take new ones",
    "horae_sessions": "browsers that are logged in to the old database; they log in again",
}


@dataclass(frozen=True)
class Form:
    """The form of one table in the file."""

    name: str  # jobs
    table: Table
    columns: Mapping[str, Column[Any]]  # by name

    @property
    def key(self) -> list[Column[Any]]:
        return list(self.table.primary_key.columns)

    @property
    def draws_numbers(self) -> bool:
        return any(each.autoincrement is True for each in self.key)

    def fields_of(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as it is written to the file."""
        values = (base64.b64encode(each).decode() if isinstance(each, bytes) else each for each in row)
        return dict(zip(self.columns, values, strict=True))

    def row_from(self, line: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row to insert, by columns; what an older release did not write has its default."""
        unknown = sorted(given.keys() - self.columns.keys())
        if unknown:
            raise InvalidInput("export_field_unknown", line=line, table=self.name, field=unknown[0])
        row = {}
        for name, column in self.columns.items():
            if name in given:
                row[column.name] = self._value(line, name, given[name])
            elif column.nullable:
                row[column.name] = None
            elif column.server_default is not None:
                row[column.name] = _default(column)
            else:
                raise InvalidInput("export_field_missing", line=line, table=self.name, field=name)
        return row

    def _value(self, line: int, name: str, given: Any) -> Any:
        if not isinstance(self.columns[name].type, LargeBinary) or given is None:
            return given
        try:
            return base64.b64decode(given, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise InvalidInput("export_bytes_unreadable", line=line, table=self.name, field=name) from None


@cache
def forms() -> Mapping[str, Form]:
    """Return the forms of all exported tables, by name; rows that others refer to come first."""
    found = [form_of(table) for table in metadata.sorted_tables if table.name not in LEFT_OUT]
    return {form.name: form for form in found}


def form_of(table: Table) -> Form:
    """Return the form of the rows of one table."""
    return Form(table.name.removeprefix(PREFIX), table, {each.name: each for each in table.columns})


def _default(column: Column[Any]) -> Any:
    default: Any = column.server_default
    text = str(getattr(default.arg, "text", default.arg)).strip("'")
    return int(text) if isinstance(column.type, Integer | SmallInteger) else text
