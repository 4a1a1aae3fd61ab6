"""The verbs of the audit: seal its entries into a chain for each owner, verify that they are unchanged, export them.

Evidence, not prevention: an intruder who can write every table can also rewrite every chain. Keep the head of a chain
elsewhere, and even that is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from horae.core.audit.chain import ChainCheck, Complaint, Head, Seal, Verified
from horae.core.audit.entries import Entry, entry_body, hash_entry
from horae.core.audit.exports import Line, closing_line, entry_line, header_line, last_line
from horae.core.cluster.numbers import birthplace
from horae.core.cursors import not_ours
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.ports.store import Tx
from horae.ports.world import World

BATCH = 1_000  # entries sealed in one transaction, during which no other process seals, and on SQLite none writes
PAGE = 1_000  # entries read at once


@dataclass(frozen=True, slots=True)
class Sealed:
    """How many entries one batch has sealed, and whether there are probably more."""

    entries: int = 0
    more: bool = False


def find_entries(
    world: World, *, limit: int = 100, before: int | None = None, object_id: str | None = None, **wanted: str | None
) -> list[tuple[int, Entry]]:
    """Return entries with their numbers, newest first; *wanted* narrows by object_type, owner, actor and verb.

    Entries stay where they were written when their tenant moves. Those of the database that keeps the tenant now come
    first, then those of the others; one that does not answer is an error, but only once its entries are reached.
    """
    owner = wanted.get("owner")

    def find(tx: Tx, most: int, below: int | None) -> list[tuple[int, Entry]]:
        return tx.audit.find(object_id=object_id, limit=most, before=below, **wanted)

    if world.cluster is None or owner is None or owner == SYSTEM:
        return world.route(owner=owner, id=object_id).store.read(lambda tx: find(tx, limit, before))
    found: list[tuple[int, Entry]] = []
    places = _places_of(world, owner)
    numbers = [number for number, _ in places]
    if before is not None and birthplace(before) not in numbers:
        raise not_ours()
    for number, shard in places[0 if before is None else numbers.index(birthplace(before)) :]:
        below = before if before is not None and birthplace(before) == number else None
        found += shard.route().store.read(partial(find, most=limit - len(found), below=below))
        if len(found) >= limit:
            break
    return found


def _places_of(world: World, owner: str) -> list[tuple[int, World]]:
    """Return the databases of a cluster with their numbers, the one that keeps a tenant first, the newest next."""
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    own = shard_map.database_of(shard_map.vshard_of(owner=owner))
    numbers = sorted((each.number for each in shard_map.sharded), key=lambda each: (each != own, -each))
    return [(each, world.cluster.whole(world, each)) for each in numbers]


# -- sealing -----------------------------------------------------------------------------------------------------------


def seal_audit(world: World, limit: int = BATCH) -> Sealed:
    """Chain one batch of new entries. They are written unchained, so that no verb waits for a hash."""
    store = world.route().store
    return store.transact(lambda tx: _seal(tx, limit)) if has_unsealed(world) else Sealed()


def seal_all(world: World) -> int:
    """Chain new entries, batch by batch, until none is left; return how many. In a cluster those of every database that
    answers.
    """
    if world.cluster is not None:
        from horae.actions.cluster_audit import seal_everywhere  # a single database does not need it

        return seal_everywhere(world)
    total, batch = 0, Sealed(more=True)
    while batch.more:
        batch = seal_audit(world)
        total += batch.entries
    return total


def has_unsealed(world: World) -> bool:
    """Return whether there are entries that are not sealed yet."""
    return bool(world.route().store.read(lambda tx: tx.audit.open_entries(1)))


def _seal(tx: Tx, limit: int) -> Sealed:
    tx.audit.lock_chains()
    found = tx.audit.open_entries(limit)
    if not found:  # another process was quicker
        return Sealed()
    heads = tx.audit.heads({entry.owner for _, entry in found})
    seals, moved = [], dict[str, Head]()
    for number, entry in found:
        head = moved.get(entry.owner) or heads.get(entry.owner) or Head(entry.owner)
        seq = head.seq + 1
        link = hash_entry(head.hash, seq, number, entry)
        seals.append(Seal(number, seq, link))
        moved[entry.owner] = Head(entry.owner, seq, link)
    tx.audit.seal(seals, moved.values())
    return Sealed(len(found), more=len(found) >= limit)


# -- verification ------------------------------------------------------------------------------------------------------


def verify_audit(world: World, *, owner: str | None = None, heads: Mapping[str, str] | None = None) -> list[Verified]:
    """Check every chain, or one, for entries changed, missing or out of order.

    *heads* are heads kept elsewhere, by owner: each must still be in its chain. In a cluster see
    :func:`verify_reachable`.
    """
    return verify_reachable(world, owner=owner, heads=heads)[0]


def verify_reachable(
    world: World, *, owner: str | None = None, heads: Mapping[str, str] | None = None
) -> tuple[list[Verified], tuple[str, ...]]:
    """Check the chains of each database that answers; return what was found, and the names of those that are away."""
    kept = dict(heads or {})
    if world.cluster is not None:
        from horae.actions.cluster_audit import verify_everywhere

        return verify_everywhere(world, owner, kept)

    def read(tx: Tx) -> list[Verified]:
        owners = tx.audit.owners() if owner is None else [owner]
        found = [verify_chain(tx, each, kept.get(each)) for each in owners]
        lost = [each for each in kept if each not in owners]
        return [*found, *(Verified(each, 0, "", (Complaint("chain_missing"),)) for each in lost)]

    return world.route(owner=owner).store.read(read), ()


def has_head(world: World, owner: str, link: str) -> bool:
    """Return whether a head that was kept elsewhere is in the chain of its owner."""
    found = world.route(owner=owner).store.read(lambda tx: verify_chain(tx, owner, link))
    return all(each.reason != "kept_head_unknown" for each in found.complaints)


def missing_guards(world: World) -> list[str]:
    """Return the parts of the guard against changes that a database does not have."""
    if world.cluster is not None:
        from horae.actions import cluster_audit

        return cluster_audit.missing_guards(world)
    return world.route().store.read(lambda tx: tx.audit.missing_guards())


def verify_chain(tx: Tx, owner: str, kept_head: str | None) -> Verified:
    check, after = ChainCheck(owner, kept_head), (0, 0)
    while page := tx.audit.chain(owner, after=after, limit=PAGE):
        for seal, entry in page:
            check.add(entry_body(seal.seq, seal.number, entry), seal.hash)
        after = (page[-1][0].seq, page[-1][0].number)
    return check.end(tx.audit.heads([owner]).get(owner, Head(owner)))


# -- export ------------------------------------------------------------------------------------------------------------


def export_audit(world: World, *, owner: str | None = None) -> Iterator[Line]:
    """Yield the lines of an export: every owner's chain, or one, as far as it has come now.

    Each page is a transaction of its own: sealed entries do not change, so that a long export delays no writer. In a
    cluster the chains of each database follow its name.
    """
    if world.cluster is not None:
        from horae.actions.cluster_audit import export_everywhere

        yield from export_everywhere(world, owner)
        return
    store = world.route(owner=owner).store

    def read(tx: Tx) -> list[Head]:
        known = tx.audit.heads(None if owner is None else [owner])
        return [known.get(each, Head(each)) for each in (tx.audit.owners() if owner is None else [owner])]

    heads = store.read(read)
    chains, entries = len(heads), sum(head.seq for head in heads)
    yield header_line(world.clock.now(), owner, chains, entries)
    for head in heads:
        yield from export_chain(world, head)
        yield closing_line(head)
    yield last_line(chains, entries)


def export_chain(world: World, head: Head) -> Iterator[Line]:
    """Yield the entries of a chain, up to its head."""
    after = (0, 0)
    while page := _read_page(world, head.owner, after):
        for seal, entry in page:
            if seal.seq > head.seq > 0:  # sealed since the export began
                return
            yield entry_line(seal, entry)
        after = (page[-1][0].seq, page[-1][0].number)


def _read_page(world: World, owner: str, after: tuple[int, int]) -> list[tuple[Seal, Entry]]:
    return world.route(owner=owner).store.read(lambda tx: tx.audit.chain(owner, after=after, limit=PAGE))
