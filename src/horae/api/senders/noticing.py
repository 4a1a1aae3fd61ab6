"""A sender that notices which databases of a cluster did not answer, so that people learn what an answer lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from horae.api.operation import Call, Sender
from horae.api.values import DATABASES

T = TypeVar("T")


class Noticing:
    """Run operations by another sender, and tell *notice* the databases that an answer names as missing, and after a
    change of how many they are.
    """

    is_async = False

    def __init__(self, sender: Sender, notice: Callable[[Iterable[str], int | None], None]) -> None:
        self._sender, self._notice = sender, notice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def send(self, call: Call[T]) -> T:
        answer = self._sender.send(call)
        if missing := getattr(answer, "incomplete", ()):
            self._notice(missing, getattr(answer, DATABASES, None))
        return answer

    def follow(self, call: Call[T]) -> Iterator[T]:
        return self._sender.follow(call)

    def download(self, call: Call[T]) -> Iterator[T]:
        return self._sender.download(call)
