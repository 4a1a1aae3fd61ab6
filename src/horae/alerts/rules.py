"""Alerts for the operator: a webhook when a job dies, or when a queue has due work and no worker serves it.

``watch(app, "https://ops.example/hooks/horae")`` before a worker of the application starts. The handler ``webhook``
delivers them (:func:`horae.outgoing.register`); an alert that cannot be delivered makes no other alert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

from horae.actions import alerts
from horae.actions.alerts import HANDLER, Alerts, DeadJob
from horae.actions.retention import Retention
from horae.core.jobs.machinery import queue_name
from horae.core.time.spans import Span, span
from horae.ports.world import World
from horae.runtime.chores.janitor import Chore
from horae.runtime.sources.store import StoreSource
from horae.runtime.worker.children import Children
from horae.runtime.worker.executor import Handler
from horae.runtime.worker.listeners import DeadListener, Listeners
from horae.runtime.worker.worker import Worker, WorkerSettings

LOOK_EVERY = timedelta(minutes=1)
QUEUE = "alerts"  # for processes that serve nothing else, such as the HTTP service
SLOTS = 2


class Watched(Protocol):
    """An application, as far as alerts need it."""

    @property
    def world(self) -> World: ...
    @property
    def chores(self) -> list[Chore]: ...
    def on_dead(self, listener: DeadListener) -> Any: ...


def watch(
    app: Watched,
    url: str,
    *,
    stalled_after: Span = timedelta(minutes=5),
    secret: str | None = None,
    queue: str = "default",
) -> Alerts:
    """Send alerts of an application's store to *url*; *secret* names the one that signs them."""
    how = Alerts(url, span(stalled_after), secret, queue_name(queue))

    def tell(job: DeadJob) -> None:
        alerts.tell_dead(app.world, how, job)

    app.on_dead(tell)
    app.chores.append(Chore("alerts", LOOK_EVERY, lambda world: alerts.look_round(world, how)))
    return how


def sender(
    world: World,
    resolve: Callable[[str], Handler | None],
    chores: Sequence[Chore],
    *,
    retention: Retention | None = None,
    version: str = "",
    grace: timedelta = timedelta(seconds=30),
) -> Worker:
    """Make a worker that does these chores and delivers alerts, and nothing else: it fires no schedule.

    Without chores it only delivers, beside a process that does them.
    """
    settings = WorkerSettings(
        {QUEUE: SLOTS},
        grace=grace,
        chores=tuple(chores),
        retention=retention,
        fires=False,
        cleans=bool(chores),
        version=version,
    )
    source = StoreSource(world)
    return Worker(
        world, source, lambda name: resolve(name) if name == HANDLER else None, settings, Listeners(), Children()
    )
