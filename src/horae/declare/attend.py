"""The built-in handler of attention: ``attend``, by which schedules reach agents. It runs in users' queues."""

from __future__ import annotations

from typing import Any, Protocol

from horae.actions.attention import inbox
from horae.core.attention.task import NORMAL
from horae.core.jobs.retry import Retry
from horae.declare.handles import Blueprint
from horae.ports.world import World
from horae.runtime.worker.context import Context

ATTEND = "attend"
RETRY = Retry.fixed(5, attempts=50)


class App(Protocol):
    """An application, as far as this handler needs it: it has a world."""

    @property
    def world(self) -> World: ...


def register(app: Blueprint) -> None:
    """Declare the handler in an application, unless it has one of that name."""
    home: App = app

    def attend(
        ctx: Context,
        lane: str,
        kind: str,
        payload: Any = None,
        priority: int = NORMAL,
        key: str | None = None,
        most: int = 0,
    ) -> dict[str, Any]:
        """Put a task into an agent's backlog; an attempt that is repeated finds the task that it made.

        A lane with *most* tasks that have not ended takes no further one: the job fails, and says so.
        """
        added = inbox.add(
            home.world, lane, kind, payload, priority=priority, key=key or f"attend:{ctx.idempotency_key}",
            owner=ctx.owner, actor=f"job/{ctx.job_id}", most=most,
        )  # fmt: skip
        return {"task": added.task.id, "lane": lane, "created": added.created}

    if app.definitions.find(ATTEND) is None:
        app.job(ATTEND, retry=RETRY, tenants=True)(attend)
