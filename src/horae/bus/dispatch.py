"""The relay of dispatch: one process, by a stored lease, works for all workers on the bus.

In a cluster it claims from every database, and the lease is in the home.

It claims for them, renews, settles and answers by the verbs that every worker uses, so that what is late or comes twice
changes nothing. A relay that dies loses nothing: open asks are repeated, calls wait in their stream, and what it had
claimed and not handed over comes back when its lease runs out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from horae.actions import bus
from horae.actions import chores as verbs
from horae.actions.chores import HeldChore
from horae.bus.asks import Asks
from horae.bus.calls import Rooms, perform, rooms_of
from horae.core.bus import PREFIX, check_prefix
from horae.core.cluster.shard_map import HOME
from horae.core.dispatch import RELAY, BusCall, read_call
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
AT_ONCE = 200  # calls that are performed together
CONSUMER = "relay"
MARK = "horae_database"  # metadata of a stream: whose it is
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

    Whoever may publish to its subjects is a worker of the house. *replicas* is how many servers keep each stream that
    is made. *options* go to ``nats.connect``. Call it before a worker or the service of the application starts.
    """
    load_client()
    named = (servers,) if isinstance(servers, str) else tuple(servers)
    address = BusAddress(named, check_prefix(prefix), stream, options)
    app.beside.append(lambda world, name: Dispatcher(world, name, address, replicas=replicas, lease=lease))


class Dispatcher(Beside):
    """A process that takes its turn as the relay."""

    def __init__(
        self, world: World, name: str, address: BusAddress, *, replicas: int = 1, lease: timedelta = LEASE
    ) -> None:
        self._world, self._name, self._bus, self._lease = world, name, address, lease
        self._home = world  # where the lease is
        self._replicas = replicas
        self._is_stopping = False
        self._alarm: Alarm | None = None
        self._known_until = float("-inf")  # until when, monotonic, the lease is known to be held
        self._asks: Asks | None = None

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

    async def _take_turn(self, database: DatabaseThreads) -> timedelta:
        """Serve while this process holds the lease; return in how long to ask for it again."""
        began = self._world.clock.monotonic()
        self._home = await database.call(lambda: _home_of(self._world))
        held = await database.call(
            lambda: verbs.take(self._home, RELAY, holder=self._name, every=ASK_AGAIN, lease=self._lease)
        )
        if isinstance(held, timedelta):
            return min(max(held, timedelta(milliseconds=50)), ASK_AGAIN)
        self._known_until = began + self._lease.total_seconds()
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
                await database.call(lambda: verbs.end(self._home, held, every=timedelta(0), is_done=True))
        except (HoraeError, TimeoutError) as problem:
            log.debug("the lease of the relay runs out by itself: %s", problem)

    def _is_held(self) -> bool:
        return self._world.clock.monotonic() < self._known_until

    async def _serve(self, database: DatabaseThreads, held: HeldChore) -> None:
        source = await database.call(lambda: bus.identify(self._world))
        rooms, subjects = rooms_of(self._world), self._bus.subjects
        mended = asyncio.Event()
        connection = LastingConnection(self._bus.servers, self._bus.options, self._world.dice, mended.set)
        await connection.open()
        try:
            self._asks = asks = Asks(rooms, database, connection, subjects, source)
            inbox = _Inbox(rooms, database, connection, self._bus)
            try:
                await self._make_streams(connection, source)
                await connection.client.subscribe(subjects.ask, cb=asks.receive)
                await inbox.open()
            except HoraeError:
                raise
            except Exception as problem:  # the servers are electing a leader, or lack room
                raise BusUnavailable("bus_unreachable", problem=error_line(problem)) from problem
            if self._is_stopping:  # it was asked to end while it connected
                return
            log.info("this process dispatches jobs on %s", subjects.root)
            asking = asyncio.create_task(asks.serve(self._is_held), name="horae-dispatch asks")
            beside = [
                asyncio.create_task(inbox.serve(), name="horae-dispatch calls"),
                asyncio.create_task(self._keep(database, held, connection, inbox, mended), name="horae-dispatch lease"),
            ]
            try:
                await asyncio.wait([asking, *beside], return_when=asyncio.FIRST_COMPLETED)
                failed = next((each for each in [*beside, asking] if each.done() and each.exception()), None)
            finally:
                asks.stop()
                await asyncio.wait([asking], timeout=LAST_WORDS)
                await _cancel(asking, *beside)
            if failed is not None:
                raise failed.exception() or BusUnavailable("bus_unreachable", problem="the relay ended")
        finally:
            self._asks = None
            await connection.close()

    async def _keep(
        self,
        database: DatabaseThreads,
        held: HeldChore,
        connection: LastingConnection,
        inbox: _Inbox,
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
                if not await database.call(lambda: verbs.extend(self._home, held, lease=self._lease)):
                    break
                self._known_until = began + self._lease.total_seconds()
            except StoreError as problem:
                log.warning("the lease of the relay could not be extended; trying again: %s", problem)
        log.warning("another process dispatches jobs from now on")

    async def _make_streams(self, connection: LastingConnection, source: str) -> None:
        """Make the streams where there are none, and mark whose they are; refuse those of another database."""
        subjects = self._bus.subjects
        for ending, kept in ((CALLS, subjects.calls), (JOBS, subjects.deliveries)):
            async with asyncio.timeout(2 * ACKNOWLEDGE):
                await self._make_stream(connection.streams, self._bus.stream + ending, kept, source)

    async def _make_stream(self, streams: Any, name: str, subject: str, source: str) -> None:
        from nats.js.api import RetentionPolicy, StreamConfig
        from nats.js.errors import Error, NotFoundError

        try:
            found = (await streams.stream_info(name)).config
        except NotFoundError:
            config = StreamConfig(
                name=name, subjects=[subject], retention=RetentionPolicy.WORK_QUEUE, num_replicas=self._replicas,
                max_age=KEPT.total_seconds(), duplicate_window=DUPLICATES.total_seconds(), metadata={MARK: source},
            )  # fmt: skip
            try:
                found = (await streams.add_stream(config)).config
            except Error as problem:
                raise BusUnavailable("bus_stream_refused", stream=name, problem=error_line(problem)) from problem
            log.info("made the stream %s for the subjects %s", name, subject)
        marked = (found.metadata or {}).get(MARK)
        if marked is None:
            await streams.update_stream(replace(found, metadata={**(found.metadata or {}), MARK: source}))
        elif marked != source:
            raise ConfigurationError("bus_of_another_database", stream=name)


class _Inbox:
    """The calls of all workers: performed together, each answered."""

    def __init__(self, rooms: Rooms, database: DatabaseThreads, connection: LastingConnection, bus: BusAddress) -> None:
        self._rooms, self._database, self._connection, self._bus = rooms, database, connection, bus
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()
        self._inbox = f"{bus.subjects.root}.relay"

    async def open(self) -> None:
        await self._connection.client.subscribe(self._inbox, queue=CONSUMER, cb=self._waiting.put)
        await self.listen()

    async def listen(self) -> None:
        """Let the server send the calls to whichever relay listens; repeating it changes nothing."""
        from nats.js.api import AckPolicy, ConsumerConfig

        config = ConsumerConfig(
            durable_name=CONSUMER, deliver_subject=self._inbox, deliver_group=CONSUMER, ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACKNOWLEDGE, max_ack_pending=5 * AT_ONCE, filter_subject=self._bus.subjects.calls,
        )  # fmt: skip
        async with asyncio.timeout(2 * ACKNOWLEDGE):
            await self._connection.streams.add_consumer(self._bus.stream + CALLS, config)

    async def serve(self) -> None:
        """Perform calls as they come, several batches at a time."""
        async with asyncio.TaskGroup() as batches:
            free = asyncio.Semaphore(2)  # while one batch is written, the next one collects
            while True:
                await free.acquire()
                messages = [await self._waiting.get()]
                while not self._waiting.empty() and len(messages) < AT_ONCE:
                    messages.append(self._waiting.get_nowait())
                batch = batches.create_task(self._perform(messages))
                batch.add_done_callback(lambda _: free.release())

    async def _perform(self, messages: Sequence[Any]) -> None:
        calls = [(message, call) for message in messages if (call := await _read(message)) is not None]
        quick = [each for each in calls if each[1].name in ("settle", "renew")]
        slow = [each for each in calls if each not in quick]
        groups = [group for group in (quick, *([each] for each in slow)) if group]
        await asyncio.gather(*(self._perform_group(group) for group in groups))

    async def _perform_group(self, calls: Sequence[tuple[Any, BusCall]]) -> None:
        answers = await self._database.call(lambda: perform(self._rooms, [call for _, call in calls]))
        await asyncio.gather(
            *(self._answer(message, call, answer) for (message, call), answer in zip(calls, answers, strict=True))
        )

    async def _answer(self, message: Any, call: BusCall, answer: dict[str, Any] | None) -> None:
        try:
            if answer is None:
                await message.nak(delay=1.0)
                return
            await message.ack()
            await self._connection.publish(
                self._bus.subjects.to(call.to),
                {"answer": call.id, **answer},
                message_id=f"call {call.id}",
                within=ACKNOWLEDGE,
            )
        except Exception as problem:  # its caller asks again, and the store knows what was done
            log.debug("a call of %s could not be answered: %s", call.to, error_line(problem))


def _home_of(world: World) -> World:
    """Return the world of the database that keeps the lease: in a cluster the home, by its own clock."""
    cluster = world.cluster
    return world if cluster is None else cluster.whole(world, cluster.shard_map.database_of(HOME))


async def _read(message: Any) -> BusCall | None:
    """Read a call; one that cannot be read is taken from the stream, because it never will be."""
    try:
        return read_call(message.subject.rpartition(".")[2], json.loads(message.data))
    except (HoraeError, ValueError) as problem:
        log.warning("a call of the bus cannot be read: %s", problem)
    await message.ack()
    return None


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=LAST_WORDS)
