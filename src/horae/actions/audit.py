"""The verbs of the audit: seal its entries into a chain for each owner, and verify that they are unchanged.

Evidence, not prevention: an intruder who can write every table can also rewrite every chain. Keep the head of a chain
elsewhere, and even that is noticed.
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
    """Chain new entries, and return how many. They are written unchained, so that no verb waits for a hash."""
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
    """Check every chain, or one, for entries changed, missing or out of order."""

    def read(tx: Tx) -> list[Verified]:
        owners = tx.audit.owners() if owner is None else [owner]
        return [_verify(tx, each) for each in owners]

    return world.route(owner=owner).store.read(read)


def _verify(tx: Tx, owner: str) -> Verified:
    complaints: list[str] = []
    last, previous = 0, GENESIS
    while page := tx.audit.chain(owner, after=last, limit=BATCH):
        for seq, number, link, entry in page:
            if seq != last + 1:
                complaints.append(f"before entry {number}: {seq - last - 1} entries are missing")
            elif link != hash_entry(previous, seq, number, entry):
                complaints.append(f"entry {number} was changed, or moved, after it was sealed")
            last, previous = seq, link
    length, head = tx.audit.head(owner)
    if (length, head) != (last, previous):
        complaints.append(f"the chain should end at entry {length} of this owner; it ends at {last}")
    return Verified(owner, last, head, tuple(complaints))
