"""Processes that die at a chosen transaction; a later one opens the same file and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from horae.app import Horae
from horae.attention import Attention
from horae.stores.databases.sqlite import create_sqlite_engine
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.killing import die_before
from tests.support.templates import put_tables

LATER = timedelta(hours=1)  # between two processes, so that leases of the first have run out


class Death(BaseException):
    """The process is gone: nothing that could be caught and tidied up after."""


class DyingStore:
    """A real store of a process that dies before its transaction of a number, and stays dead."""

    def __init__(self, real: Any, number: int) -> None:
        self._real, self._number, self.sent = real, number, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def transact(self, work: Callable[[Any], Any], **options: Any) -> Any:
        self.sent += 1
        if self.sent >= self._number:
            raise Death(self._number)
        return self._real.transact(work, **options)


@contextmanager
def process(file: Path, life: int = 0) -> Iterator[Horae]:
    """An application on the file, in the *life*-th process that opens it."""
    clock = VirtualClock(NOON + LATER * life)
    engine = create_sqlite_engine(f"sqlite:///{file}", "OFF")
    with Horae(engine, clock=clock, dice=LoadedDice(life)) as app:
        yield app
    engine.dispose()


def result_of(agent: Attention) -> Any:
    """Return the result of the agent's only task."""
    (number,) = [line.task for line in agent.journal() if line.after == "completed"]
    task = agent.world.store.read(lambda tx: tx.attention.task(number or 0))
    assert task is not None
    assert task.result is not None
    return json.loads(task.result)


def deaths(folder: Path, live: Callable[[Horae], object]) -> Iterator[tuple[str, Path]]:
    """Let a process die before each of its transactions in turn, each time on a new file; yield the files."""
    for number in count(1):
        file = folder / f"{number}.db"
        put_tables(file)
        with process(file) as app:
            store = DyingStore(app.world.store, number)
            try:
                with app.using_world(replace(app.world, store=store)):
                    live(app)
            except Death:
                pass
        yield f"before transaction {number}", file
        if store.sent < number:
            return


def kill(folder: Path, live: Callable[[Horae], object], *statements: int) -> Iterator[Path]:
    """Kill real processes, as ``kill -9`` does, before their statement of each number; yield the files."""
    for number in statements:
        file = folder / f"killed-{number}.db"
        url = put_tables(file)

        def work(engine: Engine) -> None:
            with Horae(engine, clock=VirtualClock(NOON), dice=LoadedDice(0)) as app:
                live(app)

        assert not die_before(number, url, work), f"ended before statement {number}"
        yield file
