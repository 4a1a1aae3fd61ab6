"""Which databases of a cluster this process serves, looked at again and again (``core/cluster/assignment.py``).

A cluster of few databases is served whole, without a lease. In a larger one each database is asked by itself and at
most for a while, so that one that does not answer delays no lease in another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, TypeVar

from horae.actions import assignment as leases
from horae.actions.assignment import Service
from horae.core.cluster.assignment import CHOICE, LEASE, LOOK_EVERY, choose
from horae.core.cluster.shard_map import ShardMap
from horae.errors import HoraeError
from horae.ports.cluster import Shards
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads

log = logging.getLogger("horae.cluster")
LOOK_FOR_SHARDS = timedelta(seconds=15)  # a database of the cluster that was away or was added is served after this
PATIENCE = 1.0  # seconds for the answers to one question
T = TypeVar("T")


def looked_after(shard_map: ShardMap) -> list[int]:
    """Return the databases that keep something, or did: in one that was drained nothing is due, but chores are."""
    return [each.number for each in shard_map.sharded]


class Assignment:
    """The databases that one process serves beside the one that it was started with."""

    def __init__(
        self,
        everywhere: World,
        worker: str,
        queues: Collection[str],
        *,
        lease: timedelta = LEASE,
        patience: float = PATIENCE,
        among: Callable[[ShardMap], list[int]] = looked_after,
    ) -> None:
        assert everywhere.cluster is not None
        self._everywhere, self._cluster = everywhere, everywhere.cluster
        self._worker, self._queues, self._lease = worker, tuple(sorted(queues)), lease
        self._patience, self._among = patience, among
        self._threads: dict[int, DatabaseThreads] = {}  # one for each database: one that hangs holds up no other
        self._asked: dict[int, tuple[str, asyncio.Future[Any]]] = {}  # by what for; answers that came late are kept
        self._refreshed_at = float("-inf")
        self._away: set[int] = set()
        self._chosen: frozenset[int] = frozenset()
        self._left: set[int] = set()  # where no lease is held, as an operator asked
        self._worlds: dict[int, World] = {}
        self.pause = LOOK_FOR_SHARDS

    @property
    def cluster(self) -> Shards:
        return self._cluster

    async def look(self, idle: Collection[int] = ()) -> dict[int, World | None]:
        """Return each database that answered, with its world where it is to be served and None where it is not.

        One that does not answer is not among them: whatever is served there goes on. In the databases *idle* this
        process claims nothing, as an operator asked, so it holds no lease there.
        """
        self._refresh()
        numbers = self._among(self._cluster.shard_map)
        is_whole = len(numbers) <= CHOICE
        self.pause = LOOK_FOR_SHARDS if is_whole else LOOK_EVERY
        unknown = [number for number in numbers if number not in self._worlds]
        self._worlds |= await self._ask("open", {number: self._opening(number) for number in unknown})
        worlds = {number: self._worlds[number] for number in numbers if number in self._worlds}
        if is_whole:
            return dict(worlds)
        if len(self._chosen & set(worlds)) < CHOICE:
            found = await self._ask("count", {number: self._counting(world) for number, world in worlds.items()})
            self._chosen = choose(found, self._worker, own=self._cluster.number, chosen=self._chosen)
        active = {number: world for number, world in worlds.items() if number not in idle}
        held = await self._ask("attend", {number: self._attending(number, world) for number, world in active.items()})
        left = await self._ask(
            "leave", {number: self._leaving(worlds[number]) for number in worlds if number in set(idle) - self._left}
        )
        self._left = (self._left | set(left)) & set(idle)
        return {number: worlds[number] if service.is_ours else None for number, service in held.items()}

    async def leave(self) -> None:
        """Give up every lease, so that other workers step in at once."""
        if self.pause == LOOK_EVERY:
            await self._ask("leave", {number: self._leaving(world) for number, world in self._worlds.items()})

    def close(self) -> None:
        for each in self._threads.values():
            each.close()

    # -- one database --------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Begin to read the map again; the known one does until the answer is there."""
        now = self._everywhere.clock.monotonic()
        asked = self._asked.get(0)
        if now - self._refreshed_at >= LOOK_FOR_SHARDS.total_seconds() and (asked is None or asked[1].done()):
            self._refreshed_at = now
            self._submit(0, "refresh", self._cluster.refresh)

    def _opening(self, number: int) -> Callable[[], World]:
        return lambda: self._cluster.whole(self._everywhere, number)

    def _counting(self, world: World) -> Callable[[], int]:
        return lambda: leases.count_others(world, self._worker, self._queues)

    def _attending(self, number: int, world: World) -> Callable[[], Service]:
        is_chosen = number in self._chosen
        return lambda: leases.attend(world, self._worker, self._queues, is_chosen=is_chosen, lease=self._lease)

    def _leaving(self, world: World) -> Callable[[], None]:
        return lambda: leases.leave(world, self._worker)

    async def _ask(self, what: str, calls: dict[int, Callable[[], T]]) -> dict[int, T]:
        """Ask each database in a thread of its own; leave out those that fail or do not answer in time.

        The answer of a slow one is there when the same is asked next.
        """
        asked: dict[int, asyncio.Future[T]] = {}
        for number, call in calls.items():
            before, waiting = self._asked.get(number, (what, None))
            if waiting is None or (before != what and waiting.done()):
                asked[number] = self._submit(number, what, call)
            elif before == what:
                asked[number] = waiting
        if any(not each.done() for each in asked.values()):
            await asyncio.wait(asked.values(), timeout=self._patience)
        answered = [number for number, each in asked.items() if self._has_answered(number, each)]
        for number in [number for number, each in asked.items() if each.done()]:
            del self._asked[number]
        return {number: asked[number].result() for number in answered}

    def _submit(self, number: int, what: str, call: Callable[[], T]) -> asyncio.Future[T]:
        threads = self._threads.setdefault(number, DatabaseThreads(1, name="horae-serving"))
        asked = threads.submit(call)
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())  # a late error is no news
        self._asked[number] = (what, asked)
        return asked

    def _has_answered(self, number: int, asked: asyncio.Future[T]) -> bool:
        problem = asked.exception() if asked.done() else TimeoutError("it has not answered yet")
        if problem is None:
            self._away.discard(number)
        elif number not in self._away:
            expected = isinstance(problem, HoraeError | TimeoutError)
            name = next((each.name for each in self._cluster.shard_map.members if each.number == number), "first")
            log.warning(
                "database %s of the cluster cannot be asked: %s", name, problem, exc_info=None if expected else problem
            )
            self._away.add(number)
        return problem is None
