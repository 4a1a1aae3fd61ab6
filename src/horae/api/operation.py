"""Operations, each declared once for every way of running it.

A room is a class whose methods return a :class:`Call`: the verb that does the work here, what to send where the work is
done elsewhere, and the type of the answer. The decorators ``GET``, ``POST``, … turn such a method into one that runs.
The room's sender runs it: in this process or over HTTP, blocking or asynchronous. A method of a room with a blocking
sender returns its answer, with an asynchronous sender something to await; type checkers follow.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload
from urllib.parse import quote

from horae.api.arguments import Arguments
from horae.api.gather import Join, Merged
from horae.core.cursors import MAX_PAGE, page_size
from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.api.here import Here
    from horae.core.access.callers import Caller

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")
FetchPage: TypeAlias = "Callable[[Here, str | None, int], tuple[list[Any], str | None]]"
PAGE = 100  # rows asked for at once where the caller gives no limit


@dataclass(frozen=True)
class Answer:
    """A response of a service that is not a problem document."""

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any  # the JSON; None where there is none


@dataclass(frozen=True)
class Call(Generic[T]):
    """One operation with its arguments."""

    answer: Any = None  # the type of the answer
    verb: Callable[[Here], Any] | None = None  # runs in this process; its result, or its Tail, is published
    at: Mapping[str, str | int] = field(default_factory=dict)  # values of the names in braces in the path
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False  # sent with an Idempotency-Key, the same in every try
    key: str | None = None  # the caller's own; one is made otherwise
    repeats: bool = False  # a second try finds what the first has done
    accepts: tuple[int, ...] = ()  # statuses that are an answer here and not a problem
    longer: float = 0.0  # seconds that the server may take by agreement, as a long poll does
    read: Callable[[Answer], T] | None = None  # how to read an answer that is not plain JSON of the type
    is_whole: bool = False  # sensitive values are not masked: the answer is for the worker that runs the job
    method: str = "GET"
    path: str = ""
    needs: Needs | None = None
    gather: Callable[[Here], Merged] | None = None  # asks every database of a cluster; None: the verb finds its own
    is_scattered: bool = False  # gathered for one tenant, too: what has ended stays where it was before a move

    @property
    def url(self) -> str:
        return self.path.format(**{name: quote(str(value), safe="") for name, value in self.at.items()})

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice is as good as once, so that an answer that was lost can be asked for again."""
        changes_nothing = self.method in ("GET", "HEAD")
        same_end = self.method == "PUT" and "If-Match" not in self.headers
        return changes_nothing or same_end or self.creates or self.repeats


class Rows(tuple[T, ...]):
    """All rows of a list without pages; ``incomplete`` names the databases of a cluster that did not answer."""

    incomplete: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[T], incomplete: Iterable[str]) -> Rows[T]:
        made = cls(rows)
        made.incomplete = tuple(incomplete)
        return made


def name_missing(answer: T, body: Any) -> T:
    """Return a list that came as JSON with the databases that its envelope names as missing."""
    if not isinstance(answer, tuple) or not isinstance(body, dict) or not body.get("incomplete"):
        return answer
    named: Any = Rows.of(answer, map(str, body["incomplete"]))
    rows: T = named
    return rows


@dataclass(frozen=True)
class Tail:
    """A stream in this process, as its verb returns it."""

    read: Callable[[], list[Any]]  # what has come since it was called last
    hint: str  # the hint of the store that announces more; "*": any

    def is_announced_by(self, hint: str) -> bool:
        return self.hint == "*" or hint in (self.hint, "*")


@dataclass(frozen=True)
class Needs:
    """The permission for an operation: one of these scopes, and whether a token limited to queues may call it."""

    scopes: tuple[str, ...]
    by_queue: bool = False  # a caller that is limited to queues is served, within those

    def check(self, caller: Caller, *, reads: bool = False) -> None:
        """Refuse a caller without the permission; for an operation that *reads*, the scope ``read`` is enough."""
        caller.require(*self.scopes, *(("read",) if reads else ()))
        if not self.by_queue:
            caller.require_all_queues()


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows, and where the next ones begin; None at the end.

    ``incomplete`` names the databases of a cluster that did not answer: their rows are missing here.
    """

    items: tuple[T, ...]
    next_cursor: str | None = None
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing(Generic[T]):
    """Rows that come page by page, at most *limit* of them."""

    first: Call[Page[T]]
    limit: int | None = None
    rows: FetchPage | None = None  # one page, in this process
    size: str = "limit"  # how the service calls the size of a page
    most: int = MAX_PAGE  # the largest that it gives
    order: Callable[[Any], Any] | None = None  # by what rows of several databases are merged; None: one has them all
    is_rising: bool = False  # the least of *order* comes first, not the greatest
    join: Join | None = None  # where one thing has a row in several databases
    drained: bool = False  # whether databases that keep nothing any more may have such rows, too

    def after(self, cursor: str | None, seen: int) -> Call[Page[T]]:
        """Return the call for the page at a cursor, after *seen* rows."""
        return self.page(cursor, PAGE if self.limit is None else min(self.limit - seen, self.most))

    def page(self, cursor: str | None, limit: int | None = None) -> Call[Page[T]]:
        """Return the call for one page; a size out of range is refused before anything is sent."""
        if limit is None:
            limit = PAGE if self.limit is None else self.limit
        size = page_size(limit, self.most)
        query = {**self.first.query, self.size: size, **({} if cursor is None else {"cursor": cursor})}
        rows = self.rows
        if rows is None:
            return replace(self.first, query=query, verb=None)
        gather = None if self.order is None else self._over_shards(rows, cursor, size)
        verb = lambda here: Page(*_as_page(rows(here, cursor, size)))  # noqa: E731  # beside the call that takes it
        return replace(self.first, query=query, verb=verb, gather=gather)

    def _over_shards(self, rows: FetchPage, cursor: str | None, size: int) -> Callable[[Here], Merged]:
        def gather(here: Here) -> Merged:
            from horae.api.shards import gather_page  # a single database does not need it

            order = self.order or (lambda row: 0)
            return gather_page(
                here, rows, cursor, size, order, is_rising=self.is_rising, join=self.join, drained=self.drained
            )

        return gather

    def is_over(self, page: Page[T], seen: int) -> bool:
        """A page may be empty and have a next one: it looked at a bounded number of rows."""
        return page.next_cursor is None or (self.limit is not None and seen >= self.limit)


def _as_page(found: tuple[list[Any], str | None]) -> tuple[tuple[Any, ...], str | None]:
    items, cursor = found
    return tuple(items), cursor


class Sender(Protocol):
    """Run operations and wait for them."""

    def send(self, call: Call[T]) -> T: ...

    def follow(self, call: Call[T]) -> Iterator[T]: ...

    def download(self, call: Call[T]) -> Iterator[T]: ...


class AsyncSender(Protocol):
    """Run operations without blocking the event loop."""

    def send(self, call: Call[T]) -> Coroutine[Any, Any, T]: ...

    def follow(self, call: Call[T]) -> AsyncIterator[T]: ...

    def download(self, call: Call[T]) -> AsyncIterator[T]: ...


class Pages(Generic[T]):
    """A list that is fetched page by page: iterate over all its rows, or ask for one :meth:`page`."""

    def __init__(self, sender: Sender, listing: Listing[T]) -> None:
        self._sender, self._listing = sender, listing

    def page(self, cursor: str | None = None, *, limit: int | None = None) -> Page[T]:
        """Return the page that begins at a cursor: ``next_cursor`` of the page before, or None for the first."""
        return self._sender.send(self._listing.page(cursor, limit))

    def __iter__(self) -> Iterator[T]:
        seen, cursor = 0, None
        while True:
            page = self._sender.send(self._listing.after(cursor, seen))
            yield from page.items
            seen, cursor = seen + len(page.items), page.next_cursor
            if self._listing.is_over(page, seen):
                return


class AsyncPages(Generic[T]):
    """The same for an event loop: iterate with ``async for``."""

    def __init__(self, sender: AsyncSender, listing: Listing[T]) -> None:
        self._sender, self._listing = sender, listing

    async def page(self, cursor: str | None = None, *, limit: int | None = None) -> Page[T]:
        """Return the page that begins at a cursor: ``next_cursor`` of the page before, or None for the first."""
        return await self._sender.send(self._listing.page(cursor, limit))

    async def __aiter__(self) -> AsyncIterator[T]:
        seen, cursor = 0, None
        while True:
            page = await self._sender.send(self._listing.after(cursor, seen))
            for item in page.items:
                yield item
            seen, cursor = seen + len(page.items), page.next_cursor
            if self._listing.is_over(page, seen):
                return


class Room(Generic[S]):
    """Operations that belong together, and the sender that runs them."""

    def __init__(self, sender: S) -> None:
        self._sender = sender


def operations_of(room: type[Room[Any]]) -> dict[str, Method[..., Any, Any, Any]]:
    """Return the operations of a room by their names: its own first, then those of the rooms that it is made of."""
    found: dict[str, Method[..., Any, Any, Any]] = {}
    for kind in room.__mro__:
        for name, each in vars(kind).items():
            if isinstance(each, Method):
                found.setdefault(name, each)
    return found


class Method(Generic[P, B, R, A]):
    """Turn a method that builds a call (B) into one that runs it: it returns R, or A to await."""

    def __init__(self, method: str, path: str, needs: Needs, build: Callable[Concatenate[Any, P], B]) -> None:
        self.__doc__, self.__name__, self.__wrapped__ = build.__doc__, getattr(build, "__name__", ""), build
        self.method, self.path, self.needs = method, path, needs
        self._build = build
        self._arguments: Arguments | None = None

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
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            if (arguments := self._arguments) is None:
                arguments = self._arguments = Arguments(self._build)
            arguments.check(args, kwargs)
            return self._run(room._sender, self._build(room, *args, **kwargs))

        return run

    def _run(self, sender: Any, built: B) -> Any:
        raise NotImplementedError

    def _address(self, call: Call[T]) -> Call[T]:
        """Return the call with the method and path that its decorator names."""
        return replace(call, method=self.method, path=self.path, needs=self.needs)


class Operation(Method[P, Call[T], T, Coroutine[Any, Any, T]]):
    """An operation that is one call."""

    def _run(self, sender: Any, built: Call[T]) -> Any:
        return sender.send(self._address(built))


class Listed(Method[P, Listing[T], Pages[T], AsyncPages[T]]):
    """An operation that is a list, fetched page by page."""

    def _run(self, sender: Any, built: Listing[T]) -> Any:
        listing = replace(built, first=self._address(built.first))
        return AsyncPages(sender, listing) if sender.is_async else Pages(sender, listing)


class Streamed(Method[P, Call[T], Iterator[T], AsyncIterator[T]]):
    """An operation that is a stream, iterated over."""

    def _run(self, sender: Any, built: Call[T]) -> Any:
        return sender.follow(self._address(built))


class Downloaded(Method[P, Call[T], Iterator[T], AsyncIterator[T]]):
    """An operation with a long answer that comes line by line and has an end."""

    def _run(self, sender: Any, built: Call[T]) -> Any:
        return sender.download(self._address(built))


Build = Callable[Concatenate[Any, P], Call[T]]


def GET(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Operation[P, T]]:
    return functools.partial(Operation, "GET", path, Needs(scopes, by_queue))


def POST(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Operation[P, T]]:
    return functools.partial(Operation, "POST", path, Needs(scopes, by_queue))


def PUT(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Operation[P, T]]:
    return functools.partial(Operation, "PUT", path, Needs(scopes, by_queue))


def PATCH(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Operation[P, T]]:
    return functools.partial(Operation, "PATCH", path, Needs(scopes, by_queue))


def DELETE(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Operation[P, T]]:
    return functools.partial(Operation, "DELETE", path, Needs(scopes, by_queue))


def STREAM(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Streamed[P, T]]:
    return functools.partial(Streamed, "GET", path, Needs(scopes, by_queue))


def LINES(path: str, *scopes: str, by_queue: bool = False) -> Callable[[Build[P, T]], Downloaded[P, T]]:
    return functools.partial(Downloaded, "GET", path, Needs(scopes, by_queue))


def PAGES(
    path: str, *scopes: str, by_queue: bool = False
) -> Callable[[Callable[Concatenate[Any, P], Listing[T]]], Listed[P, T]]:
    return functools.partial(Listed, "GET", path, Needs(scopes, by_queue))


def if_match_header(version: int | None) -> dict[str, str]:
    """Return the header that refuses a change unless the thing is still at that version."""
    return {} if version is None else {"If-Match": f'"{version}"'}
