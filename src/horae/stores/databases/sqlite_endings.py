"""The ends of attempts on SQLite: a batch that ended alike in two statements, without reading it first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.core.jobs.job import Settlement
from horae.core.time.instants import micros
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.hot import CHUNK, Hot
from horae.stores.jobs.endings import are_alike, is_plain_ending
from horae.stores.tables.jobs import ending_row


class SqliteHot(Hot):
    """The flows whose steps are quicker where there is one writer: what one statement found, the next one finds too."""

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
