"""Read a file that ``export`` wrote into an empty database.

The file is read twice: first to its end, to check it, then to write its rows, all in one transaction. Numbers and
tokens jump above everything that the old database has handed out, as after a restore (:mod:`horae.stores.backup`): a
worker that still has jobs of the old one is refused here, and what was running is due to be handed on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, text
from sqlalchemy.exc import DataError, IntegrityError

from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.errors import InvalidInput, NotAllowed, NotFound, StoreError
from horae.stores.audit import Audit
from horae.stores.backup import JUMP
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.sqlite import LONG_AGO
from horae.stores.schema import lock_migrations, require_current, translate_errors
from horae.stores.transfer.export import FORMAT, Progress
from horae.stores.transfer.rows import LEFT_OUT, PREFIX, Form, forms

BATCH = 500  # rows of one statement


@dataclass
class Checked:
    """A file that was read to its end and found whole."""

    path: Path
    schema: str
    version: str
    created_at: str
    sha256: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def check(path: Path) -> Checked:
    """Read a file to its end; whatever is not a whole file of ours, of a format that is known here, is refused."""
    if not path.is_file():
        raise NotFound("backup_missing", path=str(path))
    found: Checked | None = None
    counts = dict.fromkeys((*forms(), *_left_out()), 0)
    digest, trailer = hashlib.sha256(), None
    with path.open("rb") as file:
        for line, data in enumerate(file, 1):
            if trailer is not None:
                raise InvalidInput("export_goes_on", path=str(path), line=line)
            value = _object(path, line, data)
            if found is None:
                found = _head(path, value)
            elif "sha256" in value:
                trailer = value
                continue
            else:
                name, form, row = _row(path, line, value)
                if form is not None:
                    form.row_from(line, row)
                counts[name] += 1
            digest.update(data)
    if found is None or trailer is None:
        raise InvalidInput("export_cut_off", path=str(path))
    if trailer["sha256"] != digest.hexdigest():
        raise InvalidInput("export_changed", path=str(path))
    expected = {name: count for name, count in trailer.get("counts", {}).items() if count}
    if expected != {name: count for name, count in counts.items() if count}:
        raise InvalidInput("export_counts_differ", path=str(path))
    found.counts = {name: counts[name] for name in forms()}
    found.sha256 = digest.hexdigest()
    return found


def load(
    engine: Engine,
    checked: Checked,
    *,
    progress: Progress | None = None,
    entry: Callable[[int], Entry] | None = None,
) -> int:
    """Write the rows of a checked file, all or none; return how many jobs were running when it was made.

    *entry* makes the audit entry, of that number; it commits with the rows.
    """
    require_current(engine)
    running = done = 0
    with translate_errors(), lock_migrations(engine) as connection:
        _refuse_rows(connection, checked)
        _continue_numbers(connection, checked)
        for form, rows in _batches(checked.path):
            running += sum(_fence(form, row) for row in rows)
            _insert(connection, form, rows)
            done += len(rows)
            if progress is not None:
                progress(done, checked.rows)
        if entry is not None:
            Audit(connection).append(entry(running))
    return running


def _insert(connection: Connection, form: Form, rows: list[dict[str, Any]]) -> None:
    try:
        connection.execute(insert(form.table), rows)
    except (DataError, IntegrityError) as problem:  # a text may be longer than this database keeps it
        cause = str(problem.orig).splitlines()[0]
        raise StoreError("import_row_refused", table=form.name, problem=cause) from problem


def _refuse_rows(connection: Connection, checked: Checked) -> None:
    taken = [form.name for form in forms().values() if connection.execute(select(form.key[0]).limit(1)).first()]
    if not taken:
        return
    wanted = {"object_id": "horae", "object_type": "database", "verb": "import"}
    for _, entry in Audit(connection).find(**wanted, limit=100, before=None):
        if entry.after.get("sha256") == checked.sha256:  # the process died before it could say so
            raise NotAllowed("import_done_before", path=str(checked.path), at=entry.at.isoformat(), actor=entry.actor)
    raise NotAllowed("import_not_empty", tables=taken)


def _continue_numbers(connection: Connection, checked: Checked) -> None:
    """Let every table draw its numbers above those of the old database; before any row, as it may end a transaction."""
    for form in forms().values():
        if form.draws_numbers:
            number = int(checked.numbers.get(form.name, 0)) + JUMP
            for statement in BY_NAME[connection.dialect.name].continue_after:
                connection.execute(text(statement.format(table=form.table.name, number=number)))


def _fence(form: Form, row: dict[str, Any]) -> bool:
    """Let no token of the old database count in the new one; return whether the row is a running job."""
    if form.name == "lanes" and row["leased_until"] is not None:
        row["leased_until"] = LONG_AGO
    if form.name != "jobs":
        return False
    row["token"] += JUMP
    if row["state"] != "running":
        return False
    row["leased_until"] = LONG_AGO
    return True


def _batches(path: Path) -> Iterator[tuple[Form, list[dict[str, Any]]]]:
    """Yield the rows of a checked file, table by table."""
    waiting: list[dict[str, Any]] = []
    current: Form | None = None
    with path.open("rb") as file:
        next(file)
        for line, data in enumerate(file, 2):
            value = json.loads(data)
            if value.get("table") in _left_out():
                continue
            form = None if "sha256" in value else forms()[value["table"]]
            if current is not None and waiting and (form is not current or len(waiting) == BATCH):
                yield current, waiting
                waiting = []
            current = form
            if form is not None:
                waiting.append(form.row_from(line, value["row"]))


def _object(path: Path, line: int, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    if line == 1:
        raise InvalidInput("export_not_ours", path=str(path))
    raise InvalidInput("export_line_unreadable", path=str(path), line=line)


def _head(path: Path, value: dict[str, Any]) -> Checked:
    if "horae_export" not in value:
        raise InvalidInput("export_not_ours", path=str(path))
    if value["horae_export"] != FORMAT:
        raise InvalidInput(
            "export_too_new", path=str(path), format=str(value["horae_export"]), version=str(value.get("version", "?"))
        )
    schema, version, created_at = (str(value.get(name, "")) for name in ("schema", "version", "created_at"))
    return Checked(path, schema, version, created_at, numbers=value.get("numbers", {}))


def _left_out() -> set[str]:
    """Return the tables whose rows an older release wrote and this one passes over."""
    return {name.removeprefix(PREFIX) for name in LEFT_OUT}


def _row(path: Path, line: int, value: dict[str, Any]) -> tuple[str, Form | None, dict[str, Any]]:
    name, row = value.get("table"), value.get("row")
    if not isinstance(name, str) or not isinstance(row, dict):
        raise InvalidInput("export_line_unreadable", path=str(path), line=line)
    form = forms().get(name)
    if form is None and name not in _left_out():
        raise InvalidInput("export_table_unknown", line=line, table=name)
    return name, form, row
