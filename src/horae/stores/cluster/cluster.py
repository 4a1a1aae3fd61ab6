"""The databases of a cluster, opened when they are first needed, and the way from a name to the right one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from horae.core.cluster.numbers import FIRST_NUMBER, read_number
from horae.core.cluster.shard_map import HOME, Member, ShardMap
from horae.core.timeouts import Timeouts
from horae.errors import ConfigurationError, HoraeError
from horae.stores.cluster.addresses import full_url
from horae.stores.cluster.shard import Shard
from horae.stores.cluster.visiting import refuse_missing
from horae.stores.cluster.vshard_store import VshardStore
from horae.stores.opening import create_store_engine, open_store
from horae.stores.store import SqlStore

if TYPE_CHECKING:
    from horae.ports.cluster import Standing
    from horae.ports.store import Store, Tx
    from horae.ports.world import Clock, World
    from horae.stores.cluster.joined import JoinedDatabase
    from horae.stores.cluster.named import NamedStore

JOB = "job_"
log = logging.getLogger("horae.cluster")
MakeClock = Callable[[SqlStore], "Clock"]


class Opening:
    """One database that is being opened: who waits for that shares its failure, so that none waits for two of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failures = 0
        self.problem: HoraeError | None = None


def check_standing(standing: Standing | None, member: Member, *, held_too: bool = False) -> None:
    """Refuse a database that is not the member that the map names, or was restored and does not fit the others yet."""
    if standing is not None and abs(standing.number) == member.number:
        if standing.is_held and not held_too:
            raise ConfigurationError("cluster_member_restored", member=member.name)
        return
    found = "no member" if standing is None else f"number {standing.number}"
    raise ConfigurationError("cluster_member_wrong", member=member.name, found=found, number=member.number)


class Cluster:
    """Routes to the databases of a cluster; the port ``Shards``."""

    def __init__(
        self,
        first: SqlStore,
        shard_map: ShardMap,
        number: int,
        *,
        urls: Mapping[str, str],
        make_clock: MakeClock,
        pause: Callable[[float], None],
        timeouts: Timeouts | None = None,
        held_too: bool = False,
    ) -> None:
        self._held_too = held_too
        self._map = shard_map
        self._urls = urls
        self._make_clock = make_clock
        self._timeouts = timeouts
        self._lock = threading.Lock()
        self._openings: dict[int, Opening] = {}  # each by itself: one that is away keeps no other waiting
        self._first, self._number = first, number
        self._stores: dict[int, SqlStore] = {number: first}
        self._clocks: dict[int, Clock] = {}
        self._bound: dict[int, tuple[World, World]] = {}  # of each virtual shard: made of which world, the bound one
        self._forwards: dict[int, int] = {}
        self._token_hints: dict[str, int] = {}
        self.silences: dict[int, tuple[float, Exception]] = {}
        self.pause = pause
        first.shard = Shard(first.dialect, number, lambda: self.shard_map)

    # -- the map -----------------------------------------------------------------------------------------------

    @property
    def shard_map(self) -> ShardMap:
        return self._map

    @property
    def number(self) -> int:
        return self._number

    def refresh(self) -> ShardMap:
        """Read the map again from the first database, where every new version is written first."""
        store = self.store_of(self._map.members[0].number)

        def read(tx: Tx) -> ShardMap | None:
            standing = tx.cluster.standing()
            return None if standing is None or standing.version <= self._map.version else tx.cluster.read_map()

        self._adopt(store.read(read))
        return self._map

    # -- the databases -----------------------------------------------------------------------------------------

    def store_of(self, number: int) -> SqlStore:
        """Return the store of a database, opened on first use."""
        known = self._stores.get(number)
        if known is not None:
            return known
        with self._lock:
            opening = self._openings.setdefault(number, Opening())
        failures = opening.failures
        with opening.lock:
            if opening.problem is not None and opening.failures > failures:  # it was tried while this call waited
                raise opening.problem
            if number not in self._stores:
                try:
                    self._stores[number] = self._open(self._map.member(number))
                except HoraeError as problem:
                    opening.failures, opening.problem = opening.failures + 1, problem
                    raise
            return self._stores[number]

    def _open(self, member: Member) -> SqlStore:
        url = full_url(member, self._first.engine.url.render_as_string(hide_password=False), self._urls)
        refuse_missing(url)
        store = open_store(create_store_engine(url, timeouts=self._timeouts), self._timeouts)
        try:
            standing = store.read(lambda tx: tx.cluster.standing())
            check_standing(standing, member, held_too=self._held_too)
            assert standing is not None
            if standing.version > self._map.version:  # a copy follows the first database, unless that was restored
                self._adopt(store.read(lambda tx: tx.cluster.read_map()))
        except BaseException:
            store.close()
            raise
        store.shard = Shard(store.dialect, member.number, lambda: self.shard_map)
        return store

    def _adopt(self, found: ShardMap | None) -> None:
        """Go by the highest version that any database has: none is written anywhere before it was decided on."""
        if found is not None and found.salt == self._map.salt and found.version > self._map.version:
            self._map = found

    def close(self) -> None:
        """Close every database that was opened."""
        for store in list(self._stores.values()):
            store.close()

    def forward(self, id: str | None) -> int | None:  # noqa: A002
        """Ask the first database for a job from before the cluster; what it answered stays true."""
        number = None if id is None or not id.startswith(JOB) else read_number(id.removeprefix(JOB).partition(".")[0])
        if number is None or number >= FIRST_NUMBER:
            return None
        if number not in self._forwards:
            first = self.store_of(self._map.members[0].number)
            vshard = first.read(lambda tx: tx.parcels.forward(number))
            if vshard is None:
                return None
            self._forwards[number] = vshard
        return self._forwards[number]

    @property
    def token_hints(self) -> dict[str, int]:
        return self._token_hints

    # -- the way to them ---------------------------------------------------------------------------------------

    def worlds(self, world: World) -> Sequence[tuple[Member, World]]:
        counts = self._map.counts
        return [(each, self.whole(world, each.number)) for each in self._map.members if counts[each.number]]

    def opened(self, world: World) -> World:
        return self.whole(world, self._number)

    def further(self, world: World) -> Callable[[], list[World]]:
        known, away = {self._number}, set[int]()

        def find() -> list[World]:
            with suppress(HoraeError):  # the known map does while the first database is away
                self.refresh()
            found = []
            for member in self._map.sharded:
                if member.number in known:
                    continue
                try:
                    found.append(self.whole(world, member.number))
                    known.add(member.number)
                except HoraeError as problem:
                    if member.number not in away:
                        log.warning("database %s of the cluster is not served yet: %s", member.name, problem)
                    away.add(member.number)
            return found

        return find

    def home(self) -> Store:
        """Return the store of the home, which everything of the house without a key shares."""
        return cast("Store", VshardStore(self, HOME))

    def bind(self, world: World, vshard: int) -> World:
        """Return the world of one virtual shard; the same one for the same world."""
        known = self._bound.get(vshard)
        if known is not None and known[0] is world:
            return known[1]
        bound = replace(world, store=cast("Store", VshardStore(self, vshard)), cluster=None)
        self._bound[vshard] = (world, bound)
        return bound

    def whole(self, world: World, number: int) -> World:
        """Return the world of a whole database, with the clock of that database."""
        known = number if any(each.number == number for each in self._map.members) else self._number
        return replace(world, store=cast("Store", self.store_of(known)), clock=self.clock_of(known), cluster=None)

    def clock_of(self, number: int) -> Clock:
        """Return the clock that follows a database."""
        clock = self._clocks.get(number)
        if clock is None:
            clock = self._clocks[number] = self._make_clock(self.store_of(number))
        return clock

    def opened_stores(self) -> dict[int, SqlStore]:
        """Return the stores that were opened, by the number of their database."""
        return dict(self._stores)

    def join(self, connection: Any) -> JoinedDatabase:
        """Return the member of this cluster that a caller's transaction is in; refuse any other database."""
        from horae.stores.cluster.joined import JoinedDatabase

        return JoinedDatabase(self, connection)

    def named(self, name: str) -> NamedStore:
        """Return the store of what lives by its name alone, as locks and rate limits do."""
        from horae.stores.cluster.named import NamedStore

        return NamedStore(self, name)
