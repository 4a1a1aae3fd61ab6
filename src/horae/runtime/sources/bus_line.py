"""A worker's end of a message bus: ask for jobs with free slots, call a relay and wait for its answer.

It lives in a thread with an event loop of its own, so that renewals do not wait for a handler that blocks the worker's.
What arrives twice is taken once; a job that arrives too late, or that the worker does not take, is given back
unstarted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Late
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from horae.api.problems import from_problem
from horae.core.bus import PREFIX
from horae.core.dataclass import dataclass
from horae.core.dispatch import Ask, BusCall, Subjects, hold_for, patience, read_announcement
from horae.errors import BusUnavailable, HoraeError
from horae.ports.world import Clock, Dice
from horae.runtime.loop import Backoff
from horae.runtime.nats import ACKNOWLEDGE, LastingConnection, encode
from horae.runtime.sources.bus_routes import Routes
from horae.runtime.sources.relays import Relays
from horae.runtime.worker.tracebacks import error_line

# size: asks, calls and arriving jobs share one lock, one loop and one connection
log = logging.getLogger("horae.bus")
REPEAT_ASK = 1.0  # seconds: a relay that has just taken over, or did not hear, learns of an open ask
MOVED = 0.3  # seconds between three tries to take an ask back, in favour of another relay
GIVE_BACK = 10.0  # seconds to give back a job that was not started
FORGOTTEN = timedelta(minutes=2)  # after which the server forgets a worker that it cannot reach
KNOWN = 10_000  # jobs that are known again when they arrive twice
MARGIN = 1.0  # seconds beyond the limit of a call, for the thread to answer
JOBS = "_JOBS"  # ends the name of the stream of jobs and answers
CALLS = "_CALLS"


@dataclass(frozen=True)
class BusAddress:
    """Where a bus is, and the names that belong to one database on it."""

    servers: Sequence[str]
    prefix: str = PREFIX
    stream: str = "HORAE"
    options: Mapping[str, Any] = field(default_factory=dict)  # of ``nats.connect``

    @property
    def subjects(self) -> Subjects:
        return Subjects(self.prefix)


@dataclass
class _Wanted:
    """The free slots of one queue beside the jobs that have arrived for them, and these."""

    worker: str
    lease: timedelta
    free: int = 0
    is_asking: bool = False
    relay: str | None = None  # that was asked last, in a cluster
    moves: asyncio.Event = field(default_factory=asyncio.Event)  # jobs are due at another relay
    inbox: list[tuple[float, dict[str, Any]]] = field(default_factory=list)  # until when each may be started


class BusLine:
    """The line of one worker to whichever relay serves its database."""

    def __init__(self, bus: BusAddress, clock: Clock, dice: Dice) -> None:
        self._bus, self._clock, self._dice = bus, clock, dice
        host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:40]
        self.address = f"{host}-{os.getpid()}-{dice.name(8)}"
        self.listener: Callable[[str], None] = lambda queue: None  # told of a queue for which a job has arrived
        self._connection = LastingConnection(bus.servers, bus.options, dice, self._mend)
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._starting, self._is_closed = threading.Lock(), False
        self._lock = threading.Lock()  # of what follows
        self._wanted: dict[str, _Wanted] = {}
        self._is_withdrawn = False
        self._asked: dict[str, tuple[float, str]] = {}  # until when a job for an ask is taken, and its queue
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()
        # Of the loop's thread alone:
        self._relays = Relays(clock)
        self._routes = Routes(self._relays, self._call)
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._inbox = ""
        self._is_silent = False  # no relay answers, which was logged
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._giving_back: set[asyncio.Task[None]] = set()  # some of them

    # -- for the worker's threads ----------------------------------------------------------------------------------

    def take(self, queue: str, limit: int, *, worker: str, lease: timedelta) -> list[dict[str, Any]]:
        """Return jobs that have arrived, at most *limit*, and ask for as many as are still missing."""
        self._start()
        now = self._clock.monotonic()
        taken: list[dict[str, Any]] = []
        late: list[dict[str, Any]] = []
        with self._lock:
            self._is_withdrawn = False
            wanted = self._wanted.setdefault(queue, _Wanted(worker, lease))
            while wanted.inbox and len(taken) < limit:
                until, job = wanted.inbox.pop(0)
                (taken if now < until else late).append(job)
            wanted.worker, wanted.lease = worker, lease
            wanted.free = max(0, limit - len(taken) - len(wanted.inbox))
        self._from_thread(self._ask_on, queue)
        self._from_thread(self._give_back, late)
        return taken

    def rest(self, open_queues: Sequence[str]) -> None:
        """Ask for nothing more of other queues, and take back what was asked for."""
        with self._lock:
            others = [queue for queue, each in self._wanted.items() if queue not in open_queues and each.free]
            for queue in others:
                self._wanted[queue].free = 0
        for queue in others:
            self._from_thread(self._take_back, queue)

    def withdraw(self) -> None:
        """Ask for nothing more, and give back at once what has arrived and was not taken."""
        with self._lock:
            self._is_withdrawn = True
            left = [job for each in self._wanted.values() for _, job in each.inbox]
            for each in self._wanted.values():
                each.free, each.inbox = 0, []
            queues = list(self._wanted)
        for queue in queues:
            self._from_thread(self._take_back, queue)
        self._from_thread(self._give_back, left)

    def has_arrived(self, queues: Sequence[str]) -> bool:
        """Return whether a job waits here to be taken."""
        with self._lock:
            return any(queue in queues and each.inbox for queue, each in self._wanted.items())

    def call(self, name: str, arguments: Mapping[str, Any], *, limit: float) -> Any:
        """Call a relay and return its answer; ``BusUnavailable`` when none came within *limit* seconds."""
        self._start()
        if threading.current_thread() is self._thread:
            raise RuntimeError("a call of the bus from its own thread would wait for itself")
        calling = asyncio.run_coroutine_threadsafe(self._routes.call(name, arguments, limit), self._loop)
        try:
            answer = calling.result(limit + MARGIN)
        except (Late, CancelledError):  # the second where this line was closed meanwhile
            calling.cancel()
            raise BusUnavailable("bus_relay_silent", seconds=limit) from None
        if "problem" in answer:
            raise from_problem(answer["problem"])
        return answer.get("value")

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Leave the bus; jobs that are being given back have a moment for it."""
        with self._starting:
            thread, was_closed, self._is_closed = self._thread, self._is_closed, True
        if thread is None and not was_closed:
            self._loop.close()
        if thread is None or was_closed:
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with suppress(Exception):
            ending.result(2 * ACKNOWLEDGE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join(ACKNOWLEDGE)

    def _start(self) -> None:
        with self._starting:
            if self._is_closed:
                raise BusUnavailable("bus_unreachable", problem="this worker has left the bus")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="horae-bus", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._spawn(self._live())
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _from_thread(self, act: Callable[..., None], *given: Any) -> None:
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(act, *given)

    # -- the connection --------------------------------------------------------------------------------------------

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _live(self) -> None:
        """Connect and listen, however long it takes; later breaks mend themselves."""
        backoff = Backoff(self._dice, cap=1.0)
        while not self._ready.is_set():
            try:
                if not self._connection.is_connected:
                    await self._connection.close()
                    await self._connection.open()
                    self._inbox = self._connection.client.new_inbox()
                    await self._connection.client.subscribe(self._inbox, cb=self._receive)
                    await self._connection.client.subscribe(self._bus.subjects.announce, cb=self._hear)
                await self._listen()
                self._ready.set()
            except Exception as problem:
                if not backoff.failures:
                    log.warning("the bus cannot be used yet; trying again: %s", error_line(problem))
                await backoff.pause()

    async def _listen(self) -> None:
        """Let the server send us what is for us; repeating it changes nothing."""
        from nats.js.api import AckPolicy, ConsumerConfig

        name = self._bus.stream + JOBS
        config = ConsumerConfig(
            durable_name=self.address, deliver_subject=self._inbox, filter_subject=self._bus.subjects.to(self.address),
            ack_policy=AckPolicy.EXPLICIT, ack_wait=ACKNOWLEDGE, inactive_threshold=FORGOTTEN.total_seconds(),
        )  # fmt: skip
        async with asyncio.timeout(ACKNOWLEDGE):
            await self._connection.streams.add_consumer(name, config)

    def _mend(self) -> None:
        """Listen again after the connection broke: the server may have forgotten us."""

        async def mend() -> None:
            with suppress(Exception):  # it is tried again when no relay seems to answer
                await self._listen()

        if self._ready.is_set():
            self._spawn(mend())

    async def _end(self) -> None:
        if self._connection.is_connected and (giving_back := self._giving_back & self._tasks):
            await asyncio.wait(giving_back, timeout=MARGIN)
        for task in list(self._tasks):
            task.cancel()
        if self._connection.is_connected:
            with suppress(Exception):
                async with asyncio.timeout(ACKNOWLEDGE):
                    await self._connection.streams.delete_consumer(self._bus.stream + JOBS, self.address)
        await self._connection.close()
        left = asyncio.all_tasks(self._loop) - {asyncio.current_task(self._loop)}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=MARGIN)

    async def _receive(self, message: Any) -> None:
        with suppress(Exception):  # else it is sent again, and known again
            await message.ack()
        try:
            raw = json.loads(message.data)
            if "job" in raw:
                self._receive_job(raw)
            elif (answered := self._answers.get(raw["answer"])) is not None and not answered.done():
                answered.set_result(raw)
        except (ValueError, TypeError, KeyError) as problem:
            log.warning("a message of the bus cannot be read: %s", error_line(problem))

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _call(
        self, name: str, arguments: Mapping[str, Any], relay: str | None, limit: float, *, waits: bool = True
    ) -> dict[str, Any]:
        """Call a relay and return its answer; with *waits* false only store the call, once however often it is sent."""
        id = self._dice.name(20) if waits else blake2b(encode(arguments), digest_size=16).hexdigest()  # noqa: A001
        call = BusCall(id, self.address, name, arguments)
        answered: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._answers[call.id] = answered
        try:
            async with asyncio.timeout(limit):
                await self._ready.wait()
                subject = self._bus.subjects.call(name, relay)
                await self._connection.publish(subject, call.as_json(), message_id=call.id, within=limit)
                if waits:
                    return await answered
        except TimeoutError:
            self._mend()
        finally:
            self._answers.pop(call.id, None)
        raise BusUnavailable("bus_relay_silent", seconds=limit)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def _ask_on(self, queue: str) -> None:
        wanted = self._wanted[queue]
        if wanted.free > 0 and not wanted.is_asking:
            wanted.is_asking = True
            self._spawn(self._ask(queue, wanted))

    async def _ask(self, queue: str, wanted: _Wanted) -> None:
        """Ask while slots are free; jobs that arrive take one each, and the worker's next :meth:`take` counts anew."""
        backoff = Backoff(self._dice)
        try:
            await self._ready.wait()
            while (slots := wanted.free) > 0:
                wanted.relay = relay = self._relays.choose(queue)
                ask = Ask(self._dice.name(20), self.address, wanted.worker, queue, slots, wanted.lease)
                answer = await self._ask_once(ask, wanted)
                if answer is None:
                    self._note_silence(relay)
                    continue
                self._is_silent = False
                if relay is not None:
                    given = answer.get("value", {}).get("jobs", 0)
                    self._relays.note_answer(relay, queue, is_full=given >= slots)
                if "problem" in answer:
                    log.warning("a relay refuses to give jobs of %s: %s", queue, answer["problem"].get("detail"))
                    await backoff.pause()
        finally:
            wanted.is_asking = False

    async def _ask_once(self, ask: Ask, wanted: _Wanted) -> dict[str, Any] | None:
        """Send an ask, again and again while it is open; return the answer, None when no relay has one.

        In a cluster it is taken back when jobs are due at another relay. The slots are free for that one when the
        answer says what was sent; without an answer in time, jobs that still come for this ask are given back.
        """
        sent, relay = self._clock.monotonic(), wanted.relay
        answered: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._answers[ask.id] = answered
        wanted.moves.clear()
        with self._lock:
            self._asked = {known: each for known, each in self._asked.items() if each[0] > sent}
            self._asked[ask.id] = sent + patience(ask.lease).total_seconds(), ask.queue
        limit = hold_for(ask.lease).total_seconds() + REPEAT_ASK
        subject = self._bus.subjects.ask_of(relay)
        try:
            async with asyncio.timeout(min(limit, patience(ask.lease).total_seconds())):
                while not answered.done() and not wanted.moves.is_set():
                    if relay is not None and not self._relays.is_live(relay):
                        break
                    await self._connection.hint(subject, ask.as_json())
                    await self._wait_for(answered, wanted.moves, REPEAT_ASK)
            if wanted.moves.is_set() and (relay is None or self._relays.is_live(relay)):
                await self._move(ask, subject, answered)
        except TimeoutError:
            pass
        finally:
            del self._answers[ask.id]
        if not answered.done() and (relay is not None or wanted.moves.is_set()):
            with self._lock:
                self._asked.pop(ask.id, None)
        return answered.result() if answered.done() else None

    async def _wait_for(self, answered: asyncio.Future[Any], moves: asyncio.Event, limit: float) -> None:
        """Wait for an answer, or for another relay that has jobs."""
        moving = self._loop.create_task(moves.wait())
        try:
            await asyncio.wait([answered, moving], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moving.cancel()

    async def _move(self, ask: Ask, subject: str, answered: asyncio.Future[Any]) -> None:
        """Take an ask back, and wait for a moment until its relay says what it has sent."""
        for _ in range(3):
            if not answered.done():
                await self._connection.hint(subject, replace(ask, id=self._dice.name(20), slots=0).as_json())
                await asyncio.wait([answered], timeout=MOVED)

    async def _hear(self, message: Any) -> None:
        """Note what a relay announces; move asks to where jobs are due."""
        try:
            said = read_announcement(json.loads(message.data))
        except (HoraeError, ValueError) as problem:
            log.debug("an announcement cannot be read: %s", problem)
            return
        self._relays.hear(said)
        with self._lock:
            asking = [(queue, each) for queue, each in self._wanted.items() if each.is_asking]
        for queue, wanted in asking:
            if wanted.relay is None:
                moves = bool(self._relays.live())  # it asks in general, and there are several
            else:
                is_better = said.relay != wanted.relay and self._relays.is_due(said.relay, queue)
                moves = is_better and not self._relays.is_due(wanted.relay, queue)
            if moves or not (wanted.relay is None or self._relays.is_live(wanted.relay)):
                wanted.moves.set()

    def _note_silence(self, relay: str | None) -> None:
        if relay is not None:
            self._relays.skip(relay)
            if self._relays.live():  # others are there
                return
        self._mend()
        if not self._is_silent:
            self._is_silent = True
            log.warning("no relay answers on %s; asking again", self._bus.subjects.ask)

    def _take_back(self, queue: str) -> None:
        """Tell the relay that nothing is asked for any more; what it has sent meanwhile is given back."""
        wanted = self._wanted[queue]
        with self._lock:
            open_asks = [known for known, (_, of) in self._asked.items() if of == queue]
            for known in open_asks:
                del self._asked[known]
        if open_asks:
            none = Ask(self._dice.name(20), self.address, wanted.worker, queue, 0, wanted.lease)
            self._spawn(self._connection.hint(self._bus.subjects.ask_of(wanted.relay), none.as_json()))

    def _receive_job(self, raw: dict[str, Any]) -> None:
        job = raw["job"]
        key = (str(job["id"]), int(job["token"]))
        with self._lock:
            if key in self._known:
                return
            self._known[key] = None
            self._routes.hold(key[0], raw.get("relay"))
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
            until, queue = self._asked.get(raw["ask"], (0.0, ""))
            left = until - self._clock.monotonic()
            is_late = left <= 0 or self._is_withdrawn or queue not in self._wanted
            if not is_late:
                wanted = self._wanted[queue]
                wanted.inbox.append((until, job))
                wanted.free = max(0, wanted.free - 1)
        if is_late:
            self._give_back([job])
        else:
            self._loop.call_later(left, self._drop_late, queue)
            self.listener(queue)

    def _drop_late(self, queue: str) -> None:
        """Give back what the worker has not taken in time."""
        now = self._clock.monotonic()
        with self._lock:
            wanted = self._wanted[queue]
            late = [job for until, job in wanted.inbox if until <= now]
            wanted.inbox = [each for each in wanted.inbox if each[0] > now]
        self._give_back(late)

    def _give_back(self, jobs: Sequence[dict[str, Any]]) -> None:
        if jobs:
            error = "it was not started: it came too late, or its worker shut down"
            endings = [
                {"job_id": job["id"], "token": job["token"], "outcome": "released", "error": error, "spent": {}}
                for job in jobs
            ]
            self._giving_back = (self._giving_back & self._tasks) | {self._spawn(self._settle_quietly(endings))}

    async def _settle_quietly(self, endings: Sequence[Mapping[str, Any]]) -> None:
        try:
            await self._routes.call("settle", {"endings": endings}, GIVE_BACK)
        except HoraeError as problem:
            log.warning("%s jobs could not be given back; they wait for their leases: %s", len(endings), problem)
