"""Open an application's store once, on first use, and close it with the application or the process."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from horae.errors import StoreBusy, StoreFull, StoreUnavailable
from horae.ports.store import Store
from horae.ports.world import World

log = logging.getLogger("horae.app")
Change = Callable[[World], World]


class Opener:
    """Holds the world of one application; opens it on first use."""

    def __init__(self, opens: Callable[[], World]) -> None:
        self._opens = opens
        self._lock = threading.Lock()
        self._world: World | None = None
        self._attempt: Future[World] | None = None
        self._closing: Callable[[], object] = lambda: None

    @property
    def world(self) -> World:
        return self._world or self._open()

    def _open(self) -> World:
        """Open the world; threads that ask meanwhile share the attempt instead of queueing up for a silent server."""
        with self._lock:
            if self._world is not None:
                return self._world
            is_mine = self._attempt is None
            attempt = self._attempt = self._attempt or Future()
        if not is_mine:
            return attempt.result()
        try:
            opened = self._opens()
        except BaseException as problem:
            with self._lock:
                self._attempt = None
            attempt.set_exception(problem)
            raise
        with self._lock:
            self._attempt = None
            self._world = world = self._world or opened
            self._closing = weakref.finalize(
                self, _close, opened.store, os.getpid()
            )  # also at exit, and when collected
        attempt.set_result(world)
        return world

    def wait(self, pause: Callable[[float], None]) -> None:
        """Open the world, however long the store takes to answer."""
        seconds, warned = 0.1, False
        while True:
            try:
                _ = self.world
                return
            except (StoreUnavailable, StoreBusy, StoreFull) as problem:
                if not warned:
                    log.error("the store does not answer; trying again: %s", problem)
                warned = True
                pause(seconds)
                seconds = min(5.0, seconds * 2)

    def change(self, change: Change) -> None:
        """Replace the world by a changed copy, if it is open."""
        with self._lock:
            if self._world is not None:
                self._world = change(self._world)

    @contextmanager
    def using(self, world: World) -> Iterator[None]:
        """Use another world while the block runs."""
        with self._lock:
            before, self._world = self._world, world
        try:
            yield
        finally:
            with self._lock:
                self._world = before

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        attempt = self._attempt
        if attempt is not None:
            wait([attempt])
        with self._lock:
            self._closing()
            self._world = None


def _close(store: Store, opened_by: int) -> None:
    """Close a store in the process that opened it; a forked child would end the connections of its parent."""
    if os.getpid() == opened_by:
        store.close()
