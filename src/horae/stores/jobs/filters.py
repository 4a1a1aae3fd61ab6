"""Filters of jobs as conditions of SQL, for live and for finished jobs alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Integer, Text, and_, false, func, not_, or_, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from horae.core.cluster.numbers import read_number
from horae.core.jobs.filters import COMPUTED, Between, Term
from horae.core.jobs.filters import Text as Wanted
from horae.core.jobs.job import Job, band_of
from horae.stores.databases.dialects import BY_NAME
from horae.stores.declaration import Reader

COLUMNS = {"created": "created_at", "due": "run_at", "ended": "finished_at"}


class Position(FunctionElement[int]):
    """Where a text begins in another, from 1 on, compared byte by byte; LIKE would ignore case on some databases."""

    type = Integer()
    inherit_cache = True


@compiles(Position)
def _position(element: Position, compiler: Any, **options: Any) -> str:
    dialect = BY_NAME[compiler.dialect.name]
    column, text = (compiler.process(part, **options) for part in element.clauses)
    return f"{dialect.position_function}({dialect.json_as_text.format(column)}, {text})"


def holds_tag(column: Any, tag: str, *, is_prefix: bool = False) -> ColumnElement[bool]:
    """Look for a tag in the text of a JSON list.

    Its opening quote follows a bracket, a comma or a space; a quote inside of another tag follows a backslash.
    """
    quoted = json.dumps(tag, ensure_ascii=False)
    begins = quoted[:-1] if is_prefix else quoted
    return or_(*(contains(column, sign + begins) for sign in "[, "))


def contains(column: Any, text: str) -> ColumnElement[bool]:
    return func.coalesce(Position(type_coerce(column, Text), text), 0) > 0


def conditions(reader: Reader[Job], terms: Iterable[Term]) -> list[ColumnElement[bool]]:
    """Return one condition for each term; :func:`horae.core.jobs.filters.holds` says the same of one job.

    For a field that no table has, more is found than fits.
    """
    terms = [term for term in terms if not (term.is_excluded and term.field in COMPUTED)]
    return [_excluded(_holds(reader, term)) if term.is_excluded else _holds(reader, term) for term in terms]


def _excluded(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Turn a condition round; where it compares with NULL it does not hold, so that its opposite does."""
    return not_(func.coalesce(condition, false()))


def _holds(reader: Reader[Job], term: Term) -> ColumnElement[bool]:
    if isinstance(term, Between):
        column: ColumnElement[int] = reader[COLUMNS.get(term.field, term.field)]
        least = [] if term.least is None else [column >= term.least]
        below = [] if term.below is None else [column < term.below]
        return and_(*least, *below)
    return or_(*(_fits(reader, term.field, wanted) for wanted in term.texts))


def _fits(reader: Reader[Job], field: str, wanted: Wanted) -> ColumnElement[bool]:
    match field:
        case "tag":
            return holds_tag(reader["tags"], wanted.text, is_prefix=wanted.is_prefix)
        case "object":
            return _object(reader, wanted)
        case "error":
            return contains(reader["last_error"], wanted.text)
        case "fingerprint":
            return _true(reader["last_error"].is_not(None))
        case "priority":
            return _true(reader["priority"] == band_of(wanted.text))
        case "id":
            return _id(reader["number"], wanted)
    return _text(reader[field], wanted)


def _text(column: Any, wanted: Wanted) -> ColumnElement[bool]:
    begins = func.substr(column, 1, len(wanted.text)) if wanted.is_prefix else column
    return _true(begins == wanted.text)


def _true(condition: Any) -> ColumnElement[bool]:
    found: ColumnElement[bool] = condition
    return found


def _object(reader: Reader[Job], wanted: Wanted) -> ColumnElement[bool]:
    kind, slash, name = wanted.text.partition("/")
    if not slash:
        return _text(reader["object_type"], wanted)
    return and_(reader["object_type"] == kind, _text(reader["object_id"], Wanted(name, wanted.is_prefix)))


def _id(column: Any, wanted: Wanted) -> ColumnElement[bool]:
    is_id = wanted.text.startswith("job_") and not wanted.is_prefix
    number = read_number(wanted.text.removeprefix("job_")) if is_id else None
    return false() if number is None else _true(column == number)
