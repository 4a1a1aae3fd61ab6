"""Slots of limits: for a concurrency key, a group, a queue, or all jobs.

A taken slot is a row with the unique key (name, place), so a limit cannot be exceeded even by a bug. A slot belongs to
a running job: whatever ends or loses the job frees it. A job that finds no free slot is held and leaves the claim
index, so that a full key never blocks a queue; the transaction that frees a slot lets the next job in. Both sides hold
the name's lock, so that no held job is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.claimed import COLUMNS

LOCK = -1
MAX_RELEASED = 100
KEY, GROUP = map(COLUMNS.index, ("concurrency_key", "group_name"))
LIMIT = -1  # the concurrency limit is asked for after the job's own columns
Row = tuple[Any, ...]


class Slots:
    """Take and free slots; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def limits(self, driver: Driver) -> dict[str, int]:
        return dict(driver.rows("SELECT name, max_running FROM horae_limits"))

    def take(
        self, driver: Driver, queue: str, rows: Sequence[Row], limits: dict[str, int], room: int
    ) -> tuple[list[Row], set[int], bool]:
        """Return which candidates may run, which of them hold a slot now, and whether others may take held turns."""
        wanted = {row[0]: _names(row, queue, limits) for row in rows}
        taken = self._lock_taken(driver, {name for names in wanted.values() for name in names})
        granted: list[Row] = []
        taken_slots: list[tuple[str, int, int]] = []
        held: dict[str, list[int]] = {}
        for row in rows:
            full = next((name for name, most in wanted[row[0]].items() if len(taken[name]) >= most), None)
            if len(granted) == room or full in ("global", f"queue:{queue}"):
                break
            if full is not None:
                held.setdefault(full, []).append(row[0])
                continue
            granted.append(row)
            taken_slots += [(name, _take_one(taken[name]), row[0]) for name in wanted[row[0]]]
        else:
            full = None
        if taken_slots:
            driver.many("INSERT INTO horae_slots (name, place, job_id) VALUES (%s, %s, %s)", taken_slots)
        for name, numbers in held.items():
            placeholders = marks(len(numbers))
            driver.change(
                f"UPDATE horae_jobs SET held = 'slot', held_for = %s WHERE id IN ({placeholders})", [name, *numbers]
            )
        return granted, {slot[2] for slot in taken_slots}, bool(held) and full is None and len(granted) < room

    def give_back(self, driver: Driver, numbers: Sequence[int]) -> set[str]:
        """Free the slots of these jobs and let held ones in; return the queues that may have work now."""
        if not numbers:
            return set()
        condition = f"job_id IN ({marks(len(numbers))})"
        names = {row[0] for row in driver.rows(f"SELECT DISTINCT name FROM horae_slots WHERE {condition}", numbers)}
        if not names:
            return set()
        self.lock(driver, names)
        driver.change(f"DELETE FROM horae_slots WHERE {condition}", numbers)
        return self.let_in(driver, names)

    def let_in(self, driver: Driver, names: Iterable[str]) -> set[str]:
        """Let the next held jobs of these names back into the claim; the names are locked."""
        limits = self.limits(driver)
        queues: set[str] = set()
        for name in sorted(names):
            kind, _, rest = name.partition(":")
            if kind in ("queue", "global"):
                queues.add(rest or "*")
                continue
            waiting = driver.rows(
                "SELECT id, queue, concurrency_limit FROM horae_jobs WHERE held_for = %s AND held = 'slot' "
                f"AND state = 'queued' ORDER BY band, run_at, id LIMIT {MAX_RELEASED}" + self._dialect.locking,
                [name],
            )
            taken = len(self._taken(driver, name))
            let = _choose_next(waiting, limits.get(name), taken)
            if let:
                placeholders = marks(len(let))
                driver.change(
                    f"UPDATE horae_jobs SET held = '', held_for = NULL WHERE id IN ({placeholders})",
                    [row[0] for row in let],
                )
                queues |= {row[1] for row in let}
        return queues

    def apply_limit(self, driver: Driver, name: str) -> set[str]:
        """Let in jobs that a changed or lifted limit no longer holds; return their queues."""
        if name in self.limits(driver):
            self.lock(driver, [name])
            return self.let_in(driver, [name])
        held = "held_for = %s AND held = 'slot'"
        queues = {row[0] for row in driver.rows(f"SELECT DISTINCT queue FROM horae_jobs WHERE {held}", [name])}
        driver.change(f"UPDATE horae_jobs SET held = '', held_for = NULL WHERE {held}", [name])
        return queues

    def let_in_forgotten(self, driver: Driver) -> set[str]:
        """Let in jobs that are held although there is room, as a safety net; return their queues."""
        rows = driver.rows("SELECT DISTINCT held_for FROM horae_jobs WHERE held = 'slot'")
        names = {row[0] for row in rows if row[0] is not None}
        self.lock(driver, names)
        return self.let_in(driver, names)

    def _lock_taken(self, driver: Driver, names: Iterable[str]) -> dict[str, set[int]]:
        listed = list(names)
        self.lock(driver, listed)
        return {name: self._taken(driver, name) for name in listed}

    def _taken(self, driver: Driver, name: str) -> set[int]:
        sql = f"SELECT place FROM horae_slots WHERE name = %s AND place <> {LOCK}"
        return {row[0] for row in driver.rows(sql, [name])}

    def lock(self, driver: Driver, names: Iterable[str]) -> None:
        before, behind = self._dialect.insert_ignore
        for name in sorted(names):  # always in one order, against deadlocks
            driver.change(f"{before} horae_slots (name, place) VALUES (%s, {LOCK}) {behind}", [name])
            sql = f"SELECT name FROM horae_slots WHERE name = %s AND place = {LOCK}"
            driver.rows(sql + self._dialect.waiting_lock, [name])


def _names(row: Row, queue: str, limits: dict[str, int]) -> dict[str, int]:
    """Return the limits of one job by name; whole queues first, because a full queue ends the claim."""
    shared = ("global", f"queue:{queue}", *([] if row[GROUP] is None else [f"group:{row[GROUP]}"]))
    names = {name: limits[name] for name in shared if name in limits}
    return names if row[KEY] is None else names | {f"key:{row[KEY]}": row[LIMIT]}


def _take_one(taken: set[int]) -> int:
    """Take the lowest free slot."""
    slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
    taken.add(slot)
    return slot


def _choose_next(waiting: Sequence[Row], limit: int | None, taken: int) -> list[Row]:
    """Choose as many jobs as have room in each queue: a paused queue must not keep a shared slot from the others.

    A job that is let in and finds the slot taken is held again.
    """
    let: dict[str, list[Row]] = {}
    for row in waiting:
        of_queue = let.setdefault(row[1], [])
        if len(of_queue) + taken < (row[2] if limit is None else limit):
            of_queue.append(row)
    return [row for rows in let.values() for row in rows]
