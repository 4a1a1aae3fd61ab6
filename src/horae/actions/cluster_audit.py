"""The audit of a cluster: each database has a chain of its own for an owner, whole in itself, and keeps it.

The house acts in every database, and a tenant that was moved has acted in several. So chains are verified and exported
database by database, also in those that keep nothing any more but what ended there. One that is away is named: what it
has is neither verified nor exported, and no claim is made about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from horae.actions import audit
from horae.actions.shards import ask_each
from horae.core.audit.chain import Complaint, Head, Verified, kept_head
from horae.core.audit.exports import Line, closing_line, database_line, header_line, last_line

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import Member
    from horae.ports.store import Tx
    from horae.ports.world import World

T = TypeVar("T")


def ask_members(world: World, ask: Callable[[World, Member], T]) -> tuple[dict[str, T], tuple[str, ...]]:
    """Ask every database, also those that keep nothing any more; return answers and the absent, both by name."""
    assert world.cluster is not None
    everyone = {each.number: each for each in world.cluster.shard_map.sharded}
    found, away = ask_each(world, lambda shard, number: ask(shard, everyone[number]), asked=everyone.values())
    return {everyone[number].name: answer for number, answer in found.items()}, away


def seal_everywhere(world: World) -> int:
    """Seal new entries of every database that answers; return how many."""
    return sum(ask_members(world, lambda shard, _: audit.seal_all(shard))[0].values())


def missing_guards(world: World) -> list[str]:
    """Return the parts of the guard against changes that a database which answers does not have."""
    found, _ = ask_members(world, lambda shard, _: audit.missing_guards(shard))
    return sorted({part for each in found.values() for part in each})


def verify_everywhere(
    world: World, owner: str | None, heads: Mapping[str, str]
) -> tuple[list[Verified], tuple[str, ...]]:
    """Check the chains of every database that answers; return them, and the names of the others.

    A head that was kept elsewhere must be in the chain that it names, or where it names no database in any chain of its
    owner; as long as one is away, it may be there.
    """

    def ask(shard: World, member: Member) -> list[Verified]:
        found = shard.route().store.read(lambda tx: _verify(tx, member.name, owner, heads))
        return [replace(each, database=member.name) for each in found]

    answers, away = ask_members(world, ask)
    found = [each for chains in answers.values() for each in chains]
    return [*found, *_find_lost(world, found, heads, away)], away


def _verify(tx: Tx, database: str, owner: str | None, heads: Mapping[str, str]) -> list[Verified]:
    owners = tx.audit.owners() if owner is None else [each for each in tx.audit.owners() if each == owner]
    return [audit.verify_chain(tx, each, kept_head(heads, database, each)) for each in owners]


def _find_lost(
    world: World, found: Collection[Verified], heads: Mapping[str, str], away: Collection[str]
) -> Iterator[Verified]:
    """Yield a complaint for each kept head that is in no chain, where no database that is away could have it."""
    assert world.cluster is not None
    names = {each.name: each.number for each in world.cluster.shard_map.sharded}
    named = {f"{each.database}:{each.owner}" for each in found}
    for key, link in heads.items():
        database, _, owner = key.partition(":")
        if database in names:
            if key not in named and database not in away:
                yield Verified(owner, 0, "", (Complaint("chain_missing"),), database)
            continue
        chains = [each for each in found if each.owner == key]
        places = [world.cluster.whole(world, names[each.database or ""]) for each in chains]
        if away or any(audit.has_head(shard, key, link) for shard in places):
            continue
        reason = Complaint("kept_head_unknown", {"head": link}) if chains else Complaint("chain_missing")
        yield Verified(key, 0, "", (reason,))


def export_everywhere(world: World, owner: str | None) -> Iterator[Line]:
    """Yield the lines of an export of every database that answers, each with its name; the header names the others."""

    def ask(shard: World, _: Member) -> list[Head]:
        def read(tx: Tx) -> list[Head]:
            owners = [each for each in tx.audit.owners() if owner in (None, each)]
            known = tx.audit.heads(owners)
            return [known.get(each, Head(each)) for each in owners]

        return shard.route().store.read(read)

    found, away = ask_members(world, ask)
    assert world.cluster is not None
    numbers = {each.name: each.number for each in world.cluster.shard_map.sharded}
    chains, entries = sum(map(len, found.values())), sum(head.seq for heads in found.values() for head in heads)
    yield header_line(world.clock.now(), owner, chains, entries, databases=tuple(found), incomplete=away)
    for name, heads in found.items():
        yield database_line(name)
        shard = world.cluster.whole(world, numbers[name])
        for head in heads:
            yield from audit.export_chain(shard, head)
            yield closing_line(head, name)
    yield last_line(chains, entries)
