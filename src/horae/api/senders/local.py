"""Run operations in this process, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from horae.actions.hints import subscribe
from horae.api.gather import Merged
from horae.api.here import Here
from horae.api.masking import for_readers
from horae.api.operation import Call, Rows, Tail
from horae.api.values import to_public
from horae.core.jobs.job import SYSTEM
from horae.errors import NotAllowed

T = TypeVar("T")
READING = "GET"
POLL_SECONDS = 1.0  # seconds; hints may be lost, and a driver does not announce its own commits


class Local:
    """Run operations as the caller that *here* names."""

    is_async = False

    def __init__(self, here: Callable[[], Here]) -> None:
        self._here = here  # called at each operation, so that nothing is opened before it is needed

    def send(self, call: Call[T]) -> T:
        return perform(self._here(), call)

    def monotonic(self) -> float:
        return self._here().world.clock.monotonic()

    def pause(self, seconds: float) -> None:
        self._here().world.clock.pause(seconds)

    def follow(self, call: Call[T]) -> Iterator[T]:
        here, hinted = self._here(), threading.Event()
        tail = open_tail(here, call)
        unsubscribe = subscribe(here.world, lambda hint: hinted.set() if tail.is_announced_by(hint) else None)
        try:
            while True:
                hinted.clear()
                values = read_tail(tail, call)
                yield from values
                if not values:
                    hinted.wait(POLL_SECONDS)
        finally:
            unsubscribe()

    def download(self, call: Call[T]) -> Iterator[T]:
        for value in open_download(self._here(), call):
            yield to_public(call.answer, value)


def perform(here: Here, call: Call[T]) -> T:
    """Check the caller's permission, run the verb, and publish its result."""
    verb = _permitted_verb(here, call)
    if call.gather is not None and here.world.cluster is not None:
        owner = _owner_of(here, call)
        if owner is None or call.is_scattered:
            return _perform_everywhere(here, call, call.gather, owner)
    found = verb(here)
    answer: T = to_public(call.answer, found if call.is_whole else for_readers(here, found))
    return answer


def _owner_of(here: Here, call: Call[Any]) -> str | None:
    """Return the tenant whose rows are asked for, which are in one database; None for those of the house or of all."""
    wanted = here.caller.sees or call.query.get("owner") or call.query.get("user_id")
    return None if wanted == SYSTEM else wanted


def _perform_everywhere(here: Here, call: Call[T], gather: Callable[[Here], Merged], owner: str | None) -> T:
    """Ask all databases of a cluster; the answer names those that gave none."""
    from horae.api.shards import gather_of_owner  # a single database does not need it

    gathered = gather(here) if owner is None else gather_of_owner(here, owner, gather)
    answer: Any = to_public(call.answer, gathered.answer)
    if isinstance(answer, tuple):
        answer = Rows.of(answer, gathered.incomplete)
    elif gathered.incomplete and answer is not None:
        counted = {} if gathered.databases is None else {"databases": gathered.databases}
        answer = replace(answer, incomplete=gathered.incomplete, **counted)
    done: T = answer
    return done


def open_tail(here: Here, call: Call[Any]) -> Tail:
    """Open a stream, if the caller may read it."""
    tail: Tail = _permitted_verb(here, call)(here)
    return tail


def open_download(here: Here, call: Call[Any]) -> Iterator[Any]:
    """Return the values of an answer that comes line by line, if the caller may read it."""
    return iter(_permitted_verb(here, call)(here))


def read_tail(tail: Tail, call: Call[T]) -> tuple[T, ...]:
    """Return what has come since a stream was read last."""
    return tuple(to_public(call.answer, each) for each in tail.read())


def _permitted_verb(here: Here, call: Call[T]) -> Callable[[Here], Any]:
    """Return the verb of an operation, if the caller may use it."""
    if call.needs is not None:
        call.needs.check(here.caller, reads=call.method == READING)
    if call.verb is None:
        raise service_only_error(call)
    return call.verb


def service_only_error(call: Call[Any]) -> NotAllowed:
    """Return the error for an operation that has no verb in this process."""
    return NotAllowed("service_only", method=call.method, path=call.path)
