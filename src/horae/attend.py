"""The built-in handlers of attention: what comes due in lanes, and ``attend``, by which schedules reach agents."""

from __future__ import annotations

from typing import Any, Protocol

from horae.actions import attending
from horae.actions.lanes import DEADLINE, QUEUE, START, TIMEOUT
from horae.core.attention import NORMAL
from horae.core.outcomes import Snooze
from horae.core.retry import Retry
from horae.handles import Jobs
from horae.ports import World
from horae.runtime.context import Context

ATTEND = "attend"
RETRY = Retry.fixed(5, attempts=50)


class App(Protocol):
    """What an application is here: declarations, and a world that opens when it is needed."""

    @property
    def world(self) -> World: ...


def register(app: Jobs) -> None:
    """Declare the handlers in an application; its own of a name stay."""
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
        added = attending.add(
            home.world, lane, kind, payload, priority=priority, key=key or f"attend:{ctx.idempotency_key}",
            owner=ctx.job.owner, actor=f"job/{ctx.job.id}",
        )  # fmt: skip
        return {"task": added.task.id, "lane": lane, "created": added.created}

    def due(ctx: Context, lane: int, wait: int | None = None, task: int | None = None) -> None:
        told = {"lane": lane, "wait": wait, "task": task}
        again = attending.come_due(home.world, ctx.job.handler, told, owner=ctx.job.owner)
        if again is not None:
            raise Snooze(again - home.world.clock.now(), "not due by this clock")

    if app.definitions.find(ATTEND) is None:
        app.job(ATTEND, retry=RETRY, tenants=True)(attend)
    for handler in (TIMEOUT, START, DEADLINE):
        if app.definitions.find(handler) is None:
            # Open, because lanes of tenants plan them too; a job that is not its lane's own changes nothing.
            app.job(handler, queue=QUEUE, retry=RETRY, tenants=True)(due)
