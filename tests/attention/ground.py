"""Where crashes happen on purpose: a store that dies around its commits, a clock that jumps, a driver without threads.

Everything else is real: the verbs, the driver's own code, a SQLite file.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

from sqlalchemy import event

from horae.actions.attention import lanes
from horae.app import Horae
from horae.attention import Attention
from horae.errors import StoreUnavailable
from horae.runtime.lanes.driver import LaneDriver
from horae.runtime.lanes.spec import AgentSpec
from horae.stores.databases.sqlite import create_sqlite_engine
from horae.testing.clock import NOON, LoadedDice
from tests.support.templates import put_tables

T = TypeVar("T")
Fault = Literal["before", "after", "inside", "statement", "refused", "unheard"]
FAULTS: tuple[Fault, ...] = ("before", "after", "inside", "statement", "refused", "unheard")
LEASE = timedelta(seconds=30)


class Death(BaseException):
    """The process is gone: nothing that could be caught and tidied up after."""


class JumpingClock:
    """Wall time that may go anywhere; what is measured goes on evenly."""

    def __init__(self) -> None:
        self._now, self._ticks = NOON, 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        self._ticks += 0.001
        return self._ticks

    def steady(self) -> datetime:
        return self._now

    def jump(self, span: timedelta) -> None:
        self._now += span

    def pause(self, seconds: float) -> None:
        self.jump(timedelta(seconds=seconds))

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)

    advance = jump


class Fate:
    """Decides where a crash happens: asked at every commit, and around every call of cognition or action."""

    def __init__(self) -> None:
        self.points = 0
        self.crashes = 0
        self.choose: Callable[[int, str], Fault | None] = lambda _point, _what: None
        self.statements: int | None = None  # how many more until the process dies
        self.random = Random(1)

    def at(self, what: str) -> Fault | None:
        self.points += 1
        fault = self.choose(self.points, what)
        self.crashes += fault is not None
        return fault

    def around(self, what: str) -> Fault | None:
        """For calls outside of any transaction only death makes sense, before or after."""
        fault = self.at(what)
        if fault in ("before", "refused", "statement"):
            raise Death(what)
        return fault


class FaultyStore:
    """A real store that dies, or does not answer, around its commits."""

    def __init__(self, real: Any, faults: Fate) -> None:
        self.real, self.faults = real, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def transact(self, work: Callable[[Any], T], **options: Any) -> T:
        fault, real = self.faults.at("transact"), self.real
        if fault == "inside":  # all is written, nothing is committed

            def inside(tx: Any) -> T:
                work(tx)
                raise Death("inside")

            real.transact(inside, **options)
        if fault == "statement":
            self.faults.statements = self.faults.random.randint(1, 9)

        def commit() -> T:
            answer: T = real.transact(work, **options)
            return answer

        return self._around(fault, commit)

    def claim(self, *args: Any, **named: Any) -> Any:
        return self._around(self.faults.at("claim"), lambda: self.real.claim(*args, **named))

    def settle(self, *args: Any, **named: Any) -> Any:
        return self._around(self.faults.at("settle"), lambda: self.real.settle(*args, **named))

    def _around(self, fault: Fault | None, work: Callable[[], T]) -> T:
        if fault == "before":
            raise Death(fault)
        if fault == "refused":
            raise StoreUnavailable("not now")
        try:
            answer = work()
        finally:
            self.faults.statements = None
        if fault in ("after", "inside", "statement"):
            raise Death(fault)
        if fault == "unheard":
            raise StoreUnavailable("it was written, and the answer was lost")
        return answer


class PlainDriver(LaneDriver):
    """The driver without its threads: one thing after the other, in the order of the test."""

    async def _ask(self, work: Callable[[], T], limit: timedelta | None = None) -> T:
        return work()

    async def _call(self, name: str, work: Callable[[], Any], limit: timedelta) -> Any:
        return work()

    async def _drives(self) -> bool:
        if self.drive is None:
            spec = self.spec
            self.drive = lanes.acquire(
                self.world, spec.lane, self.name, owner=spec.owner, lease=spec.lease, policy=spec.policy
            )
        return self.drive is not None

    def once(self) -> bool:
        """One step; whether anything was done."""
        return finished(self.step())

    def all(self, at_most: int = 10_000) -> None:
        """Everything that can be done now."""
        for _ in range(at_most):
            if not self.once():
                return
        raise AssertionError(f"{self.spec.lane} does not come to rest")

    def end(self) -> None:
        finished(self.close())


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The answer of a coroutine that never has to wait."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("a plain driver had to wait")


class Ground:
    """A SQLite file, a clock, and the means to break things."""

    def __init__(self, app: Horae, clock: JumpingClock, faults: Fate) -> None:
        self.app, self.clock, self.faults = app, clock, faults
        self.drivers = 0

    def driver(self, agent: Attention, name: str | None = None) -> PlainDriver:
        self.drivers += 1
        spec = AgentSpec(
            agent.name, agent.owner, dict(agent._cognitions), dict(agent._actions), agent._control, agent.policy
        )
        return PlainDriver(self.app.world, spec, name or f"driver-{self.drivers}")

    def run(self, agent: Attention) -> None:
        """Drive it until it is at rest, as ``agent.run()`` does."""
        driver = self.driver(agent)
        driver.all()
        driver.end()


@contextmanager
def broken_ground(folder: Path) -> Iterator[Ground]:
    """On a file of its own. Not synced: what dies here is the process, not the machine."""
    engine = create_sqlite_engine(put_tables(folder / "horae.db"), "OFF")
    clock, faults = JumpingClock(), Fate()

    @event.listens_for(engine, "before_cursor_execute")
    def count(*_: Any) -> None:
        if faults.statements is not None:
            faults.statements -= 1
            if faults.statements < 0:
                raise Death("between two statements")

    with Horae(engine, clock=clock, dice=LoadedDice(1)) as app:
        world = replace(app.world, store=FaultyStore(app.world.store, faults))
        with app.using_world(world):
            yield Ground(app, clock, faults)
    engine.dispose()
