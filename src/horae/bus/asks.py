"""Jobs for workers on the bus: claim against the free slots that they announced, and hand each job over.

A job is claimed only while an ask for it is open, and sent at once with its token and its lease. What cannot be handed
over while the worker would still take it goes back, so that no lease runs out in a stream. In a cluster a relay claims
from its own database, for the asks that name it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from horae.actions import hints
from horae.actions.jobs.claims import peek
from horae.actions.jobs.held_jobs import Ending
from horae.api.jobs.room import Job
from horae.api.problems import to_problem
from horae.api.values import to_json
from horae.bus.announcements import CALL_AGAIN, Announcer
from horae.bus.rooms import Rooms
from horae.core.cluster.numbers import vshard_of_id
from horae.core.dataclass import dataclass
from horae.core.dispatch import Ask, Subjects, hold_for, patience, read_ask
from horae.errors import BusUnavailable, ContentTooLarge, HoraeError, StoreError
from horae.ports.workers import Upcoming
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm
from horae.runtime.nats import LastingConnection

log = logging.getLogger("horae.bus")
ANSWER = 5.0  # seconds until an answer is stored
BLOCKED_WAIT = timedelta(milliseconds=250)  # before jobs that are due and could not be claimed: a limit is full
UNHINTED = timedelta(milliseconds=250)  # between two looks where no hints of other processes arrive
LONGEST_SLEEP = timedelta(seconds=1)
TOO_LARGE_WAIT = timedelta(minutes=1)  # before a job that no server takes is looked at again
REMEMBERED = 10_000  # ids of asks that were answered; one that arrives again is not served twice


@dataclass(frozen=True, slots=True)
class OpenAsk:
    """An ask that is waiting for jobs; *ends* and *given_up* are monotonic seconds."""

    ask: Ask
    ends: float  # when it is answered with nothing
    given_up: float  # when its worker takes no job for it any more


class Asks:
    """The open asks of all workers, in the order in which they came."""

    def __init__(
        self,
        rooms: Rooms,
        database: DatabaseThreads,
        connection: LastingConnection,
        subjects: Subjects,
        source: str,
        relay: str | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._rooms, self._world, self._database = rooms, rooms.world, database
        self._connection, self._subjects, self._source = connection, subjects, source
        self._relay, self._announcer = relay, announcer  # of one database of a cluster
        self._open: dict[tuple[str, str], OpenAsk] = {}  # by address and queue: a new ask replaces the one before
        self._claiming: OpenAsk | None = None  # for whom a claim is under way
        self._answered: dict[str, None] = {}
        self._alarm = Alarm(self._world.clock)
        self._deliveries: set[asyncio.Task[None]] = set()
        self.is_stopping = False

    async def receive(self, message: Any) -> None:
        """Note what a worker asks for."""
        try:
            ask = read_ask(json.loads(message.data))
        except (HoraeError, ValueError) as problem:
            log.warning("an ask for jobs cannot be read: %s", problem)
            return
        if self._announcer is not None and message.subject != self._subjects.ask_of(self._relay):
            if ask.slots and self._announcer.want(ask.queue):
                self._alarm.ring()
            return  # it is for another relay
        now, key = self._world.clock.monotonic(), (ask.to, ask.queue)
        known = self._open.get(key)
        if (known is not None and known.ask.id == ask.id) or ask.id in self._answered:
            return  # it repeats itself
        if known is not None and known is self._claiming:
            del self._open[key]  # it is answered when it is known what was claimed for it
        elif known is not None:
            self._close(known.ask, {"value": {"jobs": 0}})
        if ask.slots:
            until = now + hold_for(ask.lease).total_seconds(), now + patience(ask.lease).total_seconds()
            self._open[key] = OpenAsk(ask, *until)
            self._alarm.ring()

    async def serve(self, is_held: Callable[[], bool]) -> None:
        """Claim for open asks until :meth:`stop`, or until *is_held* says that another relay may be at work."""
        unsubscribe = hints.subscribe(self._world, self._hinted)
        try:
            while not self.is_stopping and is_held():
                blocked = await self._round(is_held)
                self._answer_old()
                await self._sleep(blocked)
        finally:
            unsubscribe()
            for each in list(self._open.values()):
                self._close(each.ask, {"value": {"jobs": 0}})
            if self._deliveries:
                await asyncio.wait(self._deliveries, timeout=ANSWER)

    def stop(self) -> None:
        """Claim nothing more; from the loop's thread."""
        self.is_stopping = True
        self._alarm.ring()

    def _hinted(self, queue: str) -> None:
        wanted = self._announcer is not None and self._announcer.is_wanted(queue)
        if wanted or queue == "*" or any(of == queue for _, of in list(self._open)):
            self._alarm.ring_from_elsewhere()

    async def _round(self, is_held: Callable[[], bool]) -> bool:
        """Claim once for each open ask, the oldest first; return whether nothing could be claimed."""
        dry: set[str] = set()
        claimed = False
        for each in list(self._open.values()):
            ask = each.ask
            if ask.queue in dry or self._open.get((ask.to, ask.queue)) is not each:
                continue
            if self.is_stopping or not is_held() or not self._connection.is_connected:
                break  # what were claimed now could not be handed over
            self._claiming = each
            try:
                jobs = await self._claim(ask)
            finally:
                self._claiming = None
            if len(jobs) < ask.slots:
                dry.add(ask.queue)
            if jobs:
                claimed = True
                self._hand_over(each, jobs)
            elif self._open.get((ask.to, ask.queue)) is not each:  # taken back meanwhile
                self._close(ask, {"value": {"jobs": 0}})
        return not claimed

    async def _claim(self, ask: Ask) -> Sequence[Job]:
        def claim() -> Sequence[Job]:
            return self._rooms.jobs.claim(ask.worker, queues=[ask.queue], limit=ask.slots, lease=ask.lease)

        try:
            return await self._database.call(claim)
        except StoreError:
            raise
        except HoraeError as problem:  # a queue or a lease that cannot be
            self._close(ask, {"problem": to_problem(problem)})
            return ()

    def _answer_old(self) -> None:
        now = self._world.clock.monotonic()
        for each in list(self._open.values()):
            if each.ends <= now:
                self._close(each.ask, {"value": {"jobs": 0}})

    async def _sleep(self, blocked: bool) -> None:
        queues = sorted({queue for _, queue in self._open})
        waking = [] if self._announcer is None else await self._call_for_asks(self._announcer, queues)
        if queues and (due := await self._next_due(queues)) is not None:
            now = self._world.clock.now()
            waking.append((now + BLOCKED_WAIT if blocked else now) if due <= now else due)
        elif not queues and not waking:
            await self._alarm.sleep(None, LONGEST_SLEEP)
            return
        ends = [each.ends for each in self._open.values()]
        first = min(ends) - self._world.clock.monotonic() if ends else LONGEST_SLEEP.total_seconds()
        at_most = timedelta(seconds=max(0.01, first))
        if not hints.hears(self._world):
            at_most = min(at_most, UNHINTED)
        await self._alarm.sleep(min(waking, default=None), min(at_most, LONGEST_SLEEP))

    async def _next_due(self, queues: Sequence[str]) -> datetime | None:
        upcoming: Upcoming = await self._database.call(lambda: peek(self._world, queues))
        return upcoming.next_due_at

    async def _call_for_asks(self, announcer: Announcer, asked: Sequence[str]) -> list[datetime]:
        """Call for asks of queues that are due and only asked for elsewhere; return when to look at them again."""
        unserved = announcer.unserved(asked)
        due = await self._next_due(unserved) if unserved else None
        if due is None:
            return [self._world.clock.now() + LONGEST_SLEEP] if unserved else []
        now = self._world.clock.now()
        if due > now:
            return [due]
        named = [queue for queue in unserved if (at := await self._next_due([queue])) is not None and at <= now]
        await announcer.call_for(named)
        return [now + CALL_AGAIN]

    # -- to the worker -----------------------------------------------------------------------------------------------

    def _hand_over(self, each: OpenAsk, jobs: Sequence[Job]) -> None:
        self._forget(each.ask)
        self._spawn(self._deliver(each, jobs))

    async def _deliver(self, each: OpenAsk, jobs: Sequence[Job]) -> None:
        ended = await asyncio.gather(*(self._send(each, job) for job in jobs))
        if not_sent := [ending for ending in ended if ending is not None]:
            try:
                await self._database.call(lambda: self._rooms.jobs.settle(not_sent))
            except HoraeError as problem:
                log.warning("%s jobs wait for their leases: %s", len(not_sent), problem)
        await self._answer(each.ask, {"value": {"jobs": len(jobs) - len(not_sent)}})

    async def _send(self, each: OpenAsk, job: Job) -> Ending | None:
        """Send one job; return how it ends where that was not possible while its worker would have taken it."""
        ask = each.ask
        message = {"job": to_json(job), "lease": ask.lease.total_seconds(), "ask": ask.id}
        if (relay := self._relay or self._relay_of(job)) is not None:
            message["relay"] = relay  # to which calls about the job are to go
        within = max(0.1, each.given_up - self._world.clock.monotonic())
        message_id = f"{self._source}:{job.id}.{job.token}"
        try:
            await self._connection.publish(self._subjects.to(ask.to), message, message_id=message_id, within=within)
        except ContentTooLarge as problem:
            log.warning("%s cannot be handed over: %s", job.id, problem)
            return Ending(job.id, job.token, "snoozed", error=str(problem), delay=TOO_LARGE_WAIT, spent={})
        except BusUnavailable as problem:
            return Ending(job.id, job.token, "released", error=str(problem), spent={})
        return None

    def _relay_of(self, job: Job) -> str | None:
        """Return the relay of the database that keeps a job, where this one serves several."""
        vshard, shard_map = vshard_of_id(job.id), self._world.shard_map
        return None if vshard is None or shard_map is None else str(shard_map.database_of(vshard))

    def _close(self, ask: Ask, answer: dict[str, Any]) -> None:
        if ask.id not in self._answered:
            self._forget(ask)
            self._spawn(self._answer(ask, answer))

    def _forget(self, ask: Ask) -> None:
        """Hold an ask for answered; another one of the same worker may be open by now."""
        known = self._open.get((ask.to, ask.queue))
        if known is not None and known.ask.id == ask.id:
            del self._open[ask.to, ask.queue]
        self._remember(ask)

    async def _answer(self, ask: Ask, answer: dict[str, Any]) -> None:
        try:
            await self._connection.publish(
                self._subjects.to(ask.to), {"answer": ask.id, **answer}, message_id=f"ask {ask.id}", within=ANSWER
            )
        except HoraeError as problem:  # the worker asks again
            log.debug("an ask could not be answered: %s", problem)

    def _remember(self, ask: Ask) -> None:
        self._answered[ask.id] = None
        while len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
