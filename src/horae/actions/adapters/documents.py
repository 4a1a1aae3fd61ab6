"""The verbs of documents that adapters keep by kind and name."""

from __future__ import annotations

from typing import Any

from horae.core.jobs.payloads import decode, encode, label
from horae.ports.store import Tx
from horae.ports.world import World

MOST = 1000


def get(world: World, owner: str, kind: str, name: str) -> Any:
    """Return a document; None where there is none."""
    found = world.route(owner=owner).store.read(lambda tx: tx.documents.get(owner, kind, name))
    return decode(found) if found else None


def put(world: World, owner: str, kind: str, name: str, body: Any) -> None:
    """Store a document, in place of one with the same name."""
    label(name, "name")
    text, now = encode(body, "document", world.max_payload_bytes), world.clock.now()

    def write(tx: Tx) -> None:
        tx.documents.lock(owner, kind, name, now)
        tx.documents.put(owner, kind, name, text, now)

    world.route(owner=owner).store.transact(write)


def add(world: World, owner: str, kind: str, name: str, body: Any) -> Any:
    """Store a document unless there is one with this name; return the one that is stored."""
    label(name, "name")
    text, now = encode(body, "document", world.max_payload_bytes), world.clock.now()

    def write(tx: Tx) -> str:
        tx.documents.lock(owner, kind, name, now)
        known = tx.documents.get(owner, kind, name)
        if not known:
            tx.documents.put(owner, kind, name, text, now)
        return known or text

    return decode(world.route(owner=owner).store.transact(write))


def exchange(world: World, owner: str, kind: str, name: str, expected: Any, body: Any) -> bool:
    """Store a document where *expected* is stored now; return whether it was. Of several callers one succeeds."""
    old, new, now = encode(expected, "document", None), encode(body, "document", None), world.clock.now()

    def write(tx: Tx) -> bool:
        tx.documents.lock(owner, kind, name, now)
        fits = tx.documents.get(owner, kind, name) == old
        if fits:
            tx.documents.put(owner, kind, name, new, now)
        return fits

    return world.route(owner=owner).store.transact(write)


def remove(world: World, owner: str, kind: str, name: str) -> bool:
    """Remove a document; return whether there was one. Of two callers one hears that there was."""
    return world.route(owner=owner).store.transact(lambda tx: tx.documents.remove(owner, kind, name))


def find(world: World, owner: str, kind: str, prefix: str = "", *, limit: int = MOST) -> dict[str, Any]:
    """Return documents whose names begin with *prefix*, by name."""
    rows = world.route(owner=owner).store.read(lambda tx: tx.documents.named(owner, kind, prefix, limit=limit))
    return {name: decode(body) for name, body in rows if body}
