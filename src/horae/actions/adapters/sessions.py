"""The verbs of an agent's session: its items, in the order in which they were added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from horae.core.jobs.payloads import decode, encode, label
from horae.ports.store import Tx
from horae.ports.world import World

T = TypeVar("T")


def items(world: World, owner: str, session_id: str, limit: int | None = None) -> list[Any]:
    """Return the items, or the latest *limit* of them, the oldest first."""
    if limit is not None and limit <= 0:
        return []
    found = world.route(owner=owner).store.read(lambda tx: tx.agent_sessions.items(owner, session_id, limit))
    return [decode(each) for each in found]


def add(world: World, owner: str, session_id: str, new: Sequence[Any]) -> None:
    """Add items behind the others; all of them or none."""
    label(session_id, "session id")
    texts = [encode(each, "item of a session", world.max_payload_bytes) for each in new]
    now = world.clock.now()
    _change(world, owner, session_id, lambda tx: tx.agent_sessions.add(owner, session_id, texts, now))


def pop(world: World, owner: str, session_id: str) -> Any:
    """Remove the last item and return it; None for an empty session."""

    def write(tx: Tx) -> Any:
        last = tx.agent_sessions.items(owner, session_id, 1)
        tx.agent_sessions.truncate(owner, session_id, tx.agent_sessions.position(owner, session_id) - 1)
        return decode(last[0]) if last else None

    return _change(world, owner, session_id, write)


def position(world: World, owner: str, session_id: str) -> int:
    """Return where the session ends now, for :func:`rewind`."""
    return world.route(owner=owner).store.read(lambda tx: tx.agent_sessions.position(owner, session_id))


def rewind(world: World, owner: str, session_id: str, to: int) -> None:
    """Remove the items that were added behind a position; to 0 is to clear the session."""
    _change(world, owner, session_id, lambda tx: tx.agent_sessions.truncate(owner, session_id, to))


def _change(world: World, owner: str, session_id: str, work: Callable[[Tx], T]) -> T:
    label(session_id, "session id")

    def write(tx: Tx) -> T:
        tx.agent_sessions.lock(owner, session_id, world.clock.now())
        return work(tx)

    return world.route(owner=owner).store.transact(write)
