"""Long polling without a thread per caller; a new job wakes one waiter per line.

Callers who want the same (tenant, queues) stand in one line. Only the head of a line claims; it is woken by hints
and at the next due instant, and when it leaves, the next one becomes the head and claims at once. So a hint costs one
claim for each line, however many wait, and claims go through a few threads of their own.

Nothing is claimed for a caller who has hung up; what was claimed at that moment is given back. Nor is anything claimed
for a caller whose token was revoked or has expired meanwhile: it is checked just before each claim, and the wait ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from fastapi import FastAPI, Request

from horae.actions import hints
from horae.actions.access.tokens import check_valid
from horae.actions.jobs import claims, endings
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Order
from horae.errors import HoraeError, TooManyRequests, Unauthorized
from horae.ports.store import Store
from horae.ports.world import World
from horae.service.auth.validity import Watch

log = logging.getLogger("horae.service")
THREADS = 4
MOST_WAITING = 1000
MOST_OF_ONE = 200  # of one tenant, so that none blocks the others
LOOK_AT_LEAST = timedelta(seconds=10)
BLOCKED = timedelta(seconds=1)  # due, yet not to be had: another tenant's, or a limit is full
QUIET_FIRST = timedelta(milliseconds=50)  # how often to look where no hints arrive: soon, then less and less
QUIET_LAST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Want:
    """The request of one pull."""

    worker_id: str
    queues: tuple[str, ...]
    limit: int
    lease: timedelta
    owner: str | None  # only this tenant's jobs; None: of all tenants
    order: Order | None = None  # None: the queue's own


def take(world: World, want: Want) -> tuple[list[Job], datetime | None]:
    """Claim what is due now; return it, and when to look again if that is nothing.

    Leases that ran out are taken back first: the claim then finds them, without waiting for a keeper.
    """
    taken = _pull(world, want)
    if len(taken) == want.limit:
        return taken, None
    upcoming, now = claims.peek(world, want.queues), world.clock.now()
    expiry = upcoming.next_expiry_at
    if expiry is not None and expiry < now and endings.lose_expired(world):
        taken += _pull(world, replace(want, limit=want.limit - len(taken)))
    return taken, min((at for at in (upcoming.next_due_at, expiry) if at is not None), default=None)


def take_if_valid(world: World, want: Want, caller: Caller) -> tuple[list[Job], datetime | None]:
    """Claim for a caller that has waited; refuse one whose token is no longer valid."""
    if caller.token_id is not None or caller.expires_at is not None:
        check_valid(world, caller)
    return take(world, want)


def give_back(world: World, jobs: Sequence[Job]) -> None:
    """Release jobs whose caller has hung up; no attempt is counted."""
    for job in jobs:
        try:
            endings.release(world, job.id, job.token, reason="its caller hung up", owner=job.owner)
        except HoraeError as problem:
            log.warning("%s could not be released and waits until its lease expires: %s", job.id, problem)


def _pull(world: World, want: Want) -> list[Job]:
    return claims.pull(
        world,
        worker_id=want.worker_id,
        queues=want.queues,
        limit=want.limit,
        lease=want.lease,
        order=want.order,
        owner=want.owner,
    )


class Waiter:
    """One waiting caller, and the event that wakes it from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._end = asyncio.Event()
        self._late = False  # its time is up
        self._gone = False  # it has hung up
        self._revoked = False  # its token is no longer valid

    def waits(self) -> bool:
        return not (self._late or self._gone or self._revoked)

    def is_revoked(self) -> bool:
        return self._revoked

    def has_gone(self) -> bool:
        return self._gone

    def ring(self) -> None:
        with suppress(RuntimeError):  # a loop that has ended no longer needs waking
            self._loop.call_soon_threadsafe(self._bell.set)

    def send_home(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.is_late)

    def revoke(self) -> None:
        """End the wait because the token is no longer valid; from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end_revoked)

    def _end_revoked(self) -> None:
        self._revoked = True
        self._bell.set()
        self._end.set()

    def is_late(self) -> None:
        self._late = True
        self._bell.set()
        self._end.set()

    @contextmanager
    def until_late_or_gone(self, at_most: timedelta, request: Request) -> Iterator[None]:
        """End the wait when its time is up or its caller hangs up; stop looking when the block is left."""
        timer = self._loop.call_later(at_most.total_seconds(), self.is_late)
        watching = self._loop.create_task(self._watch(request))
        try:
            yield
        finally:
            timer.cancel()
            watching.cancel()

    async def _watch(self, request: Request) -> None:
        """Notice that the caller hangs up; its body has been read, so nothing else can come."""
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self._gone = True
        self._bell.set()
        self._end.set()

    async def sleep(self, at_most: timedelta | None) -> None:
        """Wait for the bell, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at_most is None else at_most.total_seconds()):
                await self._bell.wait()
        self._bell.clear()

    async def over(self) -> None:
        """Wait until the wait is over: its time is up, the caller has gone, or its token is no longer valid."""
        await self._end.wait()

    async def rest(self, at_most: timedelta) -> None:
        """Wait so long, whatever rings meanwhile; less when the wait is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most.total_seconds()):
                await self._end.wait()


class Line:
    """Waiting callers with the same filter, first come, first served."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = frozenset(queues)
        self.waiters: deque[Waiter] = deque()


LineKey = tuple[str | None, tuple[str, ...], int]  # owner, queues, and a number for a waiter with a line of its own


class WaitingRoom:
    """The long polls of one service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[LineKey, Line] = {}
        self._count: Counter[str | None] = Counter()
        self._store: Store | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._threads = ThreadPoolExecutor(THREADS, "horae-waiting")
        self._watch = Watch()
        self._closed = False

    @property
    def waiting(self) -> int:
        return self._count.total()

    async def wait(self, world: World, want: Want, caller: Caller, request: Request, at_most: timedelta) -> list[Job]:
        """Return jobs as soon as there are any; none when the time is up or the caller has hung up.

        ``Unauthorized`` when the caller's token is revoked or expires meanwhile; then nothing was claimed for it.
        """
        if self._closed:
            return []
        waiter = Waiter()
        key = (want.owner, tuple(sorted(want.queues)), 0)
        with (
            self._stand_in_line(world, key, waiter) as line,
            self.watching(world, caller, waiter),
            waiter.until_late_or_gone(at_most, request),
        ):
            jobs = await self._serve(world, want, caller, line, waiter)
        if waiter.is_revoked() and not jobs:
            raise Unauthorized("token_invalid")
        return jobs

    @contextmanager
    def listening(self, world: World, hint: str, caller: Caller) -> Iterator[Waiter]:
        """Register a caller that only reads, in a line of its own: every hint of that name wakes it, with "*" any."""
        waiter = Waiter()
        key = (caller.sees, (hint,), id(waiter))
        with self._stand_in_line(world, key, waiter), self.watching(world, caller, waiter):
            yield waiter

    def watching(self, world: World, caller: Caller, waiter: Waiter) -> AbstractContextManager[None]:
        """End a wait, of whatever kind, once the token or session of its caller is not valid any more."""
        return self._watch.watching(world, caller, waiter.revoke)

    async def _serve(self, world: World, want: Want, caller: Caller, line: Line, waiter: Waiter) -> list[Job]:
        quiet = QUIET_FIRST
        while waiter.waits():
            if line.waiters[0] is not waiter:
                await waiter.sleep(None)
                continue
            await asyncio.sleep(0)  # let a disconnect of the caller be noticed first
            if waiter.has_gone():
                break
            jobs, look_at = await self._claim_in_thread(world, want, caller)
            if jobs and waiter.has_gone():
                self._threads.submit(give_back, world, jobs)
                break
            if jobs:
                return jobs
            pause = LOOK_AT_LEAST if look_at is None else min(LOOK_AT_LEAST, look_at - world.clock.now())
            if pause <= timedelta(0):
                pause = BLOCKED
            if not hints.hears(world):
                pause, quiet = min(pause, quiet), min(quiet * 1.5, QUIET_LAST)
            if waiter.waits():
                await waiter.sleep(pause)
        return []

    async def _claim_in_thread(self, world: World, want: Want, caller: Caller) -> tuple[list[Job], datetime | None]:
        """Claim in a thread; give back what was claimed if the request is cancelled meanwhile."""
        future = self._threads.submit(take_if_valid, world, want, caller)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(lambda done: _undo(world, done))
            raise

    def close(self) -> None:
        """End all waits without jobs, and refuse new ones; from any thread."""
        with self._lock:
            self._closed = True
            for line in self._lines.values():
                for waiter in line.waiters:
                    waiter.send_home()

    # -- lines -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _stand_in_line(self, world: World, key: LineKey, waiter: Waiter) -> Iterator[Line]:
        owner, queues, _ = key
        with self._lock:
            if self.waiting >= MOST_WAITING or (owner is not None and self._count[owner] >= MOST_OF_ONE):
                raise TooManyRequests("too_many_waiting", 5)
            line = self._lines.setdefault(key, Line(queues))
            line.waiters.append(waiter)
            self._count[owner] += 1
            self._listen(world)
            if self._closed:
                waiter.is_late()
        try:
            yield line
        finally:
            self._leave(key, line, waiter)

    def _leave(self, key: LineKey, line: Line, waiter: Waiter) -> None:
        with self._lock:
            line.waiters.remove(waiter)
            self._count[key[0]] -= 1
            if line.waiters:
                line.waiters[0].ring()
            else:
                del self._lines[key]
            if not self._lines and self._unsubscribe is not None:
                self._unsubscribe()
                self._store = self._unsubscribe = None

    def _listen(self, world: World) -> None:
        """Subscribe once for all waiters; again when the store was opened again."""
        if self._store is not world.store:
            if self._unsubscribe is not None:
                self._unsubscribe()
            self._store, self._unsubscribe = world.store, hints.subscribe(world, self._hint)

    def _hint(self, queue: str) -> None:
        """Wake the head of each line of a queue that may have work; from any thread."""
        with self._lock:
            for line in self._lines.values():
                if (queue == "*" or "*" in line.queues or queue in line.queues) and line.waiters:
                    line.waiters[0].ring()


def _undo(world: World, done: Future[tuple[list[Job], datetime | None]]) -> None:
    if not done.cancelled() and done.exception() is None:
        give_back(world, done.result()[0])


def waiting_room_of(app: FastAPI) -> WaitingRoom:
    """Return the service's waiting room, made at the first call; call it from the event loop."""
    if not hasattr(app.state, "waiting"):
        app.state.waiting = WaitingRoom()
    found: WaitingRoom = app.state.waiting
    return found
