"""What commands do, wherever the jobs are: in a database that is opened here, or behind a service (``--url``).

A command asks :func:`reached` for these verbs and does not know which it got. Near, they are those of
``horae.actions``, bound to the store; far, :mod:`horae.cli.remote` asks the service and answers with the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from horae.cli.terminal import Terminal, actor, opened
from horae.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from horae.api.access.room import Tokens
    from horae.api.attention.room import Attention
    from horae.api.audit import Audit
    from horae.api.jobs.room import Jobs
    from horae.api.operation import Sender
    from horae.api.queues import Limits, Queues
    from horae.api.schedules.room import Schedules
    from horae.ports import World


class Verbs(Protocol):
    """Everything that a command may want done."""

    jobs: Jobs[Sender]
    queues: Queues[Sender]
    limits: Limits[Sender]
    attention: Attention[Sender]
    schedules: Schedules[Sender]
    tokens: Tokens[Sender]
    audit: Audit[Sender]

    def now(self) -> datetime: ...

    def moment(self) -> AbstractContextManager[None]:
        """Make all reads inside the block consistent; only where the database is opened here."""

    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Call *listener*, from any thread, when something may have happened; the answer ends it."""


class Near:
    """A database that is opened here."""

    def __init__(self, world: World, actor: str, owner: str | None = None) -> None:
        from horae.api.here import Here, house, tenant
        from horae.api.rooms import Rooms
        from horae.api.senders.local import Local
        from horae.core.jobs.job import SYSTEM

        self.now = world.clock.now
        self._world = world
        caller = house(actor) if owner in (None, SYSTEM) else tenant(str(owner), actor)
        rooms: Rooms[Sender] = Rooms(Local(lambda: Here(world, caller)))
        self.jobs, self.queues, self.limits = rooms.jobs, rooms.queues, rooms.limits
        self.attention = rooms.attention
        self.schedules = rooms.schedules
        self.tokens, self.audit = rooms.tokens, rooms.audit

    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        from horae.actions.hints import subscribe

        return subscribe(self._world, lambda _: listener())

    def moment(self) -> AbstractContextManager[None]:
        from horae.actions.consistency import moment

        return moment(self._world)


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
