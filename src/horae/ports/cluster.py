"""A cluster of databases: the rows of its map in each of them, and the way to the one that keeps something."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import Member, ShardMap, VshardState
    from horae.ports.store import Store
    from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class Standing:
    """What a database says of itself: its number in the cluster and the version of its copy of the map."""

    number: int
    version: int


class ClusterRows(Protocol):
    """The map of a cluster in one of its databases."""

    def standing(self) -> Standing | None:
        """Return what this database is in a cluster; None: it is in none."""

    def read_map(self) -> ShardMap | None: ...
    def join(self, shard_map: ShardMap, number: int) -> None:
        """Make this database a member: its copy of the map, its number, and sequences that begin there."""

    def replace_map(self, shard_map: ShardMap, *, expected: int) -> bool:
        """Write a new version where the copy still has the version *expected*; return whether that was so.

        In the first database this decides which of two changes wins.
        """

    def copy_map(self, shard_map: ShardMap) -> bool:
        """Write a version that the first database has decided on, where the copy is older; return whether it was."""

    def mark(self, vshards: Collection[int], state: VshardState) -> None:
        """Lock these virtual shards exclusively and set their state; waits for writers, a bounded time."""

    def marked(self) -> list[int]:
        """Return the virtual shards of this database that are marked as moving."""

    def is_unused(self) -> bool:
        """Return whether nothing is stored here that belongs to a virtual shard other than the home."""


class Shards(Protocol):
    """The databases of a cluster, as a process sees them."""

    @property
    def shard_map(self) -> ShardMap:
        """The map as this process knows it; a newer one is read when a database refuses this one."""

    def bind(self, world: World, vshard: int) -> World:
        """Return the world of one virtual shard: its store follows the shard from database to database."""

    def whole(self, world: World, number: int) -> World:
        """Return the plain world of a database; of the opened one where the cluster does not know the number."""

    def worlds(self, world: World) -> Sequence[tuple[Member, World]]:
        """Return a plain world for each database that keeps something, by number."""

    def opened(self, world: World) -> World:
        """Return the plain world of the database that this process was told of."""

    def further(self, world: World) -> Callable[[], list[World]]:
        """Return what finds the plain worlds of the other databases that keep something: those that it has not
        returned yet and that answer. It reads the map again.
        """

    def store_of(self, number: int) -> Store:
        """Return the store of a database, opened on first use."""

    def refresh(self) -> ShardMap:
        """Read the map again."""
