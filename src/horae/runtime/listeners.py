"""Telling the outside what happened; a listener can never break a job."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from horae.core.jobs import Job

DeadListener = Callable[[Job], Awaitable[None] | None]
log = logging.getLogger("horae.listeners")


class Listeners:
    """Who wants to be told about what."""

    def __init__(self) -> None:
        self.on_dead: list[DeadListener] = []

    async def tell_dead(self, job: Job) -> None:
        for listener in list(self.on_dead):
            await _told(listener, job)


async def _told(listener: Callable[..., Any], *facts: Any) -> None:
    try:
        answer = listener(*facts)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        log.exception("a listener failed; the job is not affected", extra={"listener": repr(listener)})
