"""The map of a cluster in one database: rows to a value and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby

from sqlalchemy import Connection, delete, exists, insert, select, text, update

from horae.core.cluster.assignment import Holding
from horae.core.cluster.numbers import DATABASE_BITS, first_draw
from horae.core.cluster.shard_map import Member, ShardMap, VshardState
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import instant, micros
from horae.errors import ConfigurationError
from horae.ports.cluster import Standing
from horae.stores.cluster.classes import CLASSES, Moves
from horae.stores.cluster.shard import OWNED, SEQUENCE
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.cluster import cluster, members, serving, vshards

ONE = 1  # the id of the only row
NUMBERED = "_numbered"  # how the triggers that refuse an insert without a number end
MOVING: VshardState = "moving"
CHUNK = 500


class ClusterRows:
    """The map of a cluster inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    def standing(self) -> Standing | None:
        row = self.connection.execute(select(cluster.c.number, cluster.c.version)).first()
        return None if row is None else Standing(row.number, row.version)

    def read_map(self) -> ShardMap | None:
        head = self.connection.execute(select(cluster)).first()
        if head is None:
            return None
        rows = self.connection.execute(select(members).order_by(members.c.number))
        known = [Member(row.number, row.name, row.address, bool(row.takes_shards)) for row in rows]
        places = self.connection.execute(select(vshards.c.place).order_by(vshards.c.vshard)).scalars()
        return ShardMap(head.version, bytes.fromhex(head.salt), tuple(known), tuple(places), head.next_number)

    # -- joining -----------------------------------------------------------------------------------------------

    def join(self, shard_map: ShardMap, number: int) -> None:
        if not (self.dialect.arrays or self.dialect.last_number):
            raise ConfigurationError("cluster_database_unsupported", kind=self.dialect.name)
        self.connection.execute(
            insert(cluster),
            {"id": ONE, "number": number, "version": shard_map.version, "salt": shard_map.salt.hex(),
             "next_number": shard_map.next_number, "drawn": first_draw(number)},
        )  # fmt: skip
        rows = [{"vshard": vshard, "place": place, "state": OWNED} for vshard, place in enumerate(shard_map.places)]
        self.connection.execute(insert(vshards), rows)
        self._write_members(shard_map)
        self._begin_numbers(number)

    def _begin_numbers(self, number: int) -> None:
        """Let every table draw numbers of this database, and none of what moves without a virtual shard.

        A process that was started before this database joined names none, and is refused.
        """
        from horae.stores.metadata import metadata

        if self.dialect.arrays:
            begin = first_draw(number) + 1
            self.connection.exec_driver_sql(f"CREATE SEQUENCE {SEQUENCE} AS bigint MINVALUE {begin} START {begin}")
        for table in metadata.sorted_tables:
            if table.autoincrement_column is None:
                continue
            kind = CLASSES[table.name]
            if isinstance(kind, Moves) and kind.by != "name":
                self._refuse_unnumbered(table.name)
                continue
            for statement in self.dialect.continue_after:
                numbered = statement.format(table=table.name, number=number << DATABASE_BITS)
                self.connection.exec_driver_sql(numbered)

    def _refuse_unnumbered(self, table: str) -> None:
        """Refuse rows of a table whose numbers carry a virtual shard, where none is given."""
        if self.dialect.arrays:
            self.connection.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN id DROP DEFAULT")
            return
        self.connection.exec_driver_sql(
            f"CREATE TRIGGER {table}{NUMBERED} BEFORE INSERT ON {table} WHEN NEW.id IS NULL OR NEW.id < 1 "
            "BEGIN SELECT RAISE(ABORT, 'this database belongs to a cluster; restart this process'); END"
        )

    # -- new versions ------------------------------------------------------------------------------------------

    def replace_map(self, shard_map: ShardMap, *, expected: int) -> bool:
        given = {"version": shard_map.version, "next_number": shard_map.next_number}
        done = self.connection.execute(update(cluster).where(cluster.c.version == expected).values(given))
        if done.rowcount != 1:
            return False
        self._write_members(shard_map)
        self._write_places(shard_map)
        return True

    def copy_map(self, shard_map: ShardMap) -> bool:
        standing = self.standing()
        return (
            standing is not None
            and standing.version < shard_map.version
            and self.replace_map(shard_map, expected=standing.version)
        )

    def _write_members(self, shard_map: ShardMap) -> None:
        self.connection.execute(delete(members))
        rows = [
            {"number": each.number, "name": each.name, "address": each.address, "takes_shards": int(each.takes_shards)}
            for each in shard_map.members
        ]
        self.connection.execute(insert(members), rows)

    def _write_places(self, shard_map: ShardMap) -> None:
        """Write what differs, each row locked until the commit; what was moved is owned by its new database."""
        known = self.connection.execute(select(vshards.c.place).order_by(vshards.c.vshard)).scalars().all()
        changed = [each for each, (old, new) in enumerate(zip(known, shard_map.places, strict=True)) if old != new]
        for place, chosen in groupby(sorted(changed, key=shard_map.database_of), key=shard_map.database_of):
            for chunk in _chunks(chosen):
                moved = update(vshards).where(vshards.c.vshard.in_(chunk))
                self.connection.execute(moved.values(place=place, state=OWNED))
        self._wait_for_parcels(changed)

    def _wait_for_parcels(self, changed: Collection[int]) -> None:
        """Keep the virtual shards closed whose rows are still on the way to this database."""
        from horae.stores.cluster.parcels import Parcels

        standing = self.standing()
        number = 0 if standing is None else standing.number
        coming = {vshard for each in Parcels(self.connection).expected() for vshard in each.vshards}
        own = vshards.c.place == number
        for chunk in _chunks(sorted(coming.intersection(changed))):
            self.connection.execute(update(vshards).where(vshards.c.vshard.in_(chunk), own).values(state=MOVING))

    # -- moving ------------------------------------------------------------------------------------------------

    def mark(self, numbers: Collection[int], state: VshardState) -> None:
        for chunk in _chunks(sorted(numbers)):
            self.connection.execute(update(vshards).where(vshards.c.vshard.in_(chunk)).values(state=state))

    def marked(self) -> list[int]:
        own = select(cluster.c.number).scalar_subquery()
        query = select(vshards.c.vshard).where(vshards.c.place == own, vshards.c.state == MOVING)
        return list(self.connection.execute(query.order_by(vshards.c.vshard)).scalars())

    def kept(self, numbers: Collection[int]) -> set[int]:
        own = select(cluster.c.number).scalar_subquery()
        query = select(vshards.c.vshard).where(vshards.c.place == own, vshards.c.state == OWNED)
        found = (self.connection.execute(query.where(vshards.c.vshard.in_(few))) for few in _chunks(numbers))
        return {vshard for each in found for vshard in each.scalars()}

    def is_unused(self) -> bool:
        from horae.stores.metadata import metadata

        machinery = text(f"queue <> '{MACHINERY}'")
        for table in metadata.sorted_tables:
            if table.name in ("horae_jobs", "horae_runs"):
                used = select(exists(select(text("1")).select_from(table).where(machinery)))
            elif table.name in ("horae_keys", "horae_schedules"):
                used = select(exists(select(text("1")).select_from(table)))
            elif "owner" in table.c:
                used = select(exists(select(text("1")).select_from(table).where(table.c.owner != SYSTEM)))
            else:
                continue
            if self.connection.execute(used).scalar_one():
                return False
        return True

    # -- who serves this database ------------------------------------------------------------------------------

    def holdings(self) -> list[Holding]:
        columns = (serving.c.queue, serving.c.worker, serving.c.leased_until, serving.c.is_chosen)
        rows = self.connection.execute(select(*columns))
        return [Holding(queue, worker, instant(until), bool(is_chosen)) for queue, worker, until, is_chosen in rows]

    def hold(self, worker: str, held: Sequence[Holding]) -> None:
        self.connection.execute(delete(serving).where(serving.c.worker == worker))
        rows = [
            {"queue": each.queue, "worker": worker, "leased_until": micros(each.leased_until),
             "is_chosen": int(each.is_chosen)}
            for each in held
        ]  # fmt: skip
        if rows:
            self.connection.execute(insert(serving), rows)

    def forget_holdings(self, before: datetime) -> None:
        self.connection.execute(delete(serving).where(serving.c.leased_until < micros(before)))


def _chunks(given: Iterable[int]) -> Iterable[list[int]]:
    wanted = list(given)
    return (wanted[start : start + CHUNK] for start in range(0, len(wanted), CHUNK))
