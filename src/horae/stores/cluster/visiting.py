"""The databases of a cluster one after the other, whatever the revision of their tables: for migrations and copies.

Nothing is opened as a store that serves: no table is made and none is demanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from sqlalchemy import Engine, inspect

from horae.core.cluster.shard_map import Member, ShardMap
from horae.core.dataclass import dataclass
from horae.core.timeouts import Timeouts
from horae.errors import ConfigurationError, HoraeError, StoreUnavailable
from horae.ports.cluster import Standing
from horae.stores.cluster.addresses import full_url
from horae.stores.cluster.rows import ClusterRows
from horae.stores.opening import create_store_engine, read_url, sqlite_path, store_on
from horae.stores.schema import translate_errors
from horae.stores.store import SqlStore
from horae.stores.tables.cluster import cluster

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit(Generic[T]):
    """What was done in a database of a cluster; None: it was not, because of *problem*."""

    member: Member
    url: str
    result: T | None = None
    problem: HoraeError | None = None


def read_copy(engine: Engine) -> tuple[Standing, ShardMap] | None:
    """Return what a database is in a cluster, and its copy of the map; None where it is in none."""
    with translate_errors(), engine.connect().execution_options(horae_reading=True) as connection:
        if not inspect(connection).has_table(cluster.name):
            return None
        rows = ClusterRows(connection)
        standing, shard_map = rows.standing(), rows.read_map()
        return None if standing is None or shard_map is None else (standing, shard_map)


def refuse_missing(url: str) -> None:
    """Refuse a file that is not there: asking it would make an empty one in its place."""
    path = sqlite_path(read_url(url))
    if path is not None and not path.exists():
        raise StoreUnavailable("database_unreachable", problem=f"there is no file at {path}")


class Visitor:
    """Goes from the database that was named to the others of its cluster."""

    def __init__(self, url: str, given: Mapping[str, str], timeouts: Timeouts | None = None) -> None:
        self.url = url
        self._given = given
        self._timeouts = timeouts

    def look(self) -> tuple[Standing, ShardMap] | None:
        """Return what the named database is in a cluster; None where it is in none."""
        return self._at(self.url, lambda store: store.run_with_retry(lambda: read_copy(store.engine)))

    def visit(self, work: Callable[[Member, SqlStore], T], begin: Callable[[Member], None]) -> Iterator[Visit[T]]:
        """Do *work* in the named database, then in each other of its cluster; *begin* is told before.

        One that does not answer, or is another than the map says, is yielded with its problem, and the others are
        visited. A database that only a newer copy of the map names is visited as well.
        """
        found = self.look()
        if found is None:
            raise ConfigurationError("cluster_missing")
        standing, shard_map = found
        done = list[int]()
        while waiting := [each for each in shard_map.members if each.number not in done]:
            named = abs(standing.number)
            member = next((each for each in waiting if each.number == named), waiting[0])
            done.append(member.number)
            url = self.url if member.number == named else full_url(member, self.url, self._given)
            begin(member)
            try:
                result, newer = self._at(url, lambda store: self._work(member, store, work))  # noqa: B023
            except HoraeError as problem:
                yield Visit(member, url, problem=problem)
                continue
            shard_map = newer if newer.version > shard_map.version else shard_map
            yield Visit(member, url, result)

    def _work(self, member: Member, store: SqlStore, work: Callable[[Member, SqlStore], T]) -> tuple[T, ShardMap]:
        found = store.run_with_retry(lambda: read_copy(store.engine))
        if found is None or abs(found[0].number) != member.number:
            is_what = "no member" if found is None else f"number {found[0].number}"
            raise ConfigurationError("cluster_member_wrong", member=member.name, found=is_what, number=member.number)
        return work(member, store), found[1]

    def _at(self, url: str, work: Callable[[SqlStore], T]) -> T:
        refuse_missing(url)
        store = store_on(create_store_engine(url, timeouts=self._timeouts), self._timeouts)
        try:
            return work(store)
        finally:
            store.close()
