"""The hot flows of SQLite: candidates read by their usual columns, and endings alike written in two statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from horae.core.jobs.job import Settlement
from horae.core.time.instants import micros
from horae.ports.claims import Claim
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.hot import CHUNK, Hot
from horae.stores.jobs.claimed import RARE, USUAL
from horae.stores.jobs.endings import are_alike, is_plain_ending
from horae.stores.tables.jobs import JOBS, ending_row

# Whether a candidate has anything rare about it: of forty columns most jobs leave thirty as they were.
_HAS_RARE = f"coalesce({', '.join(RARE)}) IS NOT NULL"
_NOTHING_RARE = (None,) * len(RARE)
_RARE = slice(len(USUAL), len(USUAL) + len(RARE))


class SqliteHot(Hot):
    """The flows whose steps are quicker where there is one writer: what one statement found, the next one finds too."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        due = self.candidate_sql.partition(" FROM ")[2]
        self.usual_sql = f"SELECT {JOBS.sql(dialect, USUAL)}, {_HAS_RARE} FROM {due}"
        self._expects_rare = False  # what the last candidates were like: a guess, which costs a second reading if wrong

    def _due(self, driver: Driver, claim: Claim, band: int, wanted: int, now: int) -> list[tuple[Any, ...]]:
        """Read the usual columns; all of them only where a job has something rare about it."""
        if claim.owner is not None:
            return super()._due(driver, claim, band, wanted, now)
        rows = [] if self._expects_rare else driver.rows(self.usual_sql, [claim.queue, band, now, wanted])
        if self._expects_rare or any(row[-1] for row in rows):
            rows = super()._due(driver, claim, band, wanted, now)
            if rows:
                self._expects_rare = any(row[_RARE] != _NOTHING_RARE for row in rows)
            return rows
        rest = (*_NOTHING_RARE, claim.queue, "", "queued", None, None, None, 1)  # as a queued row has it
        return [row[:-1] + rest for row in rows]

    def settle(self, driver: Driver, settlements: Sequence[Settlement], now: datetime) -> tuple[set[int], set[str]]:
        if 0 < len(settlements) <= CHUNK and all(map(is_plain_ending, settlements)) and are_alike(settlements):
            numbers = sorted({each.number for each in settlements})
            if self._finish(driver, numbers, settlements[0], now):
                return set(), set()
        return super().settle(driver, settlements, now)

    def _finish(self, driver: Driver, numbers: Sequence[int], ending: Settlement, now: datetime) -> bool:
        """End jobs that are all still held and concern no other; otherwise change nothing and return false."""
        held = f"IN ({marks(len(numbers))}) AND token = %s AND state = 'running' AND linked = 0"
        run = (*ending_row(ending), ending.change.state, micros(now))
        driver.change("SAVEPOINT endings")
        written = driver.change(self.final_run_sql + held, [*run, *numbers, ending.token])
        if written == len(numbers):
            self.remove(driver, numbers)
        else:
            driver.change("ROLLBACK TO endings")
        driver.change("RELEASE endings")
        return written == len(numbers)
