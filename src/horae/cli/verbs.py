"""What commands do, wherever the jobs are: in a database that is opened here, or behind a service (``--url``).

A command asks :func:`reached` for these verbs and does not know which it got. Near, they are those of
``horae.actions``, bound to the store; far, :mod:`horae.cli.remote` asks the service and answers with the same values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from horae.cli.terminal import Terminal, actor, opened
from horae.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from horae.actions.firing import Backfill, Triggered
    from horae.api.access import Tokens
    from horae.api.audit import Audit
    from horae.api.jobs import Jobs
    from horae.api.operation import Sender
    from horae.api.queues import Limits, Queues
    from horae.core.audit import Entry
    from horae.core.fires import Fire, Schedule
    from horae.ports import ScheduleFilter, Tally, World


class ScheduleVerbs(Protocol):
    """Of ``horae.actions.schedules``."""

    def create(self, schedule: Schedule, /, *, actor: str, reason: str) -> Schedule: ...

    def change(
        self, key: str, changes: Mapping[str, Any], /, *, owner: str, version: int | None, actor: str, reason: str
    ) -> Schedule: ...

    def pause(self, key: str, /, *, owner: str, actor: str, reason: str) -> Schedule: ...

    def resume(self, key: str, /, *, owner: str, actor: str, reason: str) -> Schedule: ...

    def pause_group(self, group: str, /, *, owner: str, actor: str, reason: str) -> list[Schedule]: ...

    def resume_group(self, group: str, /, *, owner: str, actor: str, reason: str) -> list[Schedule]: ...

    def delete(self, key: str, /, *, owner: str, actor: str, reason: str) -> None: ...

    def get(self, key: str, /, *, owner: str) -> Schedule: ...

    def find(self, wanted: ScheduleFilter, /, *, limit: int, after: str | None = None) -> list[Schedule]: ...

    def history(
        self, key: str, /, *, owner: str, limit: int, before: datetime | None = None
    ) -> list[tuple[Fire, str | None]]: ...

    def versions(self, key: str, /, *, owner: str, limit: int) -> list[Entry]: ...

    def tally(self, schedule: Schedule, /) -> Tally: ...

    def preview(self, schedule: Schedule, count: int, /) -> list[datetime]: ...


class FiringVerbs(Protocol):
    """Of ``horae.actions.firing``."""

    def trigger(
        self, key: str, parameters: Mapping[str, Any], /, *, owner: str, actor: str, reason: str
    ) -> Triggered: ...

    def backfill(
        self,
        key: str,
        start: datetime,
        end: datetime,
        /,
        *,
        dry_run: bool,
        spread: timedelta,
        owner: str,
        actor: str,
        reason: str,
    ) -> Backfill: ...


class Verbs(Protocol):
    """Everything that a command may want done."""

    jobs: Jobs[Sender]
    queues: Queues[Sender]
    limits: Limits[Sender]
    tokens: Tokens[Sender]
    audit: Audit[Sender]
    schedules: ScheduleVerbs
    firing: FiringVerbs

    def now(self) -> datetime: ...

    def moment(self) -> AbstractContextManager[None]:
        """Make all reads inside the block consistent; only where the database is opened here."""


class Bound:
    """The verbs of one room of ``horae.actions``, each with its world; imported when one is asked for."""

    def __init__(self, world: World, room: str) -> None:
        self._world, self._room = world, f"horae.actions.{room}"

    def __getattr__(self, verb: str) -> Any:
        return functools.partial(getattr(import_module(self._room), verb), self._world)


class Near:
    """A database that is opened here."""

    def __init__(self, world: World, actor: str, owner: str | None = None) -> None:
        from horae.api.here import Here, house, tenant
        from horae.api.rooms import Rooms
        from horae.api.senders.local import Local
        from horae.core.jobs import SYSTEM

        self.now = world.clock.now
        self.moment = world.store.moment
        caller = house(actor) if owner in (None, SYSTEM) else tenant(str(owner), actor)
        rooms: Rooms[Sender] = Rooms(Local(lambda: Here(world, caller)))
        self.jobs, self.queues, self.limits = rooms.jobs, rooms.queues, rooms.limits
        self.tokens, self.audit = rooms.tokens, rooms.audit
        self.schedules = cast("ScheduleVerbs", Bound(world, "schedules"))
        self.firing = cast("FiringVerbs", Bound(world, "firing"))


@contextmanager
def reached(terminal: Terminal, *, may_create: bool = False, owner: str | None = None) -> Iterator[Verbs]:
    """The verbs, near or far, until the command is done."""
    if terminal.url is None:
        with opened(terminal, may_create=may_create) as world:
            yield Near(world, actor(terminal), owner)
    else:
        if owner is not None:
            raise InvalidInput("Behind a service the token says whose job it is; leave --owner out.")
        with _asked()(terminal) as far:
            yield far


def _asked() -> Callable[[Terminal], AbstractContextManager[Verbs]]:
    try:
        from horae.cli.remote import asked
    except ImportError as problem:
        raise MissingExtra(f"--url asks a service. {problem}") from problem
    return asked
