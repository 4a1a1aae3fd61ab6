"""Notice what other processes commit to a SQLite file: Linux tells of writes to its log at once (inotify)."""

from __future__ import annotations

import ctypes
import os
import select
import sqlite3
import sys
import threading
from contextlib import closing, suppress
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from horae.stores.store import SqlStore

WATCH_EVERY = 0.05  # seconds; not every file system tells of writes
WATCH_COMMIT = (0.001, 0.002, 0.004, 0.008, 0.016)  # the log is written to first, then flushed, and only then committed
WATCH_REST = 0.005  # seconds after a commit was noticed; most of those of a busy process are its own
WATCH_AGAIN = 1.0  # seconds until a watch that failed begins anew
IN_MODIFY = 0x2
AT_ONCE = 64 * 1024  # bytes of events; an event is 16


class Watch(threading.Thread):
    """Notices commits of other processes: reads a counter in shared memory when the log was written to, and anyway
    twenty times a second, because not every file system tells of writes.
    """

    def __init__(self, store: SqlStore) -> None:
        super().__init__(name="horae-sqlite-watch", daemon=True)
        self._store = store
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            with suppress(sqlite3.Error, SQLAlchemyError):  # an error of the disk; writers will report it
                self._look_on()
            self._ended.wait(WATCH_AGAIN)

    def _look_on(self) -> None:
        with self._store.engine.connect() as connection:
            cursor = connection.connection.cursor()
            path = cursor.execute("PRAGMA database_list").fetchone()[2]
            seen = self._look(cursor, None)  # a commit may have come before the watch; this also makes the log
            with closing(FileChanges(f"{path}-wal")) as log:
                while not self._ended.is_set():
                    written = log.wait(WATCH_EVERY) if log.is_watched else self._ended.wait(WATCH_EVERY)
                    known = seen
                    for pause in WATCH_COMMIT if written else (0.0,):
                        if seen == known and not self._ended.wait(pause):
                            seen = self._look(cursor, known)
                    if seen != known:
                        self._ended.wait(WATCH_REST)  # what is written meanwhile is noticed after it

    def _look(self, cursor: Any, known: int | None) -> int:
        """Return the counter of commits; tell the listeners where it has changed."""
        version = int(cursor.execute("PRAGMA data_version").fetchone()[0])
        if version != known:
            self._store.tell_listeners("*")
        return version

    def stop(self) -> None:
        self._ended.set()
        self.join(timeout=5)


class FileChanges:
    """The writes to one file. Without inotify, and where no watch is left, ``wait`` returns at once."""

    def __init__(self, path: str) -> None:
        self._events = _watch(path)

    @property
    def is_watched(self) -> bool:
        """Whether the system tells of changes."""
        return self._events is not None

    def wait(self, seconds: float) -> bool:
        """Wait for a write, at most so long; return whether one came, also since the last call."""
        if self._events is None:
            return False
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        os.read(self._events, AT_ONCE)
        return True

    def close(self) -> None:
        if self._events is not None:
            os.close(self._events)
            self._events = None


def _watch(path: str) -> int | None:
    """Return a descriptor that becomes readable when the file is written to; None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        events = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if events < 0:
            return None
        if libc.inotify_add_watch(events, os.fsencode(path), IN_MODIFY) < 0:
            os.close(events)
            return None
    except (OSError, AttributeError):  # a libc without it
        return None
    return events
