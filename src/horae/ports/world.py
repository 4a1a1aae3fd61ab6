"""The world around a verb: a clock, dice, tracing, and ``World``, which bundles what a verb needs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from horae.core.dataclass import dataclass
from horae.core.retention import Retention

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import ShardMap
    from horae.core.jobs.job import Job, NewJob, Outcome
    from horae.ports.claims import JobRule
    from horae.ports.cluster import Shards
    from horae.ports.store import Store

NOTICED = timedelta(seconds=1)  # smaller differences between the lease line and the wall clock are not converted


class Clock(Protocol):
    """The one place that knows what time it is."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC, as all hosts on one store agree on it."""

    def monotonic(self) -> float:
        """Return seconds that never jump, for durations."""

    def steady(self) -> datetime:
        """Return the present instant on the lease line, which no step of the host's clock moves.

        All processes on one store agree on it. Where the database's clock is used it is the same as ``now``.
        """

    def pause(self, seconds: float) -> None:
        """Wait in this thread until so much of this clock's time has passed."""

    async def pause_async(self, seconds: float) -> None:
        """Wait until so much of this clock's time has passed, while the event loop goes on."""


@runtime_checkable
class FollowingClock(Protocol):
    """A clock that follows the store's: a reading that came with other answers spares it one of its own."""

    def follow(self, store_time: datetime, asked_at: float) -> None:
        """Take over the store's time, asked for at that moment of the monotonic clock and answered just now."""


class Dice(Protocol):
    """The one source of chance."""

    def roll(self) -> float:
        """Return a number in [0, 1)."""

    def name(self, length: int = 12) -> str:
        """Return fresh random hexadecimal characters, for ids that must not collide."""


class HasDice(Protocol):
    """Something with a source of chance: the world, or a rule that has no world of its own."""

    @property
    def dice(self) -> Dice: ...


class TracedRun(Protocol):
    """A run that is being traced."""

    def ended(self, outcome: Outcome, problem: BaseException | None) -> None: ...


class Tracing(Protocol):
    """Joins what happens here with what happened elsewhere. Its own trouble stays its own."""

    def current(self) -> str | None:
        """Return the ``traceparent`` of what is under way here; None where nothing is."""

    def running(self, job: Job) -> AbstractContextManager[TracedRun]:
        """Trace one attempt, as what is under way in its task or thread."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything a verb needs from outside."""

    store: Store
    clock: Clock
    dice: Dice
    max_payload_bytes: int = 1024 * 1024
    shortest_interval: timedelta = timedelta(0)  # at least so far apart are the runs of a user's interval task
    tzdata: str = ""  # the version of the zone database that this process reads
    lenient: bool = False  # whether new schedules read cron leniently unless they say otherwise
    tracing: Tracing | None = None
    rules: tuple[JobRule, ...] = ()  # asked in this order, which is that of their locks
    retention: Retention = field(default_factory=Retention)  # how long this process's settings keep finished rows
    cluster: Shards | None = None  # the databases of a cluster, where there are several

    def route(
        self,
        *,
        owner: str | None = None,
        key: str | None = None,
        shard_key: str | None = None,
        id: str | None = None,  # noqa: A002  # the public name of the field
    ) -> World:
        """Return the world that keeps what is about to be touched: itself, or in a cluster that of one virtual shard.

        A verb names what it knows: the owner of what it makes or looks for, the key of a house job or schedule, the id
        of what exists. With nothing known it means what the house keeps without a key.
        """
        if self.cluster is None:
            return self
        from horae.core.cluster.placement import find_place

        place = find_place(self.cluster.shard_map, owner=owner, key=key, shard_key=shard_key, id=id)
        vshard = place.vshard if place.vshard is not None else self.cluster.forward(id)
        return self.cluster.whole(self, place.database or 0) if vshard is None else self.cluster.bind(self, vshard)

    @property
    def shard_map(self) -> ShardMap | None:
        """The map of the cluster; None where there is one database."""
        return None if self.cluster is None else self.cluster.shard_map

    def route_job(self, job: NewJob) -> World:
        """Return the world that is to keep a new job."""
        if self.cluster is None:
            return self
        from horae.core.cluster.placement import vshard_of_job

        return self.cluster.bind(self, vshard_of_job(self.cluster.shard_map, job, self.dice.roll()))

    def shards(self) -> list[World]:
        """Return a world for each database, for what is done in all of them; a single database is itself."""
        return [self] if self.cluster is None else [world for _, world in self.cluster.worlds(self)]

    def databases(self) -> list[World]:
        """Return a world for each database, also for those that keep only what ended there; not for those that never
        keep a shard, where nothing is but jobs on the way.
        """
        cluster = self.cluster
        return [self] if cluster is None else [cluster.whole(self, each.number) for each in cluster.shard_map.sharded]

    def within(self, *, owner: str | None = None, id: str | None = None) -> list[World]:  # noqa: A002  # the public name of the field
        """Return the worlds of the databases that may keep something, for verbs on rows that are held there: the one
        of an id or of a tenant, else all.
        """
        if self.cluster is None:
            return [self]
        if owner is None and id is None:
            return self.shards()
        from horae.core.cluster.placement import find_place

        place, shard_map = find_place(self.cluster.shard_map, owner=owner, id=id), self.cluster.shard_map
        vshard = place.vshard if place.vshard is not None else self.cluster.forward(id)
        number = place.database if vshard is None else shard_map.database_of(vshard)
        return [self.cluster.whole(self, number or 0)]

    def wall_time(self, steady: datetime | None) -> datetime | None:
        """Convert an instant of the lease line to wall-clock time; unchanged unless the clock was set since boot."""
        if steady is None:
            return None
        shift = self.clock.now() - self.clock.steady()
        return steady if abs(shift) < NOTICED else steady + shift
