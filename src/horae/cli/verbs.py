"""The operations that commands use, on a database that is opened here or behind a service (``--url``).

A command asks :func:`reached` for them and does not know which it got. On a database they are those of ``horae.api``,
bound to the store; behind a service :mod:`horae.cli.remote` sends them and returns the same values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.cli.terminal import Terminal, actor, opened
from horae.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from horae.ports.world import World


class Verbs(Rooms[Sender], ABC):
    """Every operation that a command may use."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the present instant, by the clock that decides what is due."""

    @abstractmethod
    def moment(self) -> AbstractContextManager[None]:
        """Make all reads inside the block consistent; only where the database is opened here."""

    @abstractmethod
    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Call *listener*, from any thread, when something may have happened; return what ends that."""


class LocalVerbs(Verbs):
    """The operations on a database that is opened here."""

    def __init__(self, world: World, actor: str, owner: str | None = None) -> None:
        from horae.api.here import Here, house, tenant
        from horae.api.senders.local import Local
        from horae.core.jobs.job import SYSTEM

        caller = house(actor) if owner in (None, SYSTEM) else tenant(str(owner), actor)
        super().__init__(Local(lambda: Here(world, caller)))
        self._world = world

    def now(self) -> datetime:
        return self._world.clock.now()

    def on_hints(self, listener: Callable[[], None], /) -> Callable[[], None]:
        from horae.actions.hints import subscribe

        return subscribe(self._world, lambda _: listener())

    def moment(self) -> AbstractContextManager[None]:
        from horae.actions.consistency import moment

        return moment(self._world)


@contextmanager
def reached(terminal: Terminal, *, may_create: bool = False, owner: str | None = None) -> Iterator[Verbs]:
    """Yield the operations, on a database or behind a service, until the command is done."""
    if terminal.url is None:
        with opened(terminal, may_create=may_create) as world:
            yield _noticing(LocalVerbs(world, actor(terminal), owner), terminal)
    else:
        if owner is not None:
            raise InvalidInput("owner_from_token")
        with _remote_opener()(terminal) as remote:
            yield _noticing(remote, terminal)


def _noticing(verbs: Verbs, terminal: Terminal) -> Verbs:
    """Let the terminal tell which databases of a cluster did not answer."""
    from horae.api.senders.noticing import Noticing

    verbs._sender = Noticing(verbs._sender, terminal.notice_missing)
    return verbs


def _remote_opener() -> Callable[[Terminal], AbstractContextManager[Verbs]]:
    try:
        from horae.cli.remote import open_remote
    except ImportError as problem:
        raise MissingExtra("url_extra_missing", problem=str(problem)) from problem
    return open_remote
