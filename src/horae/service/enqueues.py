"""Enqueues of this process that share a commit: those that arrive while others are being written are written next.

The first one is written at once, in a thread. What arrives meanwhile waits for its end, but not long: then it is
written beside it. Each is answered by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fastapi import Request

from horae.actions.jobs.requests import Enqueued as Stored
from horae.actions.jobs.requests import Request as NewJob
from horae.actions.jobs.together import may_share
from horae.api.here import Here
from horae.api.jobs.local import enqueue_each
from horae.api.jobs.room import Enqueued
from horae.api.values import to_public
from horae.core.dataclass import dataclass
from horae.service.threads import THREADS

MOST_TOGETHER = 200
PATIENCE = 0.05  # seconds that an enqueue waits for the commit of others
MOST_GROUPS = 8  # that are written at once, where the store takes its time

Answer = Stored | Exception | None


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """One caller's request, and the future with its answer."""

    here: Here
    request: NewJob
    answer: asyncio.Future[Stored | None]


class Enqueues:
    """The enqueues of one service; called from its event loop only."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[WaitingRequest] = []
        self._groups = 0  # that are being written
        self._timer: asyncio.TimerHandle | None = None

    async def enqueue(self, here: Here, request: NewJob) -> Enqueued | None:
        """Store a job together with those of other callers; None where it has to go its own way."""
        if not may_share(request):
            return None
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what an ended loop left behind counts no more
            self._loop, self._waiting, self._groups, self._timer = loop, [], 0, None
        waiting = WaitingRequest(here, request, loop.create_future())
        self._waiting.append(waiting)
        if self._groups:
            self._set_timer(loop)
        else:
            self._write(loop)
        made: Enqueued | None = to_public(Enqueued, await waiting.answer)
        return made

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None:
            self._timer = loop.call_later(PATIENCE, self._lose_patience, loop)

    def _lose_patience(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._waiting and self._groups < MOST_GROUPS:
            self._write(loop)

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        self._groups += 1
        if self._waiting:
            self._set_timer(loop)
        writing = loop.run_in_executor(THREADS, enqueue_each, [(each.here, each.request) for each in group])
        writing.add_done_callback(lambda done: self._tell(loop, group, done))

    def _tell(
        self, loop: asyncio.AbstractEventLoop, group: Sequence[WaitingRequest], done: asyncio.Future[list[Answer]]
    ) -> None:
        """Answer a group, and write what has arrived meanwhile."""
        if loop is self._loop:
            self._groups -= 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._waiting:
                self._write(loop)
        problem = asyncio.CancelledError() if done.cancelled() else done.exception()
        answers: Sequence[Stored | BaseException | None] = done.result() if problem is None else [problem] * len(group)
        for waiting, answer in zip(group, answers, strict=True):
            _settle(waiting.answer, answer)


def _settle(future: asyncio.Future[Stored | None], answer: Stored | BaseException | None) -> None:
    if future.done():  # its caller has gone
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def enqueues_of(request: Request) -> Enqueues:
    found: Enqueues = request.app.state.enqueues
    return found
