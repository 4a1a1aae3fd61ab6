"""A database of a cluster that was restored from a copy: closed to everybody until it fits the others again.

It is *held* by a negative number: a process that opens it finds another member than the map says and leaves it alone,
and every insert is refused. One transaction makes it fit and opens it.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, Table, delete, func, select, text, tuple_, update

from horae.core.cluster.moves import Cargo, Parcel
from horae.core.cluster.numbers import DATABASE_BITS, FIRST_DATABASE, VSHARD_BITS, first_draw
from horae.core.cluster.restore import SKIPPED_DRAWS, SKIPPED_NUMBERS, RestorePlan, Settled
from horae.errors import StoreError
from horae.stores.backup import JUMP
from horae.stores.cluster.cargo import CargoRows
from horae.stores.cluster.classes import CLASSES, Copied, Moves
from horae.stores.cluster.parcels import MOVING, OWNED, Parcels, forms_of
from horae.stores.cluster.rows import ClusterRows
from horae.stores.cluster.shard import SEQUENCE
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.sqlite import LONG_AGO
from horae.stores.metadata import metadata
from horae.stores.tables.cluster import cluster, vshards
from horae.stores.tables.jobs import jobs, keys, runs
from horae.stores.tables.messages import arrivals
from horae.stores.tables.messages import messages as sent

STRAYS = "strays"  # the name of rows that are about to be forgotten
CHUNK = 400
HELD = -1


class Restoring:
    """What a restored database does inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]
        self.parcels = Parcels(connection)

    def hold(self) -> None:
        """Close this database until :meth:`settle`."""
        self.connection.execute(update(cluster).values(number=func.abs(cluster.c.number) * HELD))

    def highest(self, number: int) -> dict[str, int]:
        """Return the highest numbers that a database has drawn, as far as rows of this one tell, by table."""
        low, high = number << DATABASE_BITS, (number + 1) << DATABASE_BITS
        found: dict[str, int] = {}
        columns = [(table.name, table.autoincrement_column) for table in _numbered()]
        further = (runs.c.job_id, keys.c.job_id, arrivals.c.number, sent.c.receiver)
        for name, column in (*columns, *((jobs.name, each) for each in further)):
            assert column is not None
            known = self.connection.execute(select(func.max(column)).where(column >= low, column < high)).scalar()
            if known is not None:
                found[name] = max(found.get(name, 0), int(known))
        return found

    def settle(self, plan: RestorePlan) -> Settled:
        """Make this database fit the others and open it; all or nothing."""
        self.connection.execute(update(cluster).values(number=plan.number))
        running = self._fence()
        self._skip_numbers(plan)
        ClusterRows(self.connection).copy_map(plan.shard_map)
        kept = self._sort_parcels(plan)
        self._open_own(plan, kept)
        sent = sum(self._send(plan, each) for each in plan.awaited if each.id not in {one.id for one in kept})
        return Settled(running, self._forget_strays(plan), sent)

    # -- numbers and tokens ------------------------------------------------------------------------------------

    def _fence(self) -> int:
        """Let no token of before count, and no lease go on; return how many attempts were under way."""
        lanes, nodes = metadata.tables["horae_lanes"], metadata.tables["horae_nodes"]
        self.connection.execute(update(jobs).values(token=jobs.c.token + JUMP))
        self.connection.execute(update(lanes).where(lanes.c.leased_until.is_not(None)).values(leased_until=LONG_AGO))
        self.connection.execute(delete(nodes))
        under_way = update(jobs).where(jobs.c.state == "running").values(leased_until=LONG_AGO)
        return self.connection.execute(under_way).rowcount

    def _skip_numbers(self, plan: RestorePlan) -> None:
        """Draw from now on above everything that was ever given: what is known, and a wide gap."""
        for table in _numbered():
            if table is not jobs:
                own = self.connection.execute(text(self.dialect.drawn_number.format(table=table.name))).scalar()
                begin = plan.number << DATABASE_BITS
                above = max(int(own or 0), begin, plan.highest.get(table.name, 0)) + SKIPPED_NUMBERS
                for statement in self.dialect.continue_after:
                    self.connection.execute(text(statement.format(table=table.name, number=above)))
        drawn = f"SELECT last_value FROM {SEQUENCE}" if self.dialect.arrays else "SELECT drawn FROM horae_cluster"
        own = int(self.connection.execute(text(drawn)).scalar_one())
        above = max(own, plan.highest.get(jobs.name, 0) >> VSHARD_BITS) + SKIPPED_DRAWS
        if above >= first_draw(plan.number + 1):
            raise StoreError("cluster_draws_used_up", number=plan.number)
        if self.dialect.arrays:
            self.connection.execute(text(f"SELECT setval('{SEQUENCE}', {above})"))
        else:
            self.connection.execute(update(cluster).values(drawn=above))

    # -- what was on the way -----------------------------------------------------------------------------------

    def _sort_parcels(self, plan: RestorePlan) -> list[Parcel]:
        """Put back what no other database waits for, announce what comes; return the parcels that stay packed."""
        awaited, coming = {each.id for each in plan.awaited}, {each.id for each in plan.coming}
        kept = []
        for parcel in self.parcels.packed():
            if parcel.id in awaited:
                kept.append(parcel)
                continue
            for name, rows in self.parcels.content(parcel):
                self.parcels.write(forms_of(Moves, Copied)[name], json.loads(rows))
            self.parcels.discard(parcel)
        for parcel in self.parcels.expected():
            if parcel.id not in coming:
                self.parcels.discard(parcel)
        for parcel in plan.coming:
            self.parcels.expect(parcel)
        return kept

    def remove_same(self, content: Collection[tuple[str, str]]) -> None:
        """Delete the rows that a parcel brings anew."""
        for name, rows in content:
            form = forms_of(Moves, Copied)[name]
            kind = CLASSES[form.table.name]
            if isinstance(kind, Copied):  # unpacked beside what is here, unless that is newer
                continue
            key = list(form.key)
            if isinstance(kind, Moves) and kind.by == "name":  # their numbers may be those of others here
                key = [form.table.c[kind.column]]
            found = [tuple(row[column.name] for column in key) for row in json.loads(rows)]
            for start in range(0, len(found), CHUNK):
                same = tuple_(*key).in_(found[start : start + CHUNK])
                self.connection.execute(delete(form.table).where(same))

    def _open_own(self, plan: RestorePlan, kept: Collection[Parcel]) -> None:
        """Close the shards whose rows are on the way, and open all others that this database keeps."""
        closed = {vshard for each in (*kept, *plan.coming) for vshard in each.vshards}
        own = vshards.c.place == plan.number
        self.connection.execute(update(vshards).values(state=OWNED))
        for chunk in _chunks(closed):
            self.connection.execute(update(vshards).where(own, vshards.c.vshard.in_(chunk)).values(state=MOVING))

    # -- rows of shards that have left ---------------------------------------------------------------------------

    def _send(self, plan: RestorePlan, parcel: Parcel) -> int:
        """Pack what another database still waits for, where the map has given it the shards; return how many rows."""
        if {plan.shard_map.database_of(each) for each in parcel.vshards} != {parcel.target}:
            return 0  # the shards are here still: what was announced there is never sent
        return self._take_out(plan, parcel)

    def _forget_strays(self, plan: RestorePlan) -> int:
        """Delete rows of shards that other databases keep: they left with their shard, and would run twice."""
        left = [vshard for vshard, place in enumerate(plan.shard_map.places) if place != plan.number]
        parcel = Parcel(STRAYS, plan.number, plan.number, tuple(left))
        count = self._take_out(plan, parcel)
        self.parcels.discard(parcel)
        return count

    def _take_out(self, plan: RestorePlan, parcel: Parcel) -> int:
        rows = CargoRows(self.connection, Cargo(plan.shard_map, parcel.vshards), is_strict=False)
        count = self.parcels.take_out_all(parcel, rows)
        if plan.number == FIRST_DATABASE:
            self.parcels.keep_forwards(rows.forwards)
        return count


def _numbered() -> list[Table]:
    return [table for table in metadata.sorted_tables if table.autoincrement_column is not None]


def _chunks(values: Collection[int]) -> list[list[int]]:
    wanted = sorted(values)
    return [wanted[start : start + CHUNK] for start in range(0, len(wanted), CHUNK)]
