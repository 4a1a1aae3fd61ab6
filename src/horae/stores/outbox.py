"""The outbox: entries that the database's triggers have noted, rows to values."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from horae.core.bus import OutboxEntry
from horae.core.cluster.moves import Cargo
from horae.core.cluster.numbers import FIRST_NUMBER, VSHARDS
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import instant, micros
from horae.ports.bus import BusSwitch
from horae.stores.databases import outbox_triggers
from horae.stores.tables.bus import OUTBOX, bus, outbox

IN = 400  # values of one condition
ONE = 1  # the id of the only row of the switch


class Outbox:
    """The outbox inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def read(self, limit: int) -> list[OutboxEntry]:
        """Return committed entries by number; one with a lower number may still be committed later."""
        query = select(*OUTBOX.select).order_by(outbox.c.id).limit(limit)
        return [OUTBOX.read(row) for row in self.connection.execute(query)]

    def remove(self, numbers: Collection[int]) -> int:
        """Remove exactly these entries; return how many were there."""
        return self.connection.execute(delete(outbox).where(outbox.c.id.in_(sorted(numbers)))).rowcount

    def waiting(self, limit: int) -> tuple[int, datetime | None]:
        """Return how many wait, counted up to *limit*, and the instant of the first."""
        first = select(outbox.c.happened_at).order_by(outbox.c.id).limit(1)
        counted = select(outbox.c.id).limit(limit).subquery()
        at = self.connection.execute(first).scalar()
        count = self.connection.execute(select(func.count()).select_from(counted)).scalar_one()
        return int(count), None if at is None else instant(at)

    def last_number(self) -> int:
        return int(self.connection.execute(select(func.max(outbox.c.id))).scalar() or 0)

    def has_events_of(self, cargo: Cargo, until: int) -> bool:
        """Return whether entries up to a number are about jobs of these virtual shards.

        Of a job of the house from before the cluster nothing tells its shard: it counts as one of these.
        """
        known, numbered = outbox.c.id <= until, outbox.c.job_id >= FIRST_NUMBER
        owners = self.connection.execute(select(outbox.c.owner).distinct().where(known, outbox.c.job_id < FIRST_NUMBER))
        if any(each in (None, SYSTEM) or cargo.has_owner(each) for each in owners.scalars()):
            return True
        vshards, own = sorted(cargo.vshards), outbox.c.job_id.bitwise_and(VSHARDS - 1)
        found = select(outbox.c.id).where(known, numbered).limit(1)
        chunks = (vshards[start : start + IN] for start in range(0, len(vshards), IN))
        return any(self.connection.execute(found.where(own.in_(each))).first() is not None for each in chunks)

    def switch(self) -> BusSwitch | None:
        row = self.connection.execute(select(bus)).first()
        return None if row is None else BusSwitch(row.source, bool(row.enabled), instant(row.switched_at), row.actor)

    def set_switch(self, switch: BusSwitch) -> None:
        """Write the switch. The name of the database stays the one that was stored first: ids and streams have it."""
        values = {
            "enabled": int(switch.enabled), "switched_at": micros(switch.switched_at), "actor": switch.actor,
        }  # fmt: skip
        if not self.connection.execute(update(bus).values(values)).rowcount:
            self.connection.execute(insert(bus), {"id": ONE, "source": switch.source, **values})

    def missing_triggers(self) -> list[str]:
        return outbox_triggers.missing(self.connection)

    def make_triggers(self) -> None:
        outbox_triggers.make(self.connection)

    def drop_triggers(self) -> None:
        outbox_triggers.drop(self.connection)
