"""Read the values of ``jobs.conf``: one codec for each type of an option, chosen by its declaration in ``options``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Literal, get_args, get_origin, get_type_hints

from horae.core.jobs.retry import Retry
from horae.core.schedules.rules import Every
from horae.core.time.instants import aware, from_iso
from horae.core.time.spans import Span, span
from horae.declare.definitions import Runner
from horae.declare.options import JobOptions, options
from horae.errors import InvalidInput
from horae.ports.executors import RemoteExecutor

Codec = Callable[[Any], Any]


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("file_value_not_boolean")
    return value


def read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("file_value_not_text")
    return value


def read_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput("file_value_not_whole")
    return value


def read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("file_value_not_a_number")
    return float(value)


def read_milliseconds(value: Any) -> timedelta:
    try:
        return timedelta(milliseconds=read_number(value))
    except OverflowError:
        raise InvalidInput("file_value_too_many_ms") from None


def read_span(value: Any) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidInput("file_value_not_a_span")
    return span(value)


def read_instant(value: Any) -> datetime:
    """Read an instant as TOML writes it, or as text."""
    if isinstance(value, str):
        return from_iso(value)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInput("file_value_not_an_instant")
    return aware(value)


def read_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
        raise InvalidInput("file_value_not_a_list")
    return value


def read_types(value: Any) -> tuple[str, ...]:
    """Read the names of exceptions: one, or a list."""
    return tuple(read_names([value] if isinstance(value, str) else value))


def read_table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("file_value_not_a_table")
    return value


def read_retry(value: Any) -> Retry:
    """Read a policy by the names of its fields, or by its kind alone."""
    known = [each.name for each in fields(Retry)]
    table = {"kind": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or "kind" not in table:
        raise InvalidInput("file_value_not_a_retry")
    unknown = next((name for name in table if name not in known), None)
    if unknown is not None:
        raise InvalidInput("file_retry_key_unknown", key=unknown, choices=known)
    hints = get_type_hints(Retry)
    return Retry(**{name: codec_of(hints[name])(each) for name, each in table.items()})


def read_choice(*choices: str) -> Codec:
    """Return the codec of an option that has a few values only."""

    def read(value: Any) -> str:
        if value not in choices:
            raise InvalidInput("file_choice_unknown", choices=list(choices))
        return str(value)

    return read


CODECS: dict[Any, Codec] = {
    bool: read_flag,
    int: read_number,
    float: read_factor,
    str: read_text,
    str | Callable[..., str]: read_text,  # a function is for code
    Runner | RemoteExecutor: read_choice(*get_args(Runner)),  # an object is for code
    Span: read_span,
    timedelta: read_span,
    datetime: read_instant,
    Sequence[str]: read_names,
    tuple[str, ...]: read_types,
    Mapping[str, Any]: read_table,
    Mapping[str, int]: read_table,
    Retry: read_retry,
}


def codec_of(kind: Any) -> Codec:
    """Return the codec of a type; a type without one cannot be an option of the file."""
    return read_choice(*get_args(kind)) if get_origin(kind) is Literal else CODECS[kind]


def _period(read: Codec) -> Codec:
    return lambda value: Every(read(value)).period


def _option_codecs() -> dict[str, tuple[str, Codec]]:
    hints = get_type_hints(JobOptions)
    found = {name: (name, codec_of(hints[name])) for name, option in options() if not option.not_in_file}
    return found | {"every": ("every", _period(read_span))}


# What an item may say: its word in the file, the option that it sets, and how it is read.
KEYS: dict[str, tuple[str, Codec]] = {
    "fixedRate": ("fixed_rate", _period(read_milliseconds)),
    "fixed_rate": ("fixed_rate", _period(read_span)),
    "initialDelay": ("initial_delay", read_milliseconds),
    "lockTtlMs": ("lock_ttl", read_milliseconds),
    **_option_codecs(),
}
