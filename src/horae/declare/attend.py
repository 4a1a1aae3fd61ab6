"""The built-in handler of attention: ``attend``, by which schedules reach agents. It runs in people's queues."""

from __future__ import annotations

from typing import Any, Protocol

from horae.actions.attention import inbox
from horae.core.attention.task import NORMAL
from horae.core.jobs.retry import Retry
from horae.declare.handles import Blueprint
from horae.ports import World
from horae.runtime.worker.context import Context

ATTEND = "attend"
RETRY = Retry.fixed(5, attempts=50)


class App(Protocol):
    """What an application is here: declarations, and a world that opens when it is needed."""

    @property
    def world(self) -> World: ...


def register(app: Blueprint) -> None:
    """Declare the handler in an application; its own of that name stays."""
    home: App = app

    def attend(
        ctx: Context,
        lane: str,
        kind: str,
        payload: Any = None,
        priority: int = NORMAL,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Put a task into an agent's backlog; an attempt that is repeated finds the task that it made."""
        added = inbox.add(
            home.world, lane, kind, payload, priority=priority, key=key or f"attend:{ctx.idempotency_key}",
            owner=ctx.owner, actor=f"job/{ctx.job_id}",
        )  # fmt: skip
        return {"task": added.task.id, "lane": lane, "created": added.created}

    if app.definitions.find(ATTEND) is None:
        app.job(ATTEND, retry=RETRY, tenants=True)(attend)
