"""Answers as values: from the JSON of the service to frozen dataclasses, by their annotations.

Fields that this release does not know are left alone; they are in ``raw``. So an older client serves a newer service.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from horae.api.operation import Answer, Page
from horae.api.values import Unreadable, from_json
from horae.errors import HoraeError, ServiceUnavailable

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Told:
    """Something that the service told."""

    KEEPS_RAW: ClassVar[bool] = True
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def one(kind: type[T], under: str | None = None) -> Callable[[Answer], T]:
    """Reads an answer that is one thing, or holds one *under* a name."""
    return lambda answer: value_of(kind, answer.body if under is None else _held(answer.body, under))


def many(kind: type[T], under: str | None = None) -> Callable[[Answer], tuple[T, ...]]:
    """Reads an answer that is a list, or holds one."""
    return lambda answer: _rows(kind, answer.body if under is None else _held(answer.body, under))


def page(kind: type[T], under: str = "items") -> Callable[[Answer], Page[T]]:
    """Reads one page of a listing."""
    return lambda answer: Page(_rows(kind, _held(answer.body, under)), answer.body.get("next_cursor"))


def nothing(answer: Answer) -> None:
    """For answers that say no more than that it was done."""


def text(answer: Answer) -> str:
    return answer.text


def body(answer: Answer) -> dict[str, Any]:
    """The JSON object as it came."""
    if not isinstance(answer.body, dict):
        raise strange(Unreadable("an object", answer.body))
    return answer.body


def value_of(kind: type[T], raw: Any) -> T:
    """A dataclass from a JSON object."""
    try:
        value: T = from_json(kind, raw)
    except (Unreadable, HoraeError) as problem:
        raise strange(problem) from None
    return value


def _held(raw: Any, under: str) -> Any:
    if not isinstance(raw, dict) or under not in raw:
        raise strange(Unreadable(f"an object with {under}", raw))
    return raw[under]


def _rows(kind: type[T], raw: Any) -> tuple[T, ...]:
    if not isinstance(raw, list):
        raise strange(Unreadable("a list", raw))
    return tuple(value_of(kind, each) for each in raw)


def strange(problem: Exception) -> ServiceUnavailable:
    """Say that a service answered with something else than it should."""
    return ServiceUnavailable(
        f"The service answered {problem}. Is the URL that of a Horae service, and of a release that this client knows?"
    )
