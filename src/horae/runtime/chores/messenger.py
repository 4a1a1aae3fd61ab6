"""The messenger: delivers what one database of a cluster has to tell the others, beside the chores of its keeper.

A hint of a commit wakes it, and a slow look is the net. Each destination has a thread and a back-off of its own, so
that one which is away or slow holds up no other. Any number of messengers get along: messages are taken for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.actions import hints, messages
from horae.actions.shards import AWAY
from horae.core.cluster.messages import HINT
from horae.errors import StoreError
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff, finish

if TYPE_CHECKING:
    from horae.runtime.chores.keeper import MakeBeside

log = logging.getLogger("horae.messenger")
LOOK_EVERY = timedelta(seconds=15)
LOOK_UNHINTED = timedelta(seconds=1)  # where no hints of other processes arrive
SPACING = timedelta(milliseconds=50)  # between two looks, however often it is woken
REPAIR = timedelta(minutes=5)  # between two looks for asks that were left without an answer
LONGEST_TURN = 2.0  # seconds of deliveries to one database before the map is looked at again
LONGEST_BACKOFF = 10.0  # seconds between two tries of a database that does not answer
PATIENCE = 2.0  # seconds for deliveries under way when it ends
HEEDED = ("*", HINT)


def messengers(everywhere: World) -> tuple[MakeBeside, ...]:
    """Return what makes the messenger of a keeper, which keeps one database of a cluster; a single one has none."""
    return () if everywhere.cluster is None else (lambda world, _: Messenger(world, everywhere),)


class Messenger:
    """Delivers the messages of one database; *everywhere* is the world of its cluster."""

    def __init__(self, world: World, everywhere: World) -> None:
        self._world = world
        self._everywhere = everywhere
        self._lines: dict[int, _Line] = {}
        self._alarm: Alarm | None = None
        self._is_stopping = False
        self._repaired_at = float("-inf")

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._is_stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Deliver until :meth:`stop`."""
        self._alarm = Alarm(self._world.clock)
        looks, backoff = DatabaseThreads(1, name="horae-messenger"), Backoff(self._world.dice)
        unsubscribe = hints.subscribe(self._world, self._wake)
        try:
            while not self._is_stopping:
                try:
                    await self._round(looks)
                    backoff.reset()
                except StoreError as problem:
                    log.log(logging.DEBUG if backoff.failures else logging.WARNING, "messages wait: %s", problem)
                    await self._rest(backoff.next())
                except Exception:
                    log.exception("a round of the messenger failed; it goes on")
                    await self._rest(backoff.next())
        finally:
            unsubscribe()
            await finish(PATIENCE, *[line.task for line in self._lines.values() if line.task is not None])
            for line in self._lines.values():
                line.close()
            looks.close()

    async def _round(self, looks: DatabaseThreads) -> None:
        began = self._world.clock.monotonic()
        due = await looks.call(self._look)
        for number, vshards in due.now.items():
            self._line(number).start(vshards)
        waits = [line.rests_until for number, line in self._lines.items() if number in due.now]
        at_most = LOOK_EVERY if hints.hears(self._world) else LOOK_UNHINTED
        await self._sleep(due.next_at, [each - began for each in waits if each > began], at_most)
        await self._rest(SPACING - timedelta(seconds=self._world.clock.monotonic() - began))

    async def _sleep(self, next_at: datetime | None, waits: list[float], at_most: timedelta) -> None:
        assert self._alarm is not None
        await self._alarm.sleep(next_at, min([at_most, *(timedelta(seconds=each) for each in waits)]))

    async def _rest(self, duration: timedelta) -> None:
        if self._alarm is not None and duration > timedelta(0):
            await self._alarm.until(lambda: self._is_stopping, duration)

    def _look(self) -> messages.Due:
        """Return what is due; before that write answers that were left, and now and then find those that were lost."""
        assert self._everywhere.cluster is not None
        if self._world.clock.monotonic() - self._repaired_at > REPAIR.total_seconds():
            self._repaired_at = self._world.clock.monotonic()
            messages.find_lost_asks(self._world)
            messages.forget_old(self._world)
            messages.forget_arrivals(self._world, self._everywhere)
        found = messages.find_due(self._world, self._everywhere.cluster)
        if found.unanswered:
            messages.settle_asks(self._world)
            found = messages.find_due(self._world, self._everywhere.cluster)
        return found

    def _line(self, number: int) -> _Line:
        if number not in self._lines:
            self._lines[number] = _Line(self._world, self._everywhere, number, self._ring)
        return self._lines[number]

    def _ring(self) -> None:
        if self._alarm is not None:
            self._alarm.ring()

    def _wake(self, queue: str) -> None:
        if queue in HEEDED and self._alarm is not None:
            self._alarm.ring_from_elsewhere()


class _Line:
    """Deliveries to one database, one after the other."""

    def __init__(self, world: World, everywhere: World, number: int, ring: Callable[[], None]) -> None:
        self._world, self._everywhere, self._number = world, everywhere, number
        self._ring = ring
        self._threads = DatabaseThreads(1, name=f"horae-messenger-{number}")
        self._backoff = Backoff(world.dice, first=0.25, cap=LONGEST_BACKOFF)
        self.task: asyncio.Task[None] | None = None
        self.rests_until = float("-inf")

    def start(self, vshards: list[int]) -> None:
        """Begin to deliver to these virtual shards, unless deliveries are under way or the database rests."""
        is_busy = self.task is not None and not self.task.done()
        if not is_busy and self._world.clock.monotonic() >= self.rests_until:
            self.task = asyncio.create_task(self._deliver(vshards), name="horae-message-line")

    async def _deliver(self, vshards: list[int]) -> None:
        ends = self._world.clock.monotonic() + LONGEST_TURN
        try:
            while await self._threads.call(lambda: self._step(vshards)):
                if self._world.clock.monotonic() > ends:
                    break
            self._backoff.reset()
        except AWAY as problem:
            level = logging.DEBUG if self._backoff.failures else logging.WARNING
            log.log(level, "messages to database %s of the cluster wait: %s", self._number, problem)
            self._pause()
        except Exception:
            log.exception("messages to database %s of the cluster wait", self._number)
            self._pause()
        self._ring()

    def _step(self, vshards: list[int]) -> bool:
        """Deliver a batch; return whether there may be more."""
        return messages.deliver(self._world, self._everywhere, self._number, vshards) >= messages.AT_ONCE

    def _pause(self) -> None:
        self.rests_until = self._world.clock.monotonic() + self._backoff.next().total_seconds()

    def close(self) -> None:
        self._threads.close()
