"""A watch over tokens that are revoked or expire while their holders wait here.

A long poll or a stream outlives the check at its beginning. Each waiting caller is registered, and ended within a
second, whichever process the token was revoked on. One query covers all waiting callers of this process, in a thread
of its own, which ends when no caller waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from horae.actions.access.tokens import find_invalid
from horae.core.access.callers import Caller
from horae.errors import HoraeError
from horae.ports.world import World

log = logging.getLogger("horae.service")
EVERY = timedelta(milliseconds=400)


class WaitingCaller:
    """One waiting caller, and how to end its wait when its token is no longer valid."""

    def __init__(self, world: World, caller: Caller, end: Callable[[], None]) -> None:
        self.world, self.caller, self.end = world, caller, end


class Watch:
    """All waiting callers of this process."""

    def __init__(self, every: timedelta = EVERY) -> None:
        self._every = every.total_seconds()
        self._lock = threading.Lock()
        self._waiting: set[WaitingCaller] = set()
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()  # never set: it only waits

    @contextmanager
    def watching(self, world: World, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call *end* (from another thread) once the caller's token is not valid any more."""
        if caller.token_id is None and caller.expires_at is None:  # a service without authentication
            yield
            return
        waiting = WaitingCaller(world, caller, end)
        with self._lock:
            self._waiting.add(waiting)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="horae-validity", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.discard(waiting)

    def _run(self) -> None:
        while True:
            with self._lock:
                waiting = list(self._waiting)
                if not waiting:
                    self._thread = None
                    return
            for world in {id(each.world.store): each.world for each in waiting}.values():
                self._ask(world, [each for each in waiting if each.world.store is world.store])
            self._pause.wait(self._every)

    def _ask(self, world: World, waiting: list[WaitingCaller]) -> None:
        try:
            invalid = {id(caller) for caller in find_invalid(world, [each.caller for each in waiting])}
        except HoraeError as problem:  # while the store does not answer, nothing is handed out either
            log.warning("the validity of tokens cannot be checked now: %s", problem)
            return
        for each in waiting:
            if id(each.caller) in invalid:
                each.end()
