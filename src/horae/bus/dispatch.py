"""The relay of dispatch: one process, by a stored lease, works for all workers on the bus.

In a cluster each database has one, by a lease in that database (:mod:`horae.bus.cluster`), and beside them one with its
lease in the home claims from all of them for asks that name no relay.

It claims for them, renews, settles and answers by the verbs that every worker uses, so that what is late or comes twice
changes nothing. A relay that dies loses nothing: open asks are repeated, calls wait in their stream, and what it had
claimed and not handed over comes back when its lease runs out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from horae.actions import bus
from horae.actions import chores as verbs
from horae.actions.chores import HeldChore
from horae.bus.announcements import Announcer
from horae.bus.asks import Asks
from horae.bus.inbox import Inbox
from horae.bus.rooms import rooms_of
from horae.core.bus import PREFIX, check_prefix
from horae.core.cluster.shard_map import HOME
from horae.core.dispatch import ANY, RELAY, RELAY_OF_ONE
from horae.errors import BusUnavailable, ConfigurationError, HoraeError, StoreError
from horae.ports.world import World
from horae.runtime.chores.keeper import Beside, MakeBeside
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm, Backoff
from horae.runtime.nats import ACKNOWLEDGE, LastingConnection, load_client
from horae.runtime.sources.bus_line import CALLS, JOBS, BusAddress
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.bus")
LEASE = timedelta(seconds=6)  # after which another process takes over from one that died
ASK_AGAIN = timedelta(seconds=2)  # at most, before the lease is asked for again by a process without it
KEPT = timedelta(hours=1)  # how long a stream keeps what has not been taken
DUPLICATES = timedelta(minutes=2)  # within which a stream knows the id of a message again
MARK = "horae_database"  # metadata of a stream: whose it is
COURTESY = timedelta(milliseconds=500)  # that a process lets pass before it takes one more lease
LAST_WORDS = 2.0  # seconds for what is under way when a relay ends


class Dispatched(Protocol):
    """An application, as far as a relay needs it."""

    @property
    def beside(self) -> list[MakeBeside]: ...


def dispatch(
    app: Dispatched,
    servers: str | Sequence[str],
    *,
    stream: str = "HORAE",
    prefix: str = PREFIX,
    replicas: int = 1,
    lease: timedelta = LEASE,
    **options: Any,
) -> None:
    """Hand out the jobs of an application's database to workers on NATS JetStream, from one of its processes at a time.

    Any client that may publish to its subjects is a worker of the house. *replicas* is how many servers keep each
    stream that is made. *options* go to ``nats.connect``. Call it before a worker or the service of the application
    starts.
    """
    load_client()
    named = (servers,) if isinstance(servers, str) else tuple(servers)
    address = BusAddress(named, check_prefix(prefix), stream, options)

    def make(world: World, name: str) -> Beside:
        if world.cluster is None:
            return Dispatcher(world, name, address, replicas=replicas, lease=lease)
        from horae.bus.cluster import ClusterDispatcher

        return ClusterDispatcher(world, name, address, replicas=replicas, lease=lease)

    app.beside.append(make)


class Dispatcher(Beside):
    """A process that takes its turn as the relay; of one database of a cluster, if *number* names it.

    *may_take* is asked before the lease is; a process that has several is to leave some for others.
    """

    def __init__(
        self,
        world: World,
        name: str,
        address: BusAddress,
        *,
        replicas: int = 1,
        lease: timedelta = LEASE,
        number: int | None = None,
        may_take: Callable[[], bool] = lambda: True,
    ) -> None:
        self._world, self._name, self._bus, self._lease = world, name, address, lease
        self._number, self._relay = number, None if number is None else str(number)
        self._may_take = may_take
        self._here = world  # where the lease is
        self._replicas = replicas
        self._is_stopping = False
        self._alarm: Alarm | None = None
        self._known_until = float("-inf")  # until when, monotonic, the lease is known to be held
        self.taken_at = float("-inf")  # when it was taken
        self._apart: DatabaseThreads
        self._asks: Asks | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process has the lease, as far as it knows."""
        return self._world.clock.monotonic() < self._known_until

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._is_stopping = True
        if self._alarm is not None:
            self._alarm.ring()
        if self._asks is not None:
            self._asks.stop()

    async def run(self) -> None:
        """Serve whenever this process has the lease, until :meth:`stop`."""
        self._alarm = Alarm(self._world.clock)
        backoff, database = Backoff(self._world.dice, cap=2.0), DatabaseThreads(4, "horae-dispatch")
        self._apart = DatabaseThreads(2, "horae-dispatch-apart")
        try:
            while not self._is_stopping:
                try:
                    wait = await self._take_turn(database)
                    backoff.reset()
                except (StoreError, BusUnavailable, ConfigurationError) as problem:
                    log.log(logging.DEBUG if backoff.failures else logging.WARNING, "no dispatch now: %s", problem)
                    wait = backoff.next()
                except Exception:
                    log.exception("the relay failed; it is tried again")
                    wait = backoff.next()
                await self._alarm.until(lambda: self._is_stopping, wait)
        finally:
            database.close()
            self._apart.close()

    async def _take_turn(self, database: DatabaseThreads) -> timedelta:
        """Serve while this process holds the lease; return in how long to ask for it again."""
        if not self._may_take():
            return COURTESY / 2
        began, name = self._world.clock.monotonic(), RELAY if self._number is None else RELAY_OF_ONE
        self._here = await database.call(lambda: _database_of(self._world, self._number))
        held = await database.call(
            lambda: verbs.take(self._here, name, holder=self._name, every=ASK_AGAIN, lease=self._lease)
        )
        if isinstance(held, timedelta):
            return min(max(held, timedelta(milliseconds=50)), ASK_AGAIN)
        self._known_until, self.taken_at = began + self._lease.total_seconds(), began
        try:
            await self._serve(database, held)
        finally:
            self._known_until = float("-inf")
            await self._give_back(database, held)
        return timedelta(0) if self._is_stopping else ASK_AGAIN

    async def _give_back(self, database: DatabaseThreads, held: HeldChore) -> None:
        """Let another process have the lease at once; where the store does not answer, it runs out."""
        try:
            async with asyncio.timeout(LAST_WORDS):
                await database.call(lambda: verbs.end(self._here, held, every=timedelta(0), is_done=True))
        except (HoraeError, TimeoutError) as problem:
            log.debug("the lease of the relay runs out by itself: %s", problem)

    def _is_held(self) -> bool:
        return self.is_held

    def _is_well(self) -> bool:
        """Return whether the database has answered lately: who extends its lease does it at a third of its time."""
        return self._world.clock.monotonic() < self._known_until - self._lease.total_seconds() / 2

    async def _serve(self, database: DatabaseThreads, held: HeldChore) -> None:
        source = await database.call(lambda: bus.mark(self._world))
        subjects, mended = self._bus.subjects, asyncio.Event()
        connection = LastingConnection(self._bus.servers, self._bus.options, self._world.dice, mended.set)
        await connection.open()
        announcer = self._announcer(connection)
        try:
            here = self._world if self._number is None else self._here
            own = None if self._number is None else announcer  # who serves all databases needs no more asks
            self._asks = asks = Asks(rooms_of(here), database, connection, subjects, source, self._relay, own)
            inbox = Inbox(rooms_of(self._world, here), database, self._apart, connection, self._bus, self._relay)
            try:
                await self._make_streams(connection, database, source)
                heard = subjects.ask if self._relay is None else subjects.ask_of(">")
                await connection.client.subscribe(heard, cb=asks.receive)
                await inbox.open()
            except HoraeError:
                raise
            except Exception as problem:  # the servers are electing a leader, or lack room
                raise BusUnavailable("bus_unreachable", problem=error_line(problem)) from problem
            if self._is_stopping:  # it was asked to end while it connected
                return
            log.info("this process dispatches jobs on %s", subjects.ask_of(self._relay))
            asking = asyncio.create_task(asks.serve(self._is_held), name="horae-dispatch asks")
            beside = [
                asyncio.create_task(inbox.serve(), name="horae-dispatch calls"),
                asyncio.create_task(self._keep(database, held, connection, inbox, mended), name="horae-dispatch lease"),
            ]
            if announcer is not None:
                beside.append(asyncio.create_task(announcer.serve(self._is_well), name="horae-dispatch announcing"))
            try:
                await asyncio.wait([asking, *beside], return_when=asyncio.FIRST_COMPLETED)
                failed = next((each for each in [*beside, asking] if each.done() and each.exception()), None)
            finally:
                if announcer is not None:
                    await announcer.end()
                asks.stop()
                await asyncio.wait([asking], timeout=LAST_WORDS)
                await _cancel(asking, *beside)
            if failed is not None:
                raise failed.exception() or BusUnavailable("bus_unreachable", problem="the relay ended")
        finally:
            self._asks = None
            await connection.close()

    def _announcer(self, connection: LastingConnection) -> Announcer | None:
        """Return what tells workers of this relay; nothing for a single database, whose relay needs no name."""
        if self._world.cluster is None:
            return None
        return Announcer(connection, self._bus.subjects, self._relay or ANY, self._world.clock)

    async def _keep(
        self,
        database: DatabaseThreads,
        held: HeldChore,
        connection: LastingConnection,
        inbox: Inbox,
        mended: asyncio.Event,
    ) -> None:
        """Extend the lease at a third of its time; return when it is lost, raise when the bus stays away."""
        alarm, away = Alarm(self._world.clock), 0
        while self._is_held():
            await alarm.sleep(None, self._lease / 3)
            if mended.is_set():
                try:
                    await inbox.listen()
                    mended.clear()
                except Exception as problem:  # the servers are electing a leader
                    log.debug("the calls of workers are not heard yet: %s", error_line(problem))
            away = 0 if connection.is_connected else away + 1
            if away > 3:
                raise BusUnavailable("bus_unreachable", problem="no connection for longer than the lease of the relay")
            began = self._world.clock.monotonic()
            try:
                if not await database.call(lambda: verbs.extend(self._here, held, lease=self._lease)):
                    break
                self._known_until = began + self._lease.total_seconds()
            except StoreError as problem:
                log.warning("the lease of the relay could not be extended; trying again: %s", problem)
        log.warning("another process dispatches jobs from now on")

    async def _make_streams(self, connection: LastingConnection, database: DatabaseThreads, source: str) -> None:
        """Make the streams where there are none, and mark whose they are; refuse those of another database."""
        subjects = self._bus.subjects
        for ending, kept in ((CALLS, subjects.calls), (JOBS, subjects.deliveries)):
            name = self._bus.stream + ending
            async with asyncio.timeout(2 * ACKNOWLEDGE):
                found = await self._make_stream(connection.streams, name, kept, source)
            marked = (found.metadata or {}).get(MARK)
            if marked == source:
                continue
            if marked is not None and marked != await database.call(lambda: bus.identify(self._world)):
                raise ConfigurationError("bus_of_another_database", stream=name)
            # It has no mark yet, or that of the first database, from before the cluster.
            async with asyncio.timeout(2 * ACKNOWLEDGE):
                metadata = {**(found.metadata or {}), MARK: source}
                await connection.streams.update_stream(replace(found, metadata=metadata))

    async def _make_stream(self, streams: Any, name: str, subject: str, source: str) -> Any:
        from nats.js.api import RetentionPolicy, StreamConfig
        from nats.js.errors import Error, NotFoundError

        try:
            return (await streams.stream_info(name)).config
        except NotFoundError:
            config = StreamConfig(
                name=name, subjects=[subject], retention=RetentionPolicy.WORK_QUEUE, num_replicas=self._replicas,
                max_age=KEPT.total_seconds(), duplicate_window=DUPLICATES.total_seconds(), metadata={MARK: source},
            )  # fmt: skip
            try:
                made = (await streams.add_stream(config)).config
            except Error as problem:
                raise BusUnavailable("bus_stream_refused", stream=name, problem=error_line(problem)) from problem
            log.info("made the stream %s for the subjects %s", name, subject)
            return made


def _database_of(world: World, number: int | None) -> World:
    """Return the world of the database that keeps the lease, by its own clock: that of a number, else the home."""
    cluster = world.cluster
    if cluster is None:
        return world
    return cluster.whole(world, cluster.shard_map.database_of(HOME) if number is None else number)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=LAST_WORDS)
