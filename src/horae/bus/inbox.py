"""The calls of workers on the bus: taken from their stream, performed together, each answered."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

from horae.bus.calls import perform
from horae.bus.rooms import Rooms
from horae.core.dispatch import ENQUEUES, BusCall, Subjects, read_call
from horae.errors import HoraeError
from horae.runtime.database import DatabaseThreads
from horae.runtime.nats import ACKNOWLEDGE, LastingConnection
from horae.runtime.sources.bus_line import CALLS, BusAddress
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.bus")
AT_ONCE = 200  # calls that are performed together
CONSUMER = "relay"
APART = (*ENQUEUES, "store_definitions")  # calls about no job that the relay has handed out


class Inbox:
    """The calls of all workers: performed together, each answered."""

    def __init__(
        self,
        rooms: Rooms,
        database: DatabaseThreads,
        apart: DatabaseThreads,
        connection: LastingConnection,
        bus: BusAddress,
        relay: str | None = None,
    ) -> None:
        self._rooms, self._database, self._apart = rooms, database, apart
        self._connection, self._bus = connection, bus
        self._relay, self._is_cluster = relay, rooms.world.cluster is not None
        self._waiting: asyncio.Queue[Any] = asyncio.Queue()

    async def open(self) -> None:
        consumer, inbox, _ = self._consumer(self._relay)
        await self._connection.client.subscribe(inbox, queue=consumer, cb=self._waiting.put)
        await self.listen()

    async def listen(self) -> None:
        """Let the server send the calls to whichever relay listens; repeating it changes nothing.

        A work queue refuses consumers whose subjects overlap. So each relay of a cluster sees first that the consumer
        for calls that name no relay, which may be from before the cluster, leaves it those that name one.
        """
        async with asyncio.timeout(2 * ACKNOWLEDGE):
            for relay in dict.fromkeys((None, self._relay)):
                await self._make_consumer(*self._consumer(relay))

    async def _make_consumer(self, name: str, inbox: str, subject: str) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig

        config = ConsumerConfig(
            durable_name=name, deliver_subject=inbox, deliver_group=name, ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACKNOWLEDGE, max_ack_pending=5 * AT_ONCE, filter_subject=subject,
        )  # fmt: skip
        await self._connection.streams.add_consumer(self._bus.stream + CALLS, config)

    def _consumer(self, relay: str | None) -> tuple[str, str, str]:
        """Return the name of a relay's consumer, where it listens, and the subjects of its calls."""
        subjects = self._bus.subjects
        inbox = f"{subjects.root}.relay"
        if relay is None:
            return CONSUMER, inbox, subjects.call("*") if self._is_cluster else subjects.calls
        return f"{CONSUMER}-{relay}", f"{inbox}.{relay}", subjects.call("*", relay)

    async def serve(self) -> None:
        """Perform calls as they come, several batches at a time.

        Calls that may concern any database go apart, in threads of their own: one that hangs holds up no ending.
        """
        async with asyncio.TaskGroup() as batches:
            free = asyncio.Semaphore(2)  # while one batch is written, the next one collects
            while True:
                await free.acquire()
                messages = [await self._waiting.get()]
                while not self._waiting.empty() and len(messages) < AT_ONCE:
                    messages.append(self._waiting.get_nowait())
                read = [(message, await _read(message, self._bus.subjects)) for message in messages]
                calls = [(message, call) for message, call in read if call is not None]
                for each in calls:
                    if each[1].name in APART:
                        batches.create_task(self._perform_group([each], self._apart))
                batch = batches.create_task(self._perform([each for each in calls if each[1].name not in APART]))
                batch.add_done_callback(lambda _: free.release())

    async def _perform(self, calls: Sequence[tuple[Any, BusCall]]) -> None:
        quick = [each for each in calls if each[1].name in ("settle", "renew")]
        slow = [each for each in calls if each not in quick]
        groups = [group for group in (quick, *([each] for each in slow)) if group]
        await asyncio.gather(*(self._perform_group(group, self._database) for group in groups))

    async def _perform_group(self, calls: Sequence[tuple[Any, BusCall]], database: DatabaseThreads) -> None:
        answers = await database.call(lambda: perform(self._rooms, [call for _, call in calls]))
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


async def _read(message: Any, subjects: Subjects) -> BusCall | None:
    """Read a call; one that cannot be read is taken from the stream, because it never will be."""
    try:
        return read_call(subjects.called(message.subject), json.loads(message.data))
    except (HoraeError, ValueError) as problem:
        log.warning("a call of the bus cannot be read: %s", problem)
    await message.ack()
    return None
