"""What agent frameworks keep in the store: checkpoints with their writes, items of sessions, documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from horae.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """One checkpoint of a thread. *place* is the digest of owner, thread and namespace."""

    place: str
    checkpoint_id: str
    owner: str
    thread_id: str
    namespace: str
    parent_id: str | None
    run_id: str | None
    kind: str
    body: bytes
    about: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """One value that a node has written after a checkpoint."""

    place: str
    checkpoint_id: str
    task_id: str
    idx: int
    task_path: str
    channel: str
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CheckpointFilter:
    """Which checkpoints to list; the newest first."""

    owner: str
    thread_id: str | None = None
    place: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    after: tuple[str, str] | None = None  # checkpoint id and place of the last one of the page before


class CheckpointRows(Protocol):
    def put(self, checkpoint: StoredCheckpoint) -> None:
        """Store a checkpoint, in place of one with the same id."""

    def put_writes(self, writes: Sequence[StoredWrite]) -> None:
        """Store writes; of two with the same task and a position from zero on, the first one stays."""

    def latest(self, place: str, checkpoint_id: str | None) -> StoredCheckpoint | None: ...
    def find(self, wanted: CheckpointFilter, limit: int) -> list[StoredCheckpoint]: ...
    def of_thread(self, owner: str, thread_id: str) -> list[StoredCheckpoint]: ...
    def of_runs(self, owner: str, run_ids: Collection[str]) -> list[tuple[str, str]]:
        """Return place and id of the checkpoints that these runs have made."""

    def writes(self, place: str, checkpoint_ids: Collection[str]) -> list[StoredWrite]:
        """Return writes in the order in which a run applies them."""

    def delete(self, place: str, checkpoint_ids: Collection[str]) -> None:
        """Delete checkpoints and their writes."""

    def idle_threads(self, owner: str, before: datetime, limit: int) -> list[str]:
        """Return threads whose newest checkpoint is older than *before*."""


class SessionItemRows(Protocol):
    """Items of a session, in order. A verb that changes them locks the session first."""

    def lock(self, owner: str, session_id: str, now: datetime) -> None: ...
    def add(self, owner: str, session_id: str, items: Sequence[str], now: datetime) -> None: ...
    def items(self, owner: str, session_id: str, limit: int | None) -> list[str]:
        """Return the latest items, the oldest of them first."""

    def position(self, owner: str, session_id: str) -> int:
        """Return the position of the last item; 0 for an empty session."""

    def truncate(self, owner: str, session_id: str, position: int) -> None:
        """Delete the items behind a position."""


class DocumentRows(Protocol):
    """Documents by owner, kind and name; an empty body is one that was only locked."""

    def lock(self, owner: str, kind: str, name: str, now: datetime) -> None:
        """Make the row, with an empty body, unless it is there, and lock it."""

    def get(self, owner: str, kind: str, name: str) -> str | None: ...
    def put(self, owner: str, kind: str, name: str, body: str, now: datetime) -> None:
        """Write the body of a document that is locked."""

    def remove(self, owner: str, kind: str, name: str) -> bool: ...
    def named(self, owner: str, kind: str, prefix: str = "", *, limit: int) -> list[tuple[str, str]]:
        """Return names that begin with *prefix*, with their bodies, in the order of names."""
