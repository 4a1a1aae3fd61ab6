"""The demonstration while it runs: driving the lane, showing it, asking the user, and what it proved."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from horae.actions.attention.queries import everything
from horae.actions.jobs.claims import peek
from horae.api.attention.past import PastView, view_after
from horae.api.attention.values import LaneDetail, VerifiedJournal, past_lane
from horae.api.values import to_json, to_public
from horae.attention import Attention
from horae.cli.attention.screen import WIDTH, four_lines, one_line, sound
from horae.cli.demo.crash import until_killed
from horae.cli.demo.journal import Narrator, Row
from horae.cli.demo.story import ACK, BEGINS, SHORT, Outside, Pager, Spans, Time, begin, make_agent
from horae.cli.terminal import Terminal
from horae.clock import StoryClock, SystemClock, pause_async
from horae.core.attention.lanes import Line, TaskWait
from horae.core.attention.numbers import task_name
from horae.core.dataclass import dataclass
from horae.core.time.instants import iso
from horae.errors import NotFound
from horae.runtime.lanes.driver import LaneDriver

OPENING = "t1 writes a report (priority 40), t2 is an alert (priority 90)."
QUESTION = "approve? [y/n, Enter = let it time out] "
WATCH_EVERY = 0.1  # seconds between two reads of a lane that a wall clock moves
READING = 0.15  # seconds for the eye, on a terminal
TRAVEL_TO = 6
HOW_OFTEN = {0: "never", 1: "once"}


@dataclass(frozen=True)
class Switches:
    """The variants of the story that were asked for."""

    crash: bool = False
    early: bool = False
    confirm: bool = False
    real: bool = False


class Performance:
    """One run of the story."""

    def __init__(self, terminal: Terminal, database: Path, switches: Switches, spans: Spans | None = None) -> None:
        clock = SystemClock() if switches.real else StoryClock(BEGINS)
        self.terminal, self.switches, self.database = terminal, switches, database
        self.spans = spans or (SHORT if switches.real else Spans())
        self.time = Time(clock)
        self.outside = Outside(self.time, Pager(database.parent), self.spans, early=switches.early)
        self.agent = make_agent(database, self.outside)
        self.narrator = Narrator(self.agent, self.outside.pager)
        self.screen = Screen(terminal)
        self._asked: set[int] = set()
        self._decision: bool | None = None
        self._is_over = False
        self._showing = asyncio.Lock()  # watching and asking print the same rows

    async def run(self) -> None:
        time = "Shortened spans on the wall clock, UTC." if self.switches.real else "Simulated time."
        self._say(f"{OPENING} {time}")
        self._say("")
        try:
            await asyncio.to_thread(lambda: self.agent.world)  # makes the tables
            watching = asyncio.create_task(self._watch()) if self.switches.real else None
            await self._act_out()
            self._is_over = True
            if watching is not None:
                await watching  # not broken off: what it is about to print would be lost
            await self._show(to_the_end=True)
            self._conclude()
        finally:
            self.agent.app.close()

    async def _act_out(self) -> None:
        if self.switches.crash:
            died_at = await asyncio.to_thread(until_killed, self.database, self.spans, self.switches.real)
            if isinstance(self.time.clock, StoryClock):
                self.time.clock.jump_to(died_at)
        await asyncio.to_thread(begin, self.agent, self.outside)
        await self._drive()
        if self.switches.confirm:
            await asyncio.to_thread(lambda: self.agent.add("refund", priority=40, key="refund:1"))
            await self._drive()

    async def _drive(self) -> None:
        driver = self.agent.driver()
        try:
            await to_the_end(driver, self.agent, self.time, self._meanwhile)
        finally:
            await driver.close()

    # -- what is shown -------------------------------------------------------------------------------------------

    async def _meanwhile(self, at_rest: bool) -> bool:
        """Show what happened; return whether a question was asked and answered."""
        if not self.switches.real:
            await self._show()
        wait = await asyncio.to_thread(self._open_question) if at_rest else None
        if wait is None:
            return False
        await self._show()
        return await self._ask(wait)

    async def _watch(self) -> None:
        while not self._is_over:
            await self._show()
            await pause_async(WATCH_EVERY)

    async def _show(self, *, to_the_end: bool = False) -> None:
        async with self._showing:
            with suppress(NotFound):  # before anything was added
                await self._print_rows(to_the_end)

    async def _print_rows(self, to_the_end: bool) -> None:
        for row in await asyncio.to_thread(lambda: list(self.narrator.rows(to_the_end=to_the_end))):
            self.screen.print_row(row)
            if self.screen.is_live and not self.switches.real:
                self.screen.draw(self._view_after(row.lines[-1]), row.lines[-1].at)
                await pause_async(READING)
        if to_the_end:
            self.screen.clear()
        elif self.switches.real:
            self.screen.draw(to_public(LaneDetail, self.agent.snapshot()), self.time.clock.now())

    def _view_after(self, line: Line) -> PastView:
        return view_after(past_lane(line.seq, self.agent.at(line.seq)), line.at)

    # -- who is asked --------------------------------------------------------------------------------------------

    def _open_question(self) -> TaskWait | None:
        waits = (wait for _, waits in self.agent.snapshot().waiting for wait in waits)
        return next((wait for wait in waits if wait.kind == "confirm" and wait.number not in self._asked), None)

    async def _ask(self, wait: TaskWait) -> bool:
        self._asked.add(wait.number)
        left = (wait.deadline - self.time.clock.now()).total_seconds() if self.switches.real else None
        self.screen.pause()
        answer = await asyncio.to_thread(ask_person, self.terminal, left)
        self.screen.go_on()
        if answer is None:
            return False
        self._decision = answer
        if not self.switches.real:
            await asyncio.to_thread(self.time.take, self.spans.minute / 3)  # to think about it
        await asyncio.to_thread(lambda: self.agent.confirm(wait.number, answer, actor="you"))
        return True

    # -- what it proved ------------------------------------------------------------------------------------------

    def _conclude(self) -> None:
        self._say("")
        if self.switches.crash:
            self._proof("crash", self._crash_proof())
        if self.switches.early:
            self._proof("early", self._early_proof())
        if self.switches.confirm:
            self._proof("confirm", self._confirm_proof())
        verified: VerifiedJournal = to_public(VerifiedJournal, self.agent.verify())
        self.terminal.event({"event": "verified", **to_json(verified)})
        text = sound(verified) if verified.sound else "; ".join(verified.complaints)
        self._line("horae attention verify", text)
        line = self.agent.journal(since=TRAVEL_TO - 1, limit=1)[0]
        view = self._view_after(line)
        self.terminal.event({"event": "at", **to_json(view)})
        self._line(f"horae attention at {TRAVEL_TO}", one_line(view, line.at))

    def _proof(self, switch: str, text: str) -> None:
        self.terminal.event({"event": "proved", "switch": switch, "text": text})
        self._line(f"--{switch}", text)

    def _line(self, name: str, text: str) -> None:
        self._say(f"{name:<24}{text}")

    def _say(self, text: str) -> None:
        if not self.terminal.is_json:
            self.terminal.out(text)

    def _rows(self) -> dict[str, list[Any]]:
        return everything(self.agent.world, self.agent.name, owner=self.agent.owner)

    def _crash_proof(self) -> str:
        often = self.outside.pager.paged.count("alice")
        heard = [fact for fact in self._rows()["fact"] if fact.kind == "action_unknown" and fact.turn is not None]
        saw = "saw action_unknown" if heard else "did not see action_unknown"
        return f'killed inside "page": alice was paged {HOW_OFTEN.get(often, f"{often} times")}, cognition {saw}'

    def _early_proof(self) -> str:
        rows = self._rows()
        (answer,) = [event for event in rows["event"] if event.key == ACK]
        wait = next(wait for wait in rows["wait"] if wait.event == answer.number)
        order = "before" if answer.posted_at < wait.opened_at else "after"
        return (
            f"bob answered at {_clock(answer.posted_at)}, {order} the wait opened at {_clock(wait.opened_at)}: "
            "the same result"
        )

    def _confirm_proof(self) -> str:
        task = next(task for task in self._rows()["task"] if task.kind == "refund")
        if self._decision is None:
            return f"silence is timed_out, never denied; nothing was refunded, and the task is {task.state}"
        if not self._decision:
            return "denied by a person: nothing was refunded"
        return f"approved by a person: exactly that refund ran, {HOW_OFTEN.get(task.step, f'{task.step} times')}"


def _clock(moment: datetime) -> str:
    """Return the time of day; a real one to the millisecond."""
    return f"{moment:%H:%M:%S}" + (f".{moment.microsecond // 1000:03}" if moment.microsecond else "")


async def to_the_end(
    driver: LaneDriver, agent: Attention, time: Time, meanwhile: Callable[[bool], Awaitable[bool]] | None = None
) -> None:
    """Drive a lane until nothing more is planned: whenever there is nothing to do, time goes to what is due next.

    *meanwhile* is called after each step with whether the lane is at rest, and returns whether it has moved it.
    """
    while True:
        await asyncio.to_thread(time.catch_up)
        worked = await driver.step()
        moved = meanwhile is not None and await meanwhile(not worked)
        if worked or moved:
            continue
        following = await asyncio.to_thread(_next, driver, agent, time)
        if following is None:
            return
        await asyncio.to_thread(time.until, following)


def _next(driver: LaneDriver, agent: Attention, time: Time) -> datetime | None:
    """Return when something is due: a job of the lane, something outside, or the end of a dead driver's lease."""
    lane = agent.snapshot().lane
    held = lane.leased_until if lane.driver not in (None, driver.name) else None
    instants = (peek(agent.world, []).next_machinery_at, time.next_at, held)
    return min((each for each in instants if each is not None), default=None)


def ask_person(terminal: Terminal, seconds: float | None) -> bool | None:
    """Ask a person for yes or no; return None for silence, or an answer that comes too late."""
    where = sys.stderr if terminal.is_json else sys.stdout
    heard: list[str] = []
    while True:
        print(QUESTION, end="", file=where, flush=True)
        heard.clear()
        reading = threading.Thread(target=lambda: heard.append(sys.stdin.readline()), daemon=True)
        reading.start()
        reading.join(seconds)
        answer = heard[0].strip().lower() if heard else ""
        if not (heard and sys.stdin.isatty()):  # no person typed the end of the line
            print(answer, file=where, flush=True)
        if answer in ("", "y", "yes", "n", "no"):
            return None if not answer else answer[0] == "y"


class Screen:
    """Prints rows as they come; on a terminal with four lines below them that change."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.is_live = sys.stdout.isatty() and not terminal.is_json
        self._drawn = 0
        self._is_typed_on = False

    def print_row(self, row: Row) -> None:
        self.clear()
        if self.terminal.is_json:
            fields = {"task": task_name(row.task), "path": row.path, "remark": row.remark}
            name = "recovered" if row.lines[0].cause == "recovered" else "moved"
            self.terminal.event({"event": name, "at": iso(row.at), **fields})
        else:
            self.terminal.out(row.text())

    def draw(self, view: LaneDetail | PastView, now: datetime) -> None:
        """Draw the four lines in place of those before."""
        if self.is_live and not self._is_typed_on:
            self.clear()
            lines = ["", *four_lines(view, now, min(WIDTH, shutil.get_terminal_size().columns))]
            self.terminal.out("\n".join(self.terminal.faint(line) if line else "" for line in lines))
            self._drawn = len(lines)

    def clear(self) -> None:
        if self._drawn:
            print(f"\x1b[{self._drawn}A\x1b[J", end="", flush=True)
            self._drawn = 0

    def pause(self) -> None:
        """Leave the lines where they are, while the answer is typed below."""
        self._is_typed_on, self._drawn = True, 0

    def go_on(self) -> None:
        self._is_typed_on = False
