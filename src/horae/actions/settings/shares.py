"""Divide limits and budgets of the house anew when databases begin or cease to keep something.

There is no leader. Each database goes two steps, each of them a transaction of its own (:class:`Division`): it lowers
its share at once, and raises it when every other database that keeps something goes by the same division. One that is
away keeps the others from raising theirs, not from working. Any process may do the steps of any database, as often as
it likes: who dies in the middle leaves shares that are too low, until the next look of a keeper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from horae.actions.settings.budgets import apply_budget, figures_of
from horae.actions.settings.decisions import apply_setting, cluster_of, keeping
from horae.actions.settings.divisions import lock_division, put_division, read_division
from horae.actions.shards import AWAY
from horae.core.cluster.settings import SHARED, Division, Portion, SharedSetting, portion_of

if TYPE_CHECKING:
    from horae.actions.settings.decisions import Copied
    from horae.ports.store import Tx
    from horae.ports.world import World


def redivide(world: World, number: int) -> int:
    """Take both steps of one database, as far as the others allow; return how many settings have another share."""
    own, done = _lower(world, number)
    if not own.portion.is_interim or own.keepers != tuple(keeping(world)) or not _have_all_lowered(world, number, own):
        return done
    store = cluster_of(world).store_of(number)

    def write(tx: Tx) -> bool:
        if lock_division(tx) != own:  # another process was faster, or has a newer map
            return False
        put_division(tx, number, own.raised())
        return True

    return done + _apply_all(world, number) if store.transact(write) else done


def is_divided(world: World, number: int) -> bool:
    """Return whether a database has the shares that the map gives it."""
    found = cluster_of(world).store_of(number).read(read_division)
    return found is not None and found.keepers == tuple(keeping(world)) and not found.portion.is_interim


def apply_shared(world: World, number: int, setting: SharedSetting) -> Copied:
    """Apply a share again; of a budget with what others have noted about the present period."""
    if setting.kind != "budget":
        return apply_setting(world, number, setting)
    figures = figures_of(world, number, setting)
    return apply_setting(world, number, setting, lambda shard, each, part: apply_budget(shard, each, part, figures))


def _lower(world: World, number: int) -> tuple[Division, int]:
    """Take the first step in one database, unless it goes by this map or a newer one; return how it divides now."""
    cluster = cluster_of(world)
    version, keepers = cluster.shard_map.version, tuple(keeping(world))
    store = cluster.store_of(number)

    def is_known(found: Division | None) -> bool:
        return found is not None and (found.keepers == keepers or found.version >= version)

    def write(tx: Tx) -> Division:
        found = lock_division(tx) or _first_division(number, keepers)
        if is_known(found):
            return found
        made = found.lowered(number, version, keepers)
        put_division(tx, number, made)
        return made

    found = store.read(read_division)
    division = found if found is not None and is_known(found) else store.transact(write)
    return division, _apply_all(world, number)


def _first_division(number: int, keepers: tuple[int, ...]) -> Division:
    """Return what a database has that has never divided: nothing where it is new, its share where it is not."""
    return Division(0, (), portion_of(number, keepers) if number in keepers else Portion(-1))


def _have_all_lowered(world: World, number: int, own: Division) -> bool:
    """Lower the shares of all others; return whether each that keeps something has lowered them."""
    for member in cluster_of(world).shard_map.members:
        if member.number == number:
            continue
        try:
            theirs, _ = _lower(world, member.number)
            is_lowered = theirs.keepers == own.keepers and not _find_unapplied(world, member.number)
        except AWAY:
            is_lowered = False
        if not is_lowered and member.number in own.keepers:
            return False
    return True


def _find_unapplied(world: World, number: int) -> list[SharedSetting]:
    """Return the settings of one database that hold there with another share than it has now."""

    def read(tx: Tx) -> list[SharedSetting]:
        division = read_division(tx)
        if division is None:
            return []
        heads = {key: head for key, head in tx.settings.heads().items() if key[0] in SHARED}
        return tx.settings.find([key for key, head in heads.items() if head.applied != division.portion.text])

    return cluster_of(world).store_of(number).read(read)


def _apply_all(world: World, number: int) -> int:
    return sum(not apply_shared(world, number, each).is_refused for each in _find_unapplied(world, number))
