"""The journal of the demonstration as rows for a newcomer: when, which task, from which state to which, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from horae.actions.attention.queries import find_task, find_wait
from horae.cli.demo.story import SOURCES, Pager
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import decode
from horae.core.time.instants import from_iso

if TYPE_CHECKING:
    from horae.attention import Attention
    from horae.core.attention.lanes import Line, Task

PASSING = ("created", "ready")  # a path goes on from here in the same row
STANDING = ("waiting", "suspended", "completed", "failed", "cancelled")  # and ends here
PATH = 38


@dataclass
class Row:
    """One stretch of one task's way."""

    at: datetime
    task: int
    path: list[str]
    lines: list[Line] = field(default_factory=list)
    remark: str = ""

    def goes_on_with(self, line: Line) -> bool:
        return (self.task, self.path[-1]) == (line.task, line.before) and line.before in PASSING

    def text(self) -> str:
        return f"{self.at:%H:%M:%S}  t{self.task}  {' -> '.join(self.path):<{PATH}}{self.remark}".rstrip()


class Narrator:
    """Reads the journal as it grows; a row comes out once what explains it has been written."""

    def __init__(self, agent: Attention, pager: Pager) -> None:
        self.agent, self.pager = agent, pager
        self._lines: list[Line] = []
        self._rows: list[Row] = []
        self._announced = 0  # how many pages have been mentioned

    def rows(self, *, to_the_end: bool = False) -> Iterator[Row]:
        """Yield the rows that are complete since the last time."""
        for line in self.agent.journal(since=len(self._lines)):
            self._lines.append(line)
            self._take(line)
        while self._rows and (to_the_end or self._is_clear(self._rows[0])):
            row = self._rows.pop(0)
            row.remark = self._remark(row)
            yield row

    def _take(self, line: Line) -> None:
        if line.cause == "recovered" and line.task is not None:
            self._rows.append(Row(line.at, line.task, ['(killed inside "page", restarted)'], [line]))
        if line.after is None or line.task is None:
            return
        if not (self._rows and self._rows[-1].goes_on_with(line)):
            self._rows.append(Row(line.at, line.task, [] if line.before is None else [line.before]))
        self._rows[-1].path.append(line.after)
        self._rows[-1].lines.append(line)

    def _is_clear(self, row: Row) -> bool:
        """Tell whether it is known what its task does next, where the remark speaks of it."""
        last = row.lines[-1]
        return row.path[-1] in STANDING or any(line.task == row.task and line.seq > last.seq for line in self._lines)

    # -- why -----------------------------------------------------------------------------------------------------

    def _remark(self, row: Row) -> str:
        first = row.lines[0]
        match first.cause:
            case "added":
                sense = next((line for line in self._lines if line.details.get("went_to") == row.task), None)
                return "" if sense is None else f"sense: {sense.details['key']}"
            case "focused":
                return self._page() or ""
            case "interrupted":
                read = self._read(row.task, before=first.seq)
                return f"interrupted by {first.details['by']} at a safe point ({read} of {SOURCES} sources read)"
            case "resumed":
                return f"resumed with its context, continues at source {self._read(row.task, before=first.seq) + 1}"
            case "parked":
                return self._parked(first)
            case "woken by timeout":
                return "woken by timeout, the fact is handed to cognition"
            case "woken by event":
                return self._woken(first)
            case "recovered":
                return "cognition gets the fact action_unknown"
            case "failed":
                return str(first.details["reason"])
        return self._finished(self._task(row.task))

    def _read(self, task: int, *, before: int) -> int:
        return sum(line.cause == "step_facts" and line.task == task and line.seq < before for line in self._lines)

    def _page(self) -> str | None:
        """Return whom the pager reached, if that has not been mentioned."""
        paged = self.pager.paged
        if self._announced >= len(paged):
            return None
        self._announced += 1
        return f"pages {paged[self._announced - 1]}"

    def _parked(self, line: Line) -> str:
        (key,), deadline = line.details["keys"], from_iso(str(line.details["deadline"]))
        if key.startswith("confirm:"):
            return f"a refund of 40 needs a person, deadline {deadline:%H:%M:%S}"
        return self._page() or f"{key}, deadline {deadline:%H:%M:%S}"

    def _woken(self, line: Line) -> str:
        wait, event = find_wait(self.agent.world, line.details["wait"])
        assert wait is not None
        if event is None:
            return f"{'denied' if wait.grant is None else 'approved'} by {wait.decided_by}"
        return f"event: {decode(event.data)['by']} acknowledged"

    def _task(self, number: int) -> Task:
        found = find_task(self.agent.world, number)
        assert found is not None
        return found

    def _finished(self, task: Task) -> str:
        result = {} if task.result is None else decode(task.result)
        if task.kind == "report":
            return f"report on {result['lines']} lines"
        if task.kind == "refund":
            return f"receipt {result['receipt']}" if result["receipt"] else "no refund"
        return ""
