"""Keep tenants' jobs away from handlers that are not open to tenants.

The check stands inside the claim of a house worker, so every way by which a tenant's row comes to be due (an enqueue,
a fire, a trigger, a backfill, a retry) passes it. The stored definition decides, not which workers are alive. A job
that is refused is held and leaves the claim index; storing its handler as open releases it.

Claims that hold jobs and changes of definitions take one lock: a claim that has read "closed" cannot hold a job after
the handler was opened and its jobs released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horae.core.jobs.job import CLOSED, OPEN_HANDLERS, SYSTEM
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.slots import Slots
from horae.stores.tables.jobs import JOBS

LOCK = "definitions"
CHUNK = 500
HANDLER, OWNER = JOBS.columns.index("handler"), JOBS.columns.index("owner")
Row = tuple[Any, ...]


class Admission:
    """The flows around closed handlers; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect, slots: Slots) -> None:
        self._dialect = dialect
        self._slots = slots

    def admit(self, driver: Driver, rows: list[Row]) -> tuple[list[Row], bool]:
        """Hold back the candidates that a house worker must not run; the others, and whether any was held."""
        tenants = [row for row in rows if row[OWNER] != SYSTEM]
        if not tenants or not self._closed(driver, tenants):
            return rows, False
        self._slots.lock(driver, [LOCK])
        closed = self._closed(driver, tenants)  # again, under the lock: the handler may have been opened meanwhile
        for start in range(0, len(closed), CHUNK):
            chunk = closed[start : start + CHUNK]
            driver.change(
                f"UPDATE horae_jobs SET held = '{CLOSED}', held_for = handler WHERE id IN ({marks(len(chunk))})", chunk
            )
        refused = set(closed)
        return [row for row in rows if row[0] not in refused], bool(refused)

    def take_back(self, driver: Driver, numbers: Sequence[int]) -> None:
        """Clear the hold of jobs that their own tenant's worker has claimed."""
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            driver.change(f"UPDATE horae_jobs SET held = '', held_for = NULL WHERE id IN ({marks(len(chunk))})", chunk)

    def release(self, driver: Driver, limit: int) -> tuple[int, set[str]]:
        """Let up to *limit* held jobs of handlers that are open now back into the claim; how many, in which queues."""
        names = sorted(self._open(driver))
        released: list[Row] = []
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            sql = f"SELECT id, queue FROM horae_jobs WHERE held_for IN ({marks(len(chunk))}) AND held = '{CLOSED}' "
            released += driver.rows(sql + "LIMIT %s" + self._dialect.waiting_lock, [*chunk, limit - len(released)])
        self.take_back(driver, [row[0] for row in released])
        return len(released), {row[1] for row in released}

    def lock(self, driver: Driver) -> None:
        """Lock the definitions: no other transaction may hold jobs or change a definition until this one ends."""
        self._slots.lock(driver, [LOCK])

    def _closed(self, driver: Driver, rows: Sequence[Row]) -> list[int]:
        opened = self._open(driver)
        return [row[0] for row in rows if row[HANDLER] not in opened]

    def _open(self, driver: Driver) -> set[str]:
        stored = dict(driver.rows("SELECT name, tenants FROM horae_definitions"))
        return {name for name, tenants in {**dict.fromkeys(OPEN_HANDLERS, 1), **stored}.items() if tenants}
