"""Write a database into a file of JSON lines: one moment of it, page by page, while others work on it.

The first line says what it is, then comes one line for each row, and the last line has the counts and the SHA-256 of
all bytes before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Engine, and_, func, or_, select, text

from horae.core.dataclass import dataclass
from horae.stores.databases.dialects import BY_NAME
from horae.stores.jobs.totals import not_counted
from horae.stores.schema import HEAD, lift_timeouts, require_current, translate_errors
from horae.stores.tables.jobs import runs
from horae.stores.transfer.rows import Form, forms
from horae.version import VERSION

FORMAT = 1
PAGE = 500  # rows
Progress = Callable[[int, int], None]  # rows written, rows in all


class Out(Protocol):
    """Where the lines go."""

    def write(self, data: bytes, /) -> Any: ...


@dataclass
class Written:
    """What a file holds."""

    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def export(engine: Engine, out: Out, *, created_at: str, progress: Progress | None = None) -> Written:
    """Write all rows as of one moment; no other transaction waits for it."""
    require_current(engine)
    written, digest = Written(), hashlib.sha256()

    def write(line: dict[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        digest.update(data)
        written.bytes += len(data)
        out.write(data)

    with translate_errors(), _one_moment(engine) as connection:
        kept = forms().values()
        total = sum(_count(connection, form) for form in kept)
        numbers = {form.name: highest_number(connection, form) for form in kept if form.draws_numbers}
        head = {
            "horae_export": FORMAT,
            "schema": HEAD,
            "version": VERSION,
            "created_at": created_at,
            "numbers": numbers,
        }
        write(head)
        for form in kept:
            written.counts[form.name] = 0
            for row in _rows(connection, form):
                write({"table": form.name, "row": form.fields_of(row)})
                written.counts[form.name] += 1
                if progress is not None and written.counts[form.name] % PAGE == 0:
                    progress(written.rows, total)
    out.write(json.dumps({"counts": written.counts, "sha256": digest.hexdigest()}).encode() + b"\n")
    return written


@contextmanager
def _one_moment(engine: Engine) -> Iterator[Connection]:
    snapshot = BY_NAME[engine.dialect.name].snapshot
    options: dict[str, Any] = {"horae_reading": True} if snapshot is None else {"isolation_level": snapshot}
    with engine.connect().execution_options(**options) as connection, connection.begin(), lift_timeouts(connection):
        yield connection


def _count(connection: Connection, form: Form) -> int:
    return int(connection.execute(select(func.count()).select_from(form.table).where(*_kept(form))).scalar_one())


def _kept(form: Form) -> list[ColumnElement[bool]]:
    """Return the condition for rows that go into the file: runs that are counted already would be counted twice."""
    return [not_counted()] if form.table is runs else []


def highest_number(connection: Connection, form: Form) -> int:
    """Return the highest number that a table has drawn, also for rows that are gone."""
    drawn = connection.execute(
        text(BY_NAME[connection.dialect.name].drawn_number.format(table=form.table.name))
    ).scalar()
    stored = connection.execute(select(func.max(form.key[0]))).scalar()
    return max(int(drawn or 0), int(stored or 0))


def _rows(connection: Connection, form: Form) -> Iterator[tuple[Any, ...]]:
    """Yield all rows along the primary key, in pages: no driver has to keep a whole table."""
    columns, key = list(form.columns.values()), form.key
    places = [columns.index(each) for each in key]
    after: list[ColumnElement[bool]] = []
    while True:
        page = connection.execute(select(*columns).where(*_kept(form), *after).order_by(*key).limit(PAGE)).all()
        yield from (tuple(row) for row in page)
        if len(page) < PAGE:
            return
        last = [page[-1][place] for place in places]
        after = [key[0] >= last[0], _behind(list(zip(key, last, strict=True)))]


def _behind(values: list[tuple[Any, Any]]) -> ColumnElement[bool]:
    """Return the condition for keys behind one, written out: not every database walks an index by (a, b) > (1, 2)."""
    (column, value), *rest = values
    behind: ColumnElement[bool] = column > value
    return or_(behind, and_(column == value, _behind(rest))) if rest else behind
