"""Keep tenants' jobs away from handlers that are not open to tenants, and let them draw on the handler's budget.

The check stands inside the claim of a house worker, so every way by which a tenant's row comes to be due (an enqueue,
a fire, a trigger, a backfill, a retry) passes it. The stored definition decides, not which workers are alive. A job
that is refused is held and leaves the claim index; storing its handler as open releases it.

Claims that hold jobs and changes of definitions take one lock: a claim that has read "closed" cannot hold a job after
the handler was opened and its jobs released.

Where the definition names a budget, a tenant's job draws on that, whatever it said itself: so no door is a way past it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horae.core.jobs.job import CLOSED, OPEN_HANDLERS, SYSTEM
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.claimed import COLUMNS
from horae.stores.jobs.slots import Slots

LOCK = "definitions"
CHUNK = 500
HANDLER, OWNER, BUDGET, OBJECT = map(COLUMNS.index, ("handler", "owner", "budget", "object_type"))
Row = tuple[Any, ...]
SOON = 5_000_000  # microseconds until a job is asked about again whose owner's hours are being looked at
# Owners in their quiet hours, with the end of these as a negative number: beside definitions it tells them apart.
QUIET = "SELECT owner, -COALESCE(quiet_until, 1), NULL FROM horae_quiet_owners WHERE quiet_until > %s OR quiet_at <= %s"


class Admission:
    """The flows around closed handlers; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect, slots: Slots) -> None:
        self._dialect = dialect
        self._slots = slots
        budget = dialect.json_as_text.format("budget")
        self._definitions = f"SELECT name, tenants, {budget} FROM horae_definitions"

    def admit(self, driver: Driver, rows: list[Row], now: int) -> tuple[list[Row], bool]:
        """Hold back the candidates that a house worker must not run; return the others, and whether any was held."""
        if all(row[OWNER] == SYSTEM for row in rows):
            return rows, False
        stored, quiet = self._look(driver, now)
        awake = self._snooze_quiet(driver, rows, quiet, now) if quiet else rows
        admitted, refused = self._admit(driver, awake, stored)
        return admitted, refused or len(awake) < len(rows)

    def keep_quiet(self, driver: Driver, rows: list[Row], now: int) -> tuple[list[Row], bool]:
        """Snooze the candidates of owners in their quiet hours; return the others, and whether any was snoozed."""
        quiet = {owner: -until for owner, until, _ in driver.rows(QUIET, [now, now])}
        awake = self._snooze_quiet(driver, rows, quiet, now) if quiet else rows
        return awake, len(awake) < len(rows)

    def _snooze_quiet(self, driver: Driver, rows: list[Row], quiet: dict[str, int], now: int) -> list[Row]:
        """Make jobs of owners in their quiet hours due when those end; return the others.

        The job of an object is left alone: it runs when the object says, and moving one without the other parts them.
        """
        resting = [row for row in rows if row[OWNER] in quiet and row[OBJECT] is None]
        for owner, until in quiet.items():
            numbers = [row[0] for row in resting if row[OWNER] == owner]
            for start in range(0, len(numbers), CHUNK):
                chunk = numbers[start : start + CHUNK]
                sql = f"UPDATE horae_jobs SET run_at = %s WHERE id IN ({marks(len(chunk))})"
                driver.change(sql, [until if until > now else now + SOON, *chunk])
        return [row for row in rows if row[OWNER] not in quiet or row[OBJECT] is not None]

    def _look(self, driver: Driver, now: int) -> tuple[list[Row], dict[str, int]]:
        """Read every definition, and which owners are in their quiet hours until when, in one statement."""
        found = driver.rows(f"{self._definitions} UNION ALL {QUIET}", [now, now])
        return [row for row in found if row[1] >= 0], {row[0]: -row[1] for row in found if row[1] < 0}

    def _admit(self, driver: Driver, rows: list[Row], stored: list[Row]) -> tuple[list[Row], bool]:
        tenants = [row for row in rows if row[OWNER] != SYSTEM]
        rows = self._set_budgets(driver, rows, {name: budget for name, _, budget in stored if budget is not None})
        if not _closed(tenants, stored):
            return rows, False
        self._slots.lock(driver, [LOCK])
        closed = _closed(tenants, self._stored(driver))  # under the lock: it may have been opened meanwhile
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
        names = sorted(_open(self._stored(driver)))
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

    def _stored(self, driver: Driver) -> list[Row]:
        """Read name, openness and budget of every definition."""
        return driver.rows(self._definitions)

    def _set_budgets(self, driver: Driver, rows: list[Row], budgets: dict[str, str]) -> list[Row]:
        """Let tenants' jobs draw on the budgets of their handlers; return the rows as they are then."""
        if not budgets:
            return rows
        changed: dict[int, str] = {
            row[0]: budgets[row[HANDLER]]
            for row in rows
            if row[OWNER] != SYSTEM and row[HANDLER] in budgets and row[BUDGET] != budgets[row[HANDLER]]
        }
        for number, budget in changed.items():
            driver.change("UPDATE horae_jobs SET budget = %s WHERE id = %s", [budget, number])
        return [_with_budget(row, changed[row[0]]) if row[0] in changed else row for row in rows]


def _with_budget(row: Row, budget: str) -> Row:
    return (*row[:BUDGET], budget, *row[BUDGET + 1 :])


def _closed(rows: Sequence[Row], stored: Sequence[Row]) -> list[int]:
    opened = _open(stored)
    return [row[0] for row in rows if row[HANDLER] not in opened]


def _open(stored: Sequence[Row]) -> set[str]:
    known = {**dict.fromkeys(OPEN_HANDLERS, 1), **{name: tenants for name, tenants, _ in stored}}
    return {name for name, tenants in known.items() if tenants}
