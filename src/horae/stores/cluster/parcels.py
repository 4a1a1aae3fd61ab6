"""Parcels: the rows of virtual shards on their way from one database to another.

Packing takes the rows out of their tables, in the transaction that closes the shards: from then on no claim, ending,
fire or renewal can meet them here, and whichever process dies, there is never a second copy that could act. Unpacking
writes them in the transaction that opens the shards there and forgets that the parcel was expected, so it happens once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Column, Connection, Row, delete, func, insert, select, text, update

from horae.core.cluster.moves import Attempt, Cargo, Parcel
from horae.core.cluster.numbers import FIRST_DATABASE, FIRST_NUMBER, VSHARDS
from horae.core.cluster.shard_map import ShardMap
from horae.core.jobs.job import SYSTEM
from horae.errors import Conflict
from horae.stores.cluster.cargo import CargoRows
from horae.stores.cluster.classes import CLASSES, Copied, Moves
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver
from horae.stores.jobs.slots import Slots
from horae.stores.metadata import metadata
from horae.stores.tables.attention import lanes
from horae.stores.tables.bus import outbox
from horae.stores.tables.cluster import cluster, forwards, parcel_rows, parcels, vshards
from horae.stores.tables.jobs import jobs
from horae.stores.transfer.rows import Form, form_of

PACKED, EXPECTED = "packed", "expected"
OWNED, MOVING = "owned", "moving"
ROWS = 200  # in one row of a parcel
FREED = ("slot", "closed")  # held for what the other database decides anew
OWN_EVENTS = ("enqueued", "fired")


class Parcels:
    """The parcels of one database, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    # -- what there is -----------------------------------------------------------------------------------------

    def expected(self) -> list[Parcel]:
        return self._find(EXPECTED)

    def packed(self) -> list[Parcel]:
        return self._find(PACKED)

    def _find(self, role: str) -> list[Parcel]:
        rows = self.connection.execute(select(parcels).where(parcels.c.role == role).order_by(parcels.c.id))
        return [Parcel(row.id, row.source, row.target, tuple(json.loads(row.vshards))) for row in rows]

    def content(self, parcel: Parcel) -> list[tuple[str, str]]:
        """Return the rows of a packed parcel: names of tables, and rows as text."""
        query = select(parcel_rows.c.name, parcel_rows.c.content).where(parcel_rows.c.parcel == parcel.id)
        return [(name, rows) for name, rows in self.connection.execute(query.order_by(parcel_rows.c.seq))]

    def forward(self, number: int) -> int | None:
        """Return the virtual shard of a job from before the cluster that has left this database; None: it has not."""
        return self.connection.execute(select(forwards.c.vshard).where(forwards.c.number == number)).scalar()

    def running(self) -> list[Attempt]:
        """Return the attempts that are under way in this database."""
        query = select(jobs.c.id, jobs.c.token, jobs.c.owner).where(jobs.c.state == "running")
        return [Attempt(*row) for row in self.connection.execute(query)]

    def rows_of(self, shard_map: ShardMap) -> Counter[int]:
        """Return about how many rows each virtual shard has here."""
        found = Counter[int]()
        for name, kind in CLASSES.items():
            table = metadata.tables[name]
            if not isinstance(kind, Moves):
                continue
            if "owner" in table.c:
                query = select(table.c.owner, func.count()).where(table.c.owner != SYSTEM).group_by(table.c.owner)
            elif kind.by == "lane":
                joined = table.join(lanes, lanes.c.id == table.c[kind.column])
                query = select(lanes.c.owner, func.count()).select_from(joined).group_by(lanes.c.owner)
            else:
                continue
            for owner, count in self.connection.execute(query):
                found[shard_map.vshard_of(owner=owner)] += count
        vshard = jobs.c.id.bitwise_and(VSHARDS - 1)
        house = select(vshard, func.count()).where(jobs.c.owner == SYSTEM, jobs.c.id >= FIRST_NUMBER).group_by(vshard)
        for number, count in self.connection.execute(house):
            found[number] += count
        return found

    # -- where they go -----------------------------------------------------------------------------------------

    def expect(self, parcel: Parcel) -> None:
        """Announce a parcel where it goes, before it is packed: its shards open here only with its rows."""
        self._note(parcel, EXPECTED)

    def unpack(self, parcel: Parcel, content: Sequence[tuple[str, str]]) -> list[int] | None:
        """Write the rows and open the shards; return the numbers of the jobs, None where that was done before.

        The map must have given the shards to this database.
        """
        found = select(parcels.c.id).where(parcels.c.id == parcel.id, parcels.c.role == EXPECTED).with_for_update()
        if self.connection.execute(found).first() is None:
            return None
        last_event = self.connection.execute(select(func.max(outbox.c.id))).scalar() or 0
        forms = forms_of(Moves, Copied)
        numbers = [number for name, rows in content for number in self.write(forms[name], json.loads(rows))]
        tell = delete(outbox).where(outbox.c.id > last_event, outbox.c.kind.in_(OWN_EVENTS))
        if self._draws_events():  # nothing was enqueued or fired: only rows that were elsewhere are here now
            for name, rows in content:
                self._forget_events(tell, name, json.loads(rows))
        for each in self.expected():
            if set(each.vshards) & set(parcel.vshards):
                self._forget(each)
        if self._set_state(parcel.vshards, MOVING, OWNED) != len(parcel.vshards):
            raise Conflict("vshards_moved_meanwhile", version=0)
        return numbers

    def write(self, form: Form, rows: list[dict[str, Any]]) -> list[int]:
        """Write rows of a parcel into their table; return the numbers of those that are jobs."""
        ready = [form.row_from(0, row) for row in rows]
        kind = CLASSES[form.table.name]
        if isinstance(kind, Copied):
            self._copy(form, ready, form.table.c[kind.version])
            return []
        if isinstance(kind, Moves) and kind.by == "name" and form.table.autoincrement_column is not None:
            for row in ready:  # in their order; their numbers are each database's own
                del row[form.table.autoincrement_column.name]
        if form.table is jobs:
            for row in ready:
                if row["held"] in FREED:
                    row["held"], row["held_for"] = "", None
        self.connection.execute(insert(form.table), ready)
        return [row["id"] for row in ready] if form.table is jobs else []

    def _copy(self, form: Form, rows: list[dict[str, Any]], version: Column[Any]) -> None:
        """Write rows that every database may have, where there is none or an older one."""
        [key] = form.key
        known: dict[Any, int] = {row[0]: row[1] for row in self.connection.execute(select(key, version))}
        new = [row for row in rows if row[key.name] not in known]
        if new:
            self.connection.execute(insert(form.table), new)
        for row in rows:
            if row[version.name] > known.get(row[key.name], row[version.name]):
                self.connection.execute(update(form.table).where(key == row[key.name]).values(row))

    def _draws_events(self) -> bool:
        return self.connection.execute(select(outbox.c.id).limit(1)).first() is not None

    def _forget_events(self, tell: Any, name: str, rows: list[dict[str, Any]]) -> None:
        if name == "jobs":
            numbers = [row["id"] for row in rows]
            self.connection.execute(tell.where(outbox.c.kind == "enqueued", outbox.c.job_id.in_(numbers)))
        elif name == "fires":
            for row in rows:
                same = (outbox.c.fire_at == row["fire_at"], outbox.c.happened_at == row["recorded_at"])
                self.connection.execute(tell.where(outbox.c.kind == "fired", *same))

    # -- where they were ---------------------------------------------------------------------------------------

    def pack(self, parcel: Parcel, cargo: Cargo, *, version: int) -> int:
        """Close the shards and take their rows out of their tables; return how many rows.

        Refused where this database does not keep all of them any more, or the map has changed since *version*.
        """
        found = select(cluster.c.number, cluster.c.version).with_for_update(
            read=True
        )  # the version stays until the end
        standing = self.connection.execute(found).one()
        closed = self._set_state(parcel.vshards, OWNED, MOVING)
        if parcel in self.packed():  # the commit was not heard of, and this repeats it
            return 0
        if standing.version != version or standing.number != parcel.source or closed != len(parcel.vshards):
            raise Conflict("vshards_moved_meanwhile", version=standing.version)
        rows = CargoRows(self.connection, cargo)
        rows.lock()
        rows.refuse_what_cannot_go()
        count = self.take_out_all(parcel, rows)
        if standing.number == FIRST_DATABASE:
            self.keep_forwards(rows.forwards)
        return count

    def take_out_all(self, parcel: Parcel, rows: CargoRows) -> int:
        """Take rows out of their tables into a packed parcel; return how many."""
        taken, count = sorted(rows.jobs), 0
        found = [(form, list(rows.conditions(form.table))) for form in forms_of(Moves).values()]
        self._note(parcel, PACKED)
        for form, conditions in found:
            for condition in conditions:
                count += self._take_out(parcel, form, condition)
        for form in forms_of(Copied).values():
            self._keep(parcel, form, self.connection.execute(select(*form.columns.values())).all())
        for start in range(0, len(taken), ROWS):  # slots of limits are this database's own: others may have them now
            Slots(self.dialect).give_back(CallerDriver(self.connection), taken[start : start + ROWS])
        return count

    def _take_out(self, parcel: Parcel, form: Form, condition: Any) -> int:
        query = select(*form.columns.values()).where(condition).order_by(*form.key)
        found = self.connection.execute(query.with_for_update()).all()
        self._keep(parcel, form, found)
        gone = self.connection.execute(delete(form.table).where(condition)).rowcount
        if gone != len(found):  # a writer that enters no shard was faster: nothing of this transaction stays
            raise Conflict("vshards_moved_meanwhile", version=0)
        return len(found)

    def _keep(self, parcel: Parcel, form: Form, found: Sequence[Row[Any]]) -> None:
        """Write rows of one table into a parcel."""
        for start in range(0, len(found), ROWS):
            rows = [form.fields_of(tuple(row)) for row in found[start : start + ROWS]]
            last = select(func.max(parcel_rows.c.seq)).where(parcel_rows.c.parcel == parcel.id)
            seq = (self.connection.execute(last).scalar() or 0) + 1
            row = {"parcel": parcel.id, "seq": seq, "name": form.name, "content": json.dumps(rows)}
            self.connection.execute(insert(parcel_rows), row)

    def keep_forwards(self, found: dict[int, int]) -> None:
        """Remember to which virtual shards jobs from before the cluster went."""
        before, behind = self.dialect.insert_ignore
        sql = text(f"{before} {forwards.name} (number, vshard) VALUES (:number, :vshard) {behind}")
        if found:
            self.connection.execute(sql, [{"number": number, "vshard": each} for number, each in found.items()])

    def discard(self, parcel: Parcel) -> None:
        """Forget a parcel that was unpacked where it went."""
        self.connection.execute(delete(parcel_rows).where(parcel_rows.c.parcel == parcel.id))
        self._forget(parcel)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _note(self, parcel: Parcel, role: str) -> None:
        row = {"id": parcel.id, "role": role, "source": parcel.source, "target": parcel.target,
               "vshards": json.dumps(list(parcel.vshards))}  # fmt: skip
        if self.connection.execute(select(parcels.c.id).where(parcels.c.id == parcel.id)).first() is None:
            self.connection.execute(insert(parcels), row)

    def _forget(self, parcel: Parcel) -> None:
        self.connection.execute(delete(parcels).where(parcels.c.id == parcel.id))

    def _set_state(self, numbers: Collection[int], before: str, after: str) -> int:
        """Change the state of this database's virtual shards, in their order, as all who lock them; return how many."""
        own = select(cluster.c.number).scalar_subquery()
        chosen = (vshards.c.vshard.in_(sorted(numbers)), vshards.c.place == own, vshards.c.state == before)
        order = select(vshards.c.vshard).where(*chosen).order_by(vshards.c.vshard).with_for_update()
        self.connection.execute(order).all()
        return self.connection.execute(update(vshards).where(*chosen).values(state=after)).rowcount


@cache
def forms_of(*wanted: type[Moves | Copied]) -> dict[str, Form]:
    """Return the forms of the tables whose rows go along, by name, also of those that no export has."""
    found = (form_of(metadata.tables[name]) for name, kind in CLASSES.items() if isinstance(kind, wanted))
    return {form.name: form for form in found}
