"""The verbs of a saver of checkpoints: put, get, list, delete, copy, prune; each is one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from horae.core.jobs.payloads import encode, label
from horae.errors import InvalidInput, InvalidPayload
from horae.ports.adapters import CheckpointFilter, StoredCheckpoint, StoredWrite
from horae.ports.store import Tx
from horae.ports.world import World

PAGE = 50
MAX_BYTES = 15 * 1024 * 1024  # MariaDB takes messages of 16 MiB unless it is told otherwise
STRATEGIES = ("keep_latest", "delete")
Found = tuple[StoredCheckpoint, list[StoredWrite]]
Lacks = Callable[[StoredCheckpoint, frozenset[str]], frozenset[str]]


def place_of(owner: str, thread_id: str, namespace: str) -> str:
    """Return the key under which the checkpoints of one namespace of a thread lie."""
    return hashlib.sha256(encode([owner, thread_id, namespace], "thread", None).encode()).hexdigest()


def put(world: World, checkpoint: StoredCheckpoint) -> None:
    """Store a checkpoint."""
    label(checkpoint.thread_id, "thread id")
    label(checkpoint.checkpoint_id, "checkpoint id", 64)
    _check_size(checkpoint.body)
    stamped = replace(checkpoint, created_at=world.clock.now())
    world.route(owner=checkpoint.owner).store.transact(lambda tx: tx.checkpoints.put(stamped))


def put_writes(world: World, owner: str, writes: Sequence[StoredWrite]) -> None:
    """Store what a node has written after a checkpoint."""
    for write in writes:
        label(write.task_id, "task id", 64)
        _check_size(write.body)
    if writes:
        world.route(owner=owner).store.transact(lambda tx: tx.checkpoints.put_writes(writes))


def get(world: World, owner: str, place: str, checkpoint_id: str | None) -> Found | None:
    """Return a checkpoint, or the newest one, with its writes."""

    def read(tx: Tx) -> Found | None:
        found = tx.checkpoints.latest(place, checkpoint_id)
        return None if found is None else (found, tx.checkpoints.writes(place, [found.checkpoint_id]))

    return world.route(owner=owner).store.read(read)


def walk(world: World, wanted: CheckpointFilter) -> Iterator[Found]:
    """Yield checkpoints with their writes, the newest first, page by page."""
    while page := _page(world, wanted):
        yield from page
        last = page[-1][0]
        wanted = replace(wanted, after=(last.checkpoint_id, last.place))


def _page(world: World, wanted: CheckpointFilter) -> list[Found]:
    def read(tx: Tx) -> list[Found]:
        found = tx.checkpoints.find(wanted, PAGE)
        return [(each, tx.checkpoints.writes(each.place, [each.checkpoint_id])) for each in found]

    return world.route(owner=wanted.owner).store.read(read)


def delete_thread(world: World, owner: str, thread_id: str) -> None:
    """Delete all checkpoints of a thread."""
    prune(world, owner, [thread_id], strategy="delete", lacks=lambda _found, _missing: frozenset())


def delete_runs(world: World, owner: str, run_ids: Collection[str]) -> None:
    """Delete the checkpoints that these runs have made."""

    def write(tx: Tx) -> None:
        for place, checkpoint_id in tx.checkpoints.of_runs(owner, run_ids):
            tx.checkpoints.delete(place, [checkpoint_id])

    if run_ids:
        world.route(owner=owner).store.transact(write)


def copy_thread(world: World, owner: str, source: str, target: str) -> None:
    """Copy all checkpoints of a thread, with their writes, to another one."""
    label(target, "thread id")

    def write(tx: Tx) -> None:
        for found in tx.checkpoints.of_thread(owner, source):
            place = place_of(owner, target, found.namespace)
            tx.checkpoints.put(replace(found, place=place, thread_id=target))
            written = tx.checkpoints.writes(found.place, [found.checkpoint_id])
            tx.checkpoints.put_writes([replace(each, place=place) for each in written])

    world.route(owner=owner).store.transact(write)


def prune(world: World, owner: str, thread_ids: Sequence[str], *, strategy: str, lacks: Lacks) -> None:
    """Delete all checkpoints of threads, or all but the newest of each namespace and what that one rests on.

    ``lacks(checkpoint, missing)`` says which channels are still missing once this ancestor is kept: a channel that
    stores differences is rebuilt from its ancestors.
    """
    if strategy not in STRATEGIES:
        raise InvalidInput("choice_unknown", name="strategy", value=strategy, choices=list(STRATEGIES))
    for thread_id in thread_ids:
        world.route(owner=owner).store.transact(partial(_prune, owner, thread_id, strategy, lacks))


def _prune(owner: str, thread_id: str, strategy: str, lacks: Lacks, tx: Tx) -> None:
    by_place: dict[str, list[StoredCheckpoint]] = {}
    for found in tx.checkpoints.of_thread(owner, thread_id):
        by_place.setdefault(found.place, []).append(found)
    for place, newest_first in by_place.items():
        kept = _kept(newest_first, lacks) if strategy == "keep_latest" else frozenset()
        tx.checkpoints.delete(place, {each.checkpoint_id for each in newest_first} - kept)


def _kept(newest_first: Sequence[StoredCheckpoint], lacks: Lacks) -> frozenset[str]:
    by_id = {each.checkpoint_id: each for each in newest_first}
    current: StoredCheckpoint | None = newest_first[0]
    kept, missing = {newest_first[0].checkpoint_id}, lacks(newest_first[0], frozenset())
    while current is not None and missing:
        current = by_id.get(current.parent_id or "")
        if current is not None:
            kept.add(current.checkpoint_id)
            missing = lacks(current, missing)
    return frozenset(kept)


def idle_threads(world: World, owner: str, idle_for: timedelta, limit: int = 100) -> list[str]:
    """Return threads that have had no new checkpoint for a while, the oldest first."""
    before = world.clock.now() - idle_for
    return world.route(owner=owner).store.read(lambda tx: tx.checkpoints.idle_threads(owner, before, limit))


def _check_size(body: bytes) -> None:
    if len(body) > MAX_BYTES:
        raise InvalidPayload("too_large", what="checkpoint", size=len(body), most=MAX_BYTES)
