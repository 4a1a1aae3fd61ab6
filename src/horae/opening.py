"""An application's store: opened once however many threads ask for it, and closed however the application ends."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from horae.ports import World

Change = Callable[[World], World]


class Opener:
    """Holds the world of one application. Nothing is opened before somebody asks."""

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
        """Whoever comes meanwhile shares the attempt; one after the other they would wait for a silent server."""
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
            self._closing = weakref.finalize(self, opened.store.close)  # also when nobody closes it: at exit
        attempt.set_result(world)
        return world

    def change(self, change: Change) -> None:
        """Exchange the world for a changed one, if there is one."""
        with self._lock:
            if self._world is not None:
                self._world = change(self._world)

    @contextmanager
    def using(self, world: World) -> Iterator[None]:
        """Let another world stand in for the application's own while the block runs."""
        with self._lock:
            before, self._world = self._world, world
        try:
            yield
        finally:
            with self._lock:
                self._world = before

    def close(self) -> None:
        """Give all connections back; whoever asks again opens anew."""
        attempt = self._attempt
        if attempt is not None:
            wait([attempt])
        with self._lock:
            self._closing()
            self._world = None
