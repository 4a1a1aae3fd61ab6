"""A heartbeat to an outside monitor: it calls while all is well, so that silence is what alarms.

``beat(app, "https://hc-ping.com/…")`` before a worker or a service of the application starts. One process at a time
calls; while a run is missing that was expected, none does. The call keeps to the rules of the house: https to public
addresses, unless an operator allowed others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from horae.actions.access.owners import get_owner
from horae.actions.schedules.expectations import count_missing
from horae.core.jobs.job import SYSTEM
from horae.core.outgoing.targets import Rules, Target, target_of
from horae.core.time.instants import iso
from horae.core.time.spans import Span, span
from horae.errors import HoraeError, InvalidInput
from horae.ports.world import World
from horae.runtime.chores.janitor import Chore
from horae.telemetry import headers

if TYPE_CHECKING:
    from horae.outgoing.calls import Calls

log = logging.getLogger("horae.heartbeat")
SHORTEST = timedelta(seconds=10)


class Beating(Protocol):
    """An application, as far as a heartbeat needs it."""

    @property
    def chores(self) -> list[Chore]: ...


def beat(app: Beating, url: str, *, every: Span = timedelta(minutes=1), calls: Calls | None = None) -> None:
    """Call *url* so often while no expected run is missing; a monitor that hears nothing raises the alarm."""
    from horae.outgoing.calls import Calls  # needs httpx, which a worker without a heartbeat does without

    target, rhythm, calling = target_of(url), span(every), calls or Calls(headers=headers)
    if rhythm < SHORTEST:
        raise InvalidInput("heartbeat_too_often", least=SHORTEST.total_seconds())
    app.chores.append(Chore("heartbeat", rhythm, _step(target, calling)))


def _step(target: Target, calls: Calls) -> Callable[[World], Awaitable[None] | None]:
    """Return one step: it looks at the store off the event loop, and then calls on it."""

    def step(world: World) -> Awaitable[None] | None:
        missing = count_missing(world)
        if missing:
            log.warning("no heartbeat: %s expected runs are missing; `horae expectation list` shows them", missing)
            return None
        return _call(target, calls, get_owner(world, SYSTEM).rules, world.clock.now())

    return step


async def _call(target: Target, calls: Calls, rules: Rules, now: datetime) -> None:
    from horae.outgoing.calls import Limits

    body = json.dumps({"type": "heartbeat", "timestamp": iso(now)}).encode()
    limits = Limits(connect=3.0, total=5.0, body=1024)  # other chores of the process wait for it
    try:
        answer = await calls.post(target, body, {}, rules, limits)
    except HoraeError as problem:
        log.warning("the heartbeat was not delivered: %s", problem)
        return
    if not 200 <= answer.status < 300:
        log.warning("the heartbeat was not taken: %s answered %s", target, answer.status)
