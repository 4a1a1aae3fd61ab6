"""Driving a lane from outside: the host thinks, and says at its safe points what it decided.

A seat holds the right to drive one lane and the turn that the host is in. Its lease is renewed while the server lives
(over HTTP: while its owner has called lately) and given back at the end. What the host was told counts as heard when
its turn is committed; what it was not told yet stays for its next turn.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from horae.actions.attention import lanes, turns
from horae.actions.attention.inbox import task_number
from horae.actions.attention.journal_chain import seal
from horae.actions.attention.lanes import Drive
from horae.actions.attention.queries import find_task
from horae.actions.attention.turns import Found, Perform, Think
from horae.actions.jobs.machinery import serve_due
from horae.core.attention.directives import Directive, Effect
from horae.core.attention.lanes import Task
from horae.core.attention.task import FINAL, Control, Policy
from horae.core.jobs.payloads import decode
from horae.errors import Conflict, HoraeError, LaneLost, NotFound
from horae.ports import World
from horae.runtime.lanes.lease import Keeper

LEASE = timedelta(seconds=30)
SILENCE = timedelta(minutes=15)


class LaneSession:
    """One lane, driven by whoever calls the tools of a server."""

    def __init__(self, world: World, lane: str, owner: str, driver: str, *, lets_go: bool = False) -> None:
        self.world, self.lane, self.owner, self.driver = world, lane, owner, driver
        self.policy = Policy()
        self.lock = threading.RLock()  # a host may call tools side by side; turns are taken one after the other
        self._lets_go = lets_go
        self._drive: Drive | None = None
        self._keeper: Keeper | None = None
        self._told: frozenset[int] = frozenset()
        self._used_at = world.clock.monotonic()

    # -- turns ---------------------------------------------------------------------------------------------------

    def look(self) -> Think | None:
        """Who has the focus, with all facts that are not heard yet; a free focus is given away first."""
        with self.lock:
            drive = self._driving()
            try:
                think = self._next(drive)
            except LaneLost:
                self._lose()
                raise
            self._told = frozenset() if think is None else frozenset(think.consumed)
            return think

    def answer(
        self,
        task_id: str,
        directive: Directive,
        *,
        turn: int | None = None,
        control: Control | None = None,
        effects: dict[str, Effect] | None = None,
    ) -> bool:
        """Write down what the host decided about its focus. False: that turn was answered already; nothing is done."""
        with self.lock:
            drive = self._driving()
            answered = self.task(task_id).turn
            if turn is not None and turn <= answered:
                return False
            if turn is not None and turn > answered + 1:
                raise Conflict(f"Task {task_id} is in turn {answered + 1}; there is no turn {turn} yet.")
            try:
                think = self._focus(drive, task_id)
                heard = tuple(number for number in think.consumed if number in self._told)
                asked = replace(think, consumed=heard, control=control or think.control)
                turns.commit_turn(self.world, drive, asked, directive, policy=self.policy, effects=effects or {})
                self._told = frozenset()
                seal(self.world, drive.lane)
            except LaneLost:
                self._lose()
                raise
            return True

    def task(self, task_id: str) -> Task:
        """A task of this lane as it is now."""
        number = task_number(task_id)
        lane = lanes.get_lane(self.world, self.lane, owner=self.owner)
        found = find_task(self.world, number)
        if found is None or found.lane != lane.number:
            raise NotFound(f"There is no task {task_id} in lane {self.lane!r}.")
        return found

    def context_of(self, task_id: str, context: object, note: str | None) -> tuple[object, str | None]:
        """What a directive carries on: what the host hands over, else what is kept."""
        kept = self.task(task_id)
        had = None if kept.context is None else decode(kept.context)
        return had if context is None else context, kept.note if note is None else note

    # -- life ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the lane back; its focus stays where it is, for whoever drives it next."""
        with self.lock:
            drive, self._drive = self._drive, None
            self._stop_keeping()
            if drive is not None:
                with suppress(HoraeError):
                    lanes.let_go(self.world, drive)

    @property
    def is_silent(self) -> bool:
        return self._lets_go and self.world.clock.monotonic() - self._used_at > SILENCE.total_seconds()

    def _goes_on(self) -> bool:
        """Whether the lane is kept on; whoever has been silent for long gives it back."""
        if self.is_silent:
            self.close()
            return False
        return True

    def _driving(self) -> Drive:
        self._used_at = self.world.clock.monotonic()
        serve_due(self.world, self.driver)
        if self._keeper is not None and self._keeper.lost:
            self._lose()
        if self._drive is None:
            self._drive = lanes.acquire(
                self.world, self.lane, self.driver, owner=self.owner, lease=LEASE, policy=self.policy
            )
            if self._drive is None:
                raise Conflict(
                    f"Lane {self.lane!r} is driven by another process, which decides about its tasks. Add tasks and "
                    "post events to it, or stop that process and call again."
                )
            self._keeper = Keeper(self.world, self._drive, LEASE, self._goes_on)
            self._keeper.start()
        return self._drive

    def _next(self, drive: Drive) -> Think | None:
        """The focus in its turn. A step that another kind of driver left open cannot be run here, and is told so."""
        while isinstance(work := turns.next_work(self.world, drive, Control(), self.policy), Perform):
            missing = Found("failed", {"error": "the lane is driven over MCP now, where nobody has this action"})
            turns.commit_facts(self.world, drive, work, missing, self.policy)
        return work

    def _focus(self, drive: Drive, task_id: str) -> Think:
        think = self._next(drive)
        if think is not None and think.task.id == task_id:
            return think
        state = self.task(task_id).state
        has = "nobody has it" if think is None else f"{think.task.id} has it"
        hint = "" if state in FINAL else " Call safe_point without a task to learn what to work on."
        raise Conflict(f"Task {task_id} is {state} and not the focus; {has}.{hint}")

    def _lose(self) -> None:
        self._stop_keeping()
        self._drive, self._told = None, frozenset()

    def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._keeper = None


class LaneSessions:
    """The seats of one server, one for each owner and lane."""

    def __init__(self, world: World, *, lets_go: bool = False) -> None:
        self.world = world
        self.driver = f"mcp:{socket.gethostname()}:{os.getpid()}:{world.dice.name(6)}"
        self._lets_go = lets_go
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], LaneSession] = {}

    def at(self, lane: str, owner: str) -> LaneSession:
        with self._lock:
            found = self._sessions.get((owner, lane))
            if found is None:
                found = LaneSession(self.world, lane, owner, self.driver, lets_go=self._lets_go)
                self._sessions[(owner, lane)] = found
            return found

    def close(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
