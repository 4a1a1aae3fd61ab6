"""Types of columns, and codecs between values and stored columns.

Instants and spans are integer microseconds, JSON is stored and read as text, states are words, flags are 0 and 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, ColumnElement, Integer, LargeBinary, SmallInteger, String, Text, cast
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeEngine, UserDefinedType

from horae.core.dataclass import dataclass
from horae.core.jobs.job import PRIORITIES
from horae.core.jobs.retry import Retry
from horae.core.time import instants
from horae.core.time.instants import MICROSECOND

if TYPE_CHECKING:  # imported with the first row that has one
    from horae.core.governance.budgets import JobBudget
    from horae.core.jobs.parameters import Parameter


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as, so that every database gives back the same bytes."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(column, Text)


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"  # a column declared JSON would turn the text '1' into a number


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"  # MariaDB's JSON is that and a check that refuses more than 32 levels; MySQL's changes the text


Number = BigInteger().with_variant(Integer, "sqlite")


class LongText(Text):
    """Text of any length; MariaDB's TEXT ends at 64 KiB."""


@compiles(LongText, "mysql")
@compiles(LongText, "mariadb")
def _long_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"


class LongBlob(LargeBinary):
    """Bytes of any length; MariaDB's BLOB ends at 64 KiB."""


@compiles(LongBlob, "mysql")
@compiles(LongBlob, "mariadb")
def _long_blob_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGBLOB"


Name = String(255)


@dataclass(frozen=True)
class Codec:
    """The type of a column, and what turns a value into what it keeps and back; None: nothing needs to.

    NULL is read as *null* and reaches neither *read* nor *write*. With *beside*, the name of a second column, *read*
    gets the values of both, NULL or not.
    """

    type: TypeEngine[Any] | type[TypeEngine[Any]]
    read: Callable[..., Any] | None = None
    write: Callable[[Any], Any] | None = None
    beside: str = ""
    null: Any = None


# One claim shares its times, and so do the jobs of one enqueue.
instant = lru_cache(maxsize=256)(instants.instant)
micros = lru_cache(maxsize=256)(instants.micros)
_decoder = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = vars(_decoder)["scan_once"]  # what raw_decode calls
_encode = partial(json.dumps, ensure_ascii=False)
_DEFAULT = Retry().as_json()  # of a job that is stored without a policy of its own


def at(value: int | None) -> datetime | None:
    return None if value is None else instant(value)


def to_micros(value: datetime | None) -> int | None:
    return None if value is None else instants.micros(value)


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def read_hot(text: str) -> Any:
    """Read what our own encoder wrote, without looking for white space around it."""
    try:
        return _scan(text, 0)[0]
    except StopIteration:
        return _decoder.raw_decode(text)[0]  # which says what is wrong with it


@lru_cache(maxsize=1024)
def read_retry(text: str | None, attempts: int) -> Retry:
    return Retry.from_json(_DEFAULT if text is None else json.loads(text), attempts)


@lru_cache(maxsize=1024)
def _budget(text: str) -> JobBudget:
    from horae.core.governance.budgets import JobBudget

    return JobBudget.from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _write_words(words: tuple[str, ...]) -> str:
    return json.dumps(list(words))


@lru_cache(maxsize=1024)
def _shared_sources(text: str) -> dict[str, str]:
    known: dict[str, str] = json.loads(text)
    return known


def _read_sources(text: str) -> dict[str, str]:
    """Read names by names; many rows have the same, so that a copy of what was read before will do."""
    return _shared_sources(text).copy()


def _write_mapping(mapping: Mapping[str, Any]) -> str:
    return json.dumps(dict(mapping))


def _read_parameters(text: str) -> tuple[Parameter, ...]:
    from horae.core.jobs.parameters import parameter_from

    return tuple(parameter_from(each) for each in json.loads(text))


def _write_parameters(parameters: tuple[Parameter, ...]) -> str:
    from horae.core.jobs.parameters import parameter_json

    return _encode([parameter_json(each) for each in parameters])


def text(length: int) -> Codec:
    return Codec(String(length))


NAME = Codec(Name)
TEXT = Codec(Text())
LONG_TEXT = Codec(LongText)
ROW_NUMBER = Codec(Number)  # the primary key of a row
NUMBER = Codec(BigInteger())
COUNT = Codec(Integer())
SMALL = Codec(SmallInteger())
FLAG = Codec(SmallInteger(), bool, int)
INSTANT = Codec(BigInteger(), instant, micros)
SPAN = Codec(BigInteger(), _span, lambda span: span // MICROSECOND)
PRIORITY = Codec(SmallInteger(), PRIORITIES.__getitem__, PRIORITIES.index)
JSON_TEXT = Codec(Json())  # handed through as text
JSON = Codec(Json(), json.loads, _encode)
HOT_JSON = Codec(Json(), read_hot, _encode)
WORDS = Codec(Json(), _words, _write_words, null=())
MAPPING = Codec(Json(), json.loads, _write_mapping)
BUDGET = Codec(Json(), _budget, lambda budget: json.dumps(budget.as_json()))
SOURCES = Codec(Json(), _read_sources, _write_mapping)
PARAMETERS = Codec(Json(), _read_parameters, _write_parameters)
RETRY = Codec(Json(), read_retry, lambda retry: json.dumps(retry.as_json()), beside="max_attempts")
