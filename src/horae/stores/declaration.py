"""One declaration per table: its fields, each with a column and a codec.

The table, the list of columns to select, the rows to insert and the values made of rows follow from it, so that a new
field is one line. Whatever can be worked out beforehand is worked out when the module is imported: what runs for each
row is a closure over a few tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Flag, auto
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Connection, MetaData, Table, event, false
from sqlalchemy.schema import SchemaItem

from horae.stores.codecs import Codec, Json
from horae.stores.databases.dialects import Dialect

V = TypeVar("V")
metadata = MetaData()
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE = {"charset": "utf8mb4", "collate": "utf8mb4_bin", "engine": "InnoDB"}
OPTIONS = {"mysql": BYTEWISE, "mariadb": BYTEWISE}
# What a table says in its ``info`` whose numbers must not be given again after a row was deleted.
NEVER_AGAIN = {"sqlite": {"autoincrement": True}}


@event.listens_for(metadata, "before_create")
def _set_options(_: MetaData, connection: Connection, **__: Any) -> None:
    """Set the options that one database knows, where tables are made in it.

    As arguments of ``Table`` they would make every process import the dialects of all databases, 60 ms.
    """
    vendor = connection.dialect.name
    for table in metadata.tables.values():
        for option, value in {**OPTIONS, **table.info}.get(vendor, {}).items():
            table.dialect_options[vendor][option] = value
        for index in table.indexes:
            for option, value in index.info.get(vendor, {}).items():
                index.dialect_options[vendor][option] = value


class Mark(Flag):
    """Properties of a field."""

    NONE = 0
    DRAWN = auto()  # the database gives it; it is never written
    FIXED = auto()  # written when the row is made, never changed
    INTERNAL = auto()  # known to the stores only: the core value has no such field
    INSERTED = auto()  # set at enqueue, from the attribute of that name
    ENCODED = auto()  # what is inserted has its stored form already
    EVERY_RUN = auto()  # copied from the job into every row of its history
    FINAL_RUN = auto()  # copied from the job into the last row of its history


class Field:
    """A field of a core value and the column that keeps it.

    *column* is given where its name differs, *source* where what is written comes from another attribute (a dotted
    path, perhaps); *options* are those of the SQLAlchemy column.
    """

    __slots__ = ("codec", "column", "marks", "name", "options", "required", "source")

    def __init__(
        self,
        name: str,
        codec: Codec,
        marks: Mark = Mark.NONE,
        *,
        column: str = "",
        source: str = "",
        required: bool = False,
        **options: Any,
    ) -> None:
        self.name = name
        self.codec = codec
        self.marks = marks
        self.column = column or name
        self.source = source or name
        self.required = required
        self.options = options

    def make_column(self) -> Column[Any]:
        nullable = not self.required and not self.options.get("primary_key", False)
        return Column(self.column, self.codec.type, nullable=nullable, **self.options)

    def copy(self, marks: Mark = Mark.NONE, *, required: bool = False) -> Field:
        """Return the same field for another table."""
        return Field(self.name, self.codec, marks, column=self.column, required=required)

    @property
    def is_written(self) -> bool:
        """Whether a row made of a core value has it."""
        return Mark.DRAWN not in self.marks and (Mark.INTERNAL not in self.marks or self.source != self.name)


class Writer:
    """The stored values of some fields of a value; ``values`` puts what else it is given behind them."""

    __slots__ = ("columns", "values")

    def __init__(self, written: Sequence[Field]) -> None:
        self.columns = tuple(each.column for each in written)
        self.values: Callable[..., list[Any]] = _encoder(written)

    def row(self, value: Any) -> dict[str, Any]:
        """Return the values by the names of their columns."""
        return dict(zip(self.columns, self.values(value), strict=True))


class Reader(Generic[V]):
    """Reads values from rows: the columns of a value in the order of the query, and how to decode them.

    *absent* names the fields of the value that the table does not keep; a value that is read has their defaults. A row
    may have more columns behind these; ``read`` does not look at them.
    """

    __slots__ = ("_absent", "_fields", "columns", "read", "select", "table")

    def __init__(
        self,
        table: Table,
        value: type[V],
        known: Iterable[Field],
        *,
        absent: Collection[str] = (),
        make: Callable[..., V] | None = None,
    ) -> None:
        self.table = table
        self._absent = frozenset(absent)
        by_name = {each.name: each for each in known if Mark.INTERNAL not in each.marks}
        _check(table.name, value, by_name, self._absent)
        expected = fields(cast(Any, value))
        kept = [by_name[each.name] for each in expected if each.name not in self._absent]
        gaps = [(index, each.default) for index, each in enumerate(expected) if each.name in self._absent]
        columns = [each.column for each in kept]
        columns += dict.fromkeys(
            each.codec.beside for each in kept if each.codec.beside and each.codec.beside not in columns
        )
        self._fields = {each.name: each for each in kept}
        self.columns = tuple(columns)
        self.select = [table.c[name] for name in columns]
        self.read: Callable[[Sequence[Any]], V] = _decoder(make or value, kept, columns, gaps)

    def __getitem__(self, name: str) -> Column[Any]:
        """Return the column of a field."""
        return self.table.c[self._fields[name].column]

    def sql(self, dialect: Dialect, columns: Iterable[str] = ()) -> str:
        """Return these columns, all of them if none are named, for a driver's select.

        JSON is read as text, so that no driver parses it by itself.
        """
        as_text = dialect.json_as_text.format
        chosen = [self.table.c[name] for name in columns or self.columns]
        return ", ".join(as_text(each.name) if isinstance(each.type, Json) else each.name for each in chosen)

    def equal(self, wanted: Any, *, leave_out: Collection[str] = ()) -> list[ColumnElement[bool]]:
        """Return conditions for every field that a filter and this table both have; None means any value.

        *leave_out* names those that the filter means otherwise.
        """
        if not isinstance(wanted, Mapping):
            wanted = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
        known = (self._fields.keys() | self._absent) - set(leave_out)
        return [self._is(name, value) for name, value in wanted.items() if name in known and value is not None]

    def _is(self, name: str, value: Any) -> ColumnElement[bool]:
        if name in self._absent:
            return false()  # what is not kept here cannot be found here
        write = self._fields[name].codec.write
        found: ColumnElement[bool] = self[name] == (value if write is None else write(value))
        return found

    def unreadable(self, row: Sequence[Any]) -> str | None:
        """Return the first field whose stored value cannot be read; for those who must say where a row is broken."""
        for each, value in zip(self._fields.values(), row, strict=False):
            if each.codec.read is None or each.codec.beside or value is None:
                continue
            try:
                each.codec.read(value)
            except (TypeError, ValueError, OverflowError):
                return each.name
        return None


class Declaration(Reader[V]):
    """A table and the core value that its rows stand for."""

    __slots__ = ("_rows", "changing", "fields")

    def __init__(
        self,
        name: str,
        value: type[V],
        *parts: Field | SchemaItem,
        absent: Collection[str] = (),
        make: Callable[..., V] | None = None,
        **options: Any,
    ) -> None:
        self.fields = tuple(part for part in parts if isinstance(part, Field))
        items = [part.make_column() if isinstance(part, Field) else part for part in parts]
        table = Table(name, metadata, *items, **options)
        super().__init__(table, value, self.fields, absent=absent, make=make)
        written = [each for each in self.fields if each.is_written]
        self._rows = Writer(written)
        self.changing = Writer([each for each in written if Mark.FIXED not in each.marks])

    def condition(self, mark: Mark) -> tuple[Field, ...]:
        return tuple(each for each in self.fields if mark in each.marks)

    def values(self, value: V) -> list[Any]:
        """Return a new row, in the order of ``written``."""
        return self._rows.values(value)

    @property
    def written(self) -> tuple[str, ...]:
        """The columns of a new row."""
        return self._rows.columns

    def row(self, value: V) -> dict[str, Any]:
        """Return a new row by the names of its columns."""
        return self._rows.row(value)

    def changes(self, value: V) -> dict[str, Any]:
        """Return a row without the columns that never change."""
        return self.changing.row(value)


def _check(table: str, value: type[Any], known: Mapping[str, Field], absent: Collection[str]) -> None:
    """Refuse a declaration that forgets a field of its value, or that has one which the value does not have."""
    wanted = {each.name for each in fields(value)} - set(absent)
    for name in sorted(wanted ^ set(known)):
        problem = "has no column; declare it, or list it as absent" if name in wanted else "is no field of the value"
        raise TypeError(f"{table}: {value.__name__}.{name} {problem}")


def _encoder(written: Sequence[Field]) -> Callable[..., list[Any]]:
    """Return a function that makes the stored values of a value."""
    get = attrgetter(*(each.source for each in written))
    writers = tuple(
        (index, each.codec.write)
        for index, each in enumerate(written)
        if each.codec.write is not None and Mark.ENCODED not in each.marks
    )

    def encode(value: Any, *behind: Any) -> list[Any]:
        values = [*get(value), *behind]
        for index, write in writers:
            if values[index] is not None:
                values[index] = write(values[index])
        return values

    return encode


def _decoder(
    make: Callable[..., V], kept: Sequence[Field], columns: Sequence[str], gaps: Sequence[tuple[int, Any]]
) -> Callable[[Sequence[Any]], V]:
    """Return a function that makes a value of a row; it runs for every attempt, so it does nothing twice."""
    assert all(default is not MISSING for _, default in gaps), "a field that is absent needs a default"
    count = len(kept)
    readers = [(index, each, read) for index, each in enumerate(kept) if (read := each.codec.read) is not None]
    pairs = tuple((index, columns.index(each.codec.beside), read) for index, each, read in readers if each.codec.beside)
    alone = [reader for reader in readers if not reader[1].codec.beside]
    always = tuple((index, read) for index, each, read in alone if each.required)
    perhaps = tuple((index, read) for index, each, read in alone if not each.required)
    nulls = tuple((index, each.codec.null) for index, each, _ in alone if each.codec.null is not None)

    def decode(row: Sequence[Any]) -> V:
        values = list(row)
        for index, beside, read in pairs:
            values[index] = read(values[index], values[beside])
        for index, read in always:
            values[index] = read(values[index])
        for index, read in perhaps:
            if values[index] is not None:
                values[index] = read(values[index])
        for index, null in nulls:
            if values[index] is None:
                values[index] = null
        del values[count:]
        for index, default in gaps:
            values.insert(index, default)
        return make(*values)

    return decode
