"""The databases that answer now: schedules are brought in line there, and in the others when they are back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from horae.actions.schedules.schedules import iterate
from horae.actions.shards import ask_each
from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import ShardMap
    from horae.core.schedules.schedule import Schedule
    from horae.ports.schedules import ScheduleFilter
    from horae.ports.world import World

ALONE = 0  # the number of a database that is in no cluster


@dataclass(frozen=True, slots=True)
class Answering:
    """The plain worlds of databases that answer, by number, and the names of those that do not."""

    worlds: Mapping[int, World]
    away: tuple[str, ...] = ()

    def iterate(self, wanted: ScheduleFilter) -> Iterator[Schedule]:
        """Yield all matching schedules of these databases."""
        for world in self.worlds.values():
            yield from iterate(world, wanted)

    def placed(self, world: World, schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
        """Return those of declared schedules that can be written now.

        One that follows another, however far, is checked where those are: it waits for their database, too.
        """
        shard_map = world.shard_map
        if not self.away or shard_map is None:
            return tuple(schedules)
        by_key = {each.key: each for each in schedules}
        return tuple(each for each in schedules if self._is_here(shard_map, each.key, by_key, set()))

    def _is_here(self, shard_map: ShardMap, key: str, by_key: Mapping[str, Schedule], seen: set[str]) -> bool:
        if key in seen:
            return True
        seen.add(key)
        if shard_map.database_of(shard_map.vshard_of(key=key)) not in self.worlds:
            return False
        leaders = by_key[key].after if key in by_key else ()
        return all(self._is_here(shard_map, each, by_key, seen) for each in leaders)


def find_answering(world: World) -> Answering:
    """Ask each database of a cluster for a sign of life; where none answers, that is an error."""
    if world.cluster is None:
        return Answering({ALONE: world})
    found, away = ask_each(world, lambda shard, _: (shard, shard.route().store.read(lambda tx: tx.cluster.standing())))
    return Answering({number: shard for number, (shard, _) in found.items()}, away)
