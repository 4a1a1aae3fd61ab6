"""Writes to a file are noticed where the system tells of them, and nothing breaks where it does not."""

import sqlite3
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

from horae.stores.databases.sqlite_watch import FileChanges
from tests.stores.conftest import opened


def test_a_write_is_noticed_also_one_that_came_before_the_wait(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")

    with closing(FileChanges(str(log))) as changes:
        assert changes.is_watched
        log.write_bytes(b"a frame")
        assert changes.wait(5)
        assert not changes.wait(0)  # each is told once


def test_many_writes_are_one_change(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")

    with closing(FileChanges(str(log))) as changes, log.open("ab", buffering=0) as writer:
        for _ in range(100):
            writer.write(b"a frame")
        assert (changes.wait(5), changes.wait(0)) == (True, False)


def test_a_file_that_does_not_exist_is_not_watched(tmp_path: Path) -> None:
    with closing(FileChanges(str(tmp_path / "nothing"))) as changes:
        assert (changes.is_watched, changes.wait(0)) == (False, False)


def test_a_watch_can_be_closed_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    changes = FileChanges(str(log))

    changes.close()
    changes.close()

    assert not changes.is_watched


def test_a_commit_while_the_watch_rests_after_another_one_is_noticed_too(tmp_path: Path) -> None:
    told: SimpleQueue[str] = SimpleQueue()
    path = tmp_path / "horae.db"
    with closing(opened(f"sqlite:///{path}")) as store, closing(sqlite3.connect(path)) as neighbour:
        store.subscribe(told.put)
        assert told.get(timeout=5) == "*"  # the first look
        for number in range(20):
            with neighbour:
                neighbour.execute(f"CREATE TABLE neighbour_{number} (n)")
            assert told.get(timeout=5) == "*"
