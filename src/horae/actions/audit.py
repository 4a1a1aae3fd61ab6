"""The verbs of the audit: seal its entries into a chain for each owner, and verify that nobody has touched them.

Evidence, not prevention: whoever can write every table can also rewrite every chain. Keep the head of a chain somewhere
else, and even that is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

from horae.core.audit.chain import GENESIS
from horae.core.audit.entries import Entry, hash_entry
from horae.ports import Tx, World

BATCH = 500


@dataclass(frozen=True, slots=True)
class Verified:
    """What the verification of one owner's chain found."""

    owner: str
    entries: int
    head: str
    complaints: tuple[str, ...]


def find_entries(
    world: World, *, limit: int = 100, before: int | None = None, object_id: str | None = None, **wanted: str | None
) -> list[tuple[int, Entry]]:
    """Return entries with their numbers, newest first; *wanted* narrows by object_type, owner, actor and verb."""
    store = world.route(owner=wanted.get("owner"), id=object_id).store
    return store.read(lambda tx: tx.audit.find(object_id=object_id, limit=limit, before=before, **wanted))


def seal_audit(world: World, limit: int = BATCH) -> int:
    """Chain what is not chained yet; how many entries. They are written unchained, so that nothing waits for a hash."""
    if not world.route().store.read(lambda tx: tx.audit.open_entries(1)):
        return 0

    def write(tx: Tx) -> int:
        tx.audit.lock_chains()
        found = tx.audit.open_entries(limit)
        heads: dict[str, tuple[int, str]] = {}
        for number, entry in found:
            seq, previous = heads.get(entry.owner) or tx.audit.head(entry.owner)
            link = hash_entry(previous, seq + 1, number, entry)
            tx.audit.seal(number, entry.owner, seq + 1, link)
            heads[entry.owner] = (seq + 1, link)
        return len(found)

    return world.route().store.transact(write)


def verify_audit(world: World, *, owner: str | None = None) -> list[Verified]:
    """Every chain, or one: entries changed, missing or out of order are named."""

    def read(tx: Tx) -> list[Verified]:
        owners = tx.audit.owners() if owner is None else [owner]
        return [_verified(tx, each) for each in owners]

    return world.route(owner=owner).store.read(read)


def _verified(tx: Tx, owner: str) -> Verified:
    told: list[str] = []
    place, previous = 0, GENESIS
    while page := tx.audit.chain(owner, after=place, limit=BATCH):
        for seq, number, link, entry in page:
            if seq != place + 1:
                told.append(f"before entry {number}: {seq - place - 1} entries are missing")
            elif link != hash_entry(previous, seq, number, entry):
                told.append(f"entry {number} was changed, or moved, after it was sealed")
            place, previous = seq, link
    length, head = tx.audit.head(owner)
    if (length, head) != (place, previous):
        told.append(f"the chain should end at entry {length} of this owner; it ends at {place}")
    return Verified(owner, place, head, tuple(told))
