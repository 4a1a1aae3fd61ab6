"""What one call is, said once for both clients.

A room of the API is a class whose methods answer with a :class:`Call`: what to send, and how to read the answer.
The decorators ``GET``, ``POST``, … turn such a method into one that sends: on a room of :class:`horae.Client` it
answers with the value, on a room of :class:`horae.AsyncClient` with something to await. Type checkers follow.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload
from urllib.parse import quote

from horae.core.instants import aware, iso

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
PAGE = 100  # rows asked for at once where nobody says how many


@dataclass(frozen=True)
class Answer:
    """What came back and was no problem."""

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any  # the JSON; None where there is none


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    read: Callable[[Answer], T]
    at: Mapping[str, str | int] = field(default_factory=dict)  # what stands in the braces of the path
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False  # sent with an Idempotency-Key, the same in every try
    key: str | None = None  # the caller's own; one is made otherwise
    repeats: bool = False  # a second try finds what the first has done
    accepts: tuple[int, ...] = ()  # statuses that are an answer here and not a problem
    longer: float = 0.0  # seconds that the server may take by agreement, as a long poll does
    method: str = "GET"
    path: str = ""

    @property
    def url(self) -> str:
        return self.path.format(**{name: quote(str(value), safe="") for name, value in self.at.items()})

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice is as good as once, so that an answer that was lost can be asked for again."""
        changes_nothing = self.method in ("GET", "HEAD")
        same_end = self.method == "PUT" and "If-Match" not in self.headers
        return changes_nothing or same_end or self.creates or self.repeats


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows, and where the next ones begin; None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Rows that come page by page, at most *limit* of them."""

    first: Call[Page[T]]
    limit: int | None = None
    size: str = "limit"  # how the service calls the size of a page
    most: int = 1000  # the largest that it gives

    def after(self, cursor: str | None, seen: int) -> Call[Page[T]]:
        """The call for the page that begins at a cursor, when so many rows have been seen."""
        size = PAGE if self.limit is None else min(self.limit - seen, self.most)
        more = {self.size: size, **({} if cursor is None else {"cursor": cursor})}
        return replace(self.first, query={**self.first.query, **more})

    def is_over(self, page: Page[T], seen: int) -> bool:
        return page.next_cursor is None or not page.items or (self.limit is not None and seen >= self.limit)


class Sender(Protocol):
    """Sends and waits."""

    def send(self, call: Call[T]) -> T: ...

    def each(self, listing: Listing[T]) -> Iterator[T]: ...

    def follow(self, call: Call[T]) -> Iterator[T]: ...


class AsyncSender(Protocol):
    """Sends, and lets the event loop go on meanwhile."""

    def send(self, call: Call[T]) -> Coroutine[Any, Any, T]: ...

    def each(self, listing: Listing[T]) -> AsyncIterator[T]: ...

    def follow(self, call: Call[T]) -> AsyncIterator[T]: ...


class Room(Generic[S]):
    """Calls that belong together, and who sends them."""

    def __init__(self, sender: S) -> None:
        self._sender = sender


class Method(Generic[P, B, R, A]):
    """A method that builds what is asked for (B), turned into one that asks: it answers with R, or A to await."""

    def __init__(self, method: str, path: str, build: Callable[Concatenate[Any, P], B]) -> None:
        self.__doc__, self.__name__, self.__wrapped__ = build.__doc__, getattr(build, "__name__", ""), build
        self.method, self.path = method, path
        self._build = build

    @overload
    def __get__(self, room: None, kind: type) -> Self: ...

    @overload
    def __get__(self, room: Room[Sender], kind: type) -> Callable[P, R]: ...

    @overload
    def __get__(self, room: Room[AsyncSender], kind: type) -> Callable[P, A]: ...

    def __get__(self, room: Any, kind: type) -> Any:
        if room is None:
            return self

        @functools.wraps(self._build)
        def ask(*args: P.args, **kwargs: P.kwargs) -> Any:
            return self._ask(room._sender, self._build(room, *args, **kwargs))

        return ask

    def _ask(self, sender: Any, built: B) -> Any:
        raise NotImplementedError

    def _placed(self, call: Call[T]) -> Call[T]:
        """The call with the method and path that its decorator names."""
        return replace(call, method=self.method, path=self.path)


class Endpoint(Method[P, Call[T], T, Coroutine[Any, Any, T]]):
    """Describes a call, and sends it."""

    def _ask(self, sender: Any, built: Call[T]) -> Any:
        return sender.send(self._placed(built))


class Listed(Method[P, Listing[T], Iterator[T], AsyncIterator[T]]):
    """Describes a listing, and iterates over its rows."""

    def _ask(self, sender: Any, built: Listing[T]) -> Any:
        return sender.each(replace(built, first=self._placed(built.first)))


class Streamed(Method[P, Call[T], Iterator[T], AsyncIterator[T]]):
    """Describes a stream, and iterates over what comes."""

    def _ask(self, sender: Any, built: Call[T]) -> Any:
        return sender.follow(self._placed(built))


Build = Callable[Concatenate[Any, P], Call[T]]


def GET(path: str) -> Callable[[Build[P, T]], Endpoint[P, T]]:
    return functools.partial(Endpoint, "GET", path)


def POST(path: str) -> Callable[[Build[P, T]], Endpoint[P, T]]:
    return functools.partial(Endpoint, "POST", path)


def PUT(path: str) -> Callable[[Build[P, T]], Endpoint[P, T]]:
    return functools.partial(Endpoint, "PUT", path)


def PATCH(path: str) -> Callable[[Build[P, T]], Endpoint[P, T]]:
    return functools.partial(Endpoint, "PATCH", path)


def DELETE(path: str) -> Callable[[Build[P, T]], Endpoint[P, T]]:
    return functools.partial(Endpoint, "DELETE", path)


def STREAM(path: str) -> Callable[[Build[P, T]], Streamed[P, T]]:
    return functools.partial(Streamed, "GET", path)


def PAGES(path: str) -> Callable[[Callable[Concatenate[Any, P], Listing[T]]], Listed[P, T]]:
    return functools.partial(Listed, "GET", path)


def given(**values: Any) -> dict[str, Any]:
    """What was given, as JSON has it: without the Nones, instants in ISO-8601, spans in seconds."""
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(aware(value))
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


def matching(version: int | None) -> dict[str, str]:
    """The header that lets a change through only if the thing is still of that version."""
    return {} if version is None else {"If-Match": f'"{version}"'}
