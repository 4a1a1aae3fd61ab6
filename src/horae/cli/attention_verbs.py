"""What ``horae attention`` does, as the values that it prints: in a database that is opened here, or by a service.

Both answer with what the service calls by the same names, so that a script need not know which it asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from horae.cli import attention_showing as shapes
from horae.cli.attention_showing import Shape
from horae.cli.terminal import Terminal, opened
from horae.core.jobs import SYSTEM
from horae.errors import MissingExtra

if TYPE_CHECKING:
    from horae.ports import World

Told = dict[str, dict[int, Shape]]


class LaneVerbs(Protocol):
    """Of a lane that is named by its name and its owner."""

    def now(self) -> datetime: ...

    def lanes(self, owner: str | None, limit: int | None) -> list[Shape]: ...

    def view(self, lane: str, owner: str | None) -> Shape: ...

    def task(self, lane: str, owner: str | None, task_id: str) -> Shape: ...

    def add(self, lane: str, owner: str | None, kind: str, payload: Any, **options: Any) -> Shape: ...

    def post(
        self, lane: str, owner: str | None, key: str, data: Mapping[str, Any], *, event_id: str | None, actor: str
    ) -> Shape: ...

    def cancel(
        self, lane: str, owner: str | None, task_id: str, *, reason: str, graceful: bool, actor: str
    ) -> Shape: ...

    def confirm(self, lane: str, owner: str | None, wait: int, approve: bool, *, reason: str, actor: str) -> Shape: ...

    def journal(self, lane: str, owner: str | None, *, since: int, limit: int, task_id: str | None) -> list[Shape]: ...

    def at(self, lane: str, owner: str | None, seq: int) -> Told: ...

    def verify(self, lane: str, owner: str | None) -> Shape: ...

    def on_hints(self, listener: Callable[[], None]) -> Callable[[], None]: ...


class NearLanes:
    """Lanes of a database that is opened here."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return self._world.clock.now()

    def lanes(self, owner: str | None, limit: int | None) -> list[Shape]:
        from horae.actions.looking import each_lane

        return [shapes.lane_shape(each) for each in islice(each_lane(self._world, owner=owner), limit)]

    def view(self, lane: str, owner: str | None) -> Shape:
        from horae.actions.lanes import snapshot

        return shapes.view_of(snapshot(self._world, lane, owner=owner or SYSTEM))

    def task(self, lane: str, owner: str | None, task_id: str) -> Shape:
        from horae.actions.lanes import shown
        from horae.actions.looking import get_task

        with self._world.store.moment():
            task = get_task(self._world, lane, task_id, owner=owner or SYSTEM)
            waits = self._world.store.read(lambda tx: tx.attention.waits_of(task.number))
        return shown(task) | {"waits": [shapes.wait_shape(each) for each in waits]}

    def add(self, lane: str, owner: str | None, kind: str, payload: Any, **options: Any) -> Shape:
        from horae.actions.attending import add
        from horae.actions.lanes import shown

        made = add(self._world, lane, kind, payload, owner=owner or SYSTEM, **options)
        return {"task": shown(made.task), "created": made.created}

    def post(
        self, lane: str, owner: str | None, key: str, data: Mapping[str, Any], *, event_id: str | None, actor: str
    ) -> Shape:
        from horae.actions.attending import post

        posted = post(self._world, lane, key, data, event_id=event_id, owner=owner or SYSTEM, actor=actor)
        return {"event": shapes.event_shape(posted.event), "is_new": posted.is_new}

    def cancel(self, lane: str, owner: str | None, task_id: str, *, reason: str, graceful: bool, actor: str) -> Shape:
        from horae.actions.attending import cancel
        from horae.actions.lanes import get_lane, shown

        who = owner or SYSTEM
        get_lane(self._world, lane, owner=who)
        return shown(cancel(self._world, lane, task_id, reason=reason, graceful=graceful, owner=who, actor=actor))

    def confirm(self, lane: str, owner: str | None, wait: int, approve: bool, *, reason: str, actor: str) -> Shape:
        from horae.actions.lanes import get_lane
        from horae.actions.waits import confirm

        get_lane(self._world, lane, owner=owner or SYSTEM)
        return shapes.wait_shape(
            confirm(self._world, lane, wait, approve, reason=reason, actor=actor, owner=owner or SYSTEM)
        )

    def journal(self, lane: str, owner: str | None, *, since: int, limit: int, task_id: str | None) -> list[Shape]:
        from horae.actions.attending import task_number
        from horae.actions.journal import read_journal

        number = None if task_id is None else task_number(task_id)
        found = read_journal(self._world, lane, owner=owner or SYSTEM, since=since, limit=limit, task=number)
        return [shapes.line_shape(each) for each in found]

    def at(self, lane: str, owner: str | None, seq: int) -> Told:
        from horae.actions.journal import at

        return at(self._world, lane, seq, owner=owner or SYSTEM)

    def verify(self, lane: str, owner: str | None) -> Shape:
        from horae.actions.journal import verify

        return shapes.verified_shape(verify(self._world, lane, owner=owner or SYSTEM))

    def on_hints(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call *listener*, from any thread, whenever something may have happened; the answer ends it."""
        return self._world.store.subscribe(lambda _: listener())


@contextmanager
def lanes_reached(terminal: Terminal, *, may_create: bool = False) -> Iterator[LaneVerbs]:
    """The verbs, near or far, until the command is done."""
    if terminal.url is None:
        with opened(terminal, may_create=may_create) as world:
            yield NearLanes(world)
        return
    try:
        from horae.cli.attention_far import FarLanes
        from horae.cli.remote import client_of
    except ImportError as problem:
        raise MissingExtra(f"--url asks a service. {problem}") from problem
    with client_of(terminal) as client:
        yield FarLanes(client)
