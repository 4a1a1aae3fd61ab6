"""Sessions that drive a lane from outside: the host thinks, and states its decision at safe points.

A session holds the right to drive one lane and the turn that the host is in. Its lease is renewed while the server
lives (over HTTP: while its owner has called lately) and given back at the end. Facts that the host has received are
consumed when its turn is committed; later ones stay for its next turn. Driving is no operation of a room: this is where
the server uses the verbs of lanes and the keeper of their leases.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from horae.actions.attention import lanes, queries, turns
from horae.actions.attention.journal_chain import seal
from horae.actions.attention.lanes import Drive
from horae.actions.attention.turns import ActionResult, Perform, Think, Work
from horae.actions.jobs.machinery import serve_due
from horae.core.attention.directives import Directive, Effect, Proceed
from horae.core.attention.lanes import Task
from horae.core.attention.numbers import task_number
from horae.core.attention.task import FINAL, Control, Policy
from horae.core.jobs.payloads import decode
from horae.errors import Conflict, HoraeError, InvalidInput, LaneLost, NotAllowed, NotFound
from horae.ports.world import World
from horae.runtime.lanes.lease import Keeper

LEASE = timedelta(seconds=30)
SILENCE = timedelta(minutes=15)


class EveryAction(Mapping[str, Effect]):
    """The actions of a host: whatever a person has approved, each done once at most."""

    def __getitem__(self, action: str) -> Effect:
        return "once"

    def __contains__(self, action: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1  # never empty, though its names cannot be listed


NO_ACTIONS: Mapping[str, Effect] = {}


class LaneSession:
    """One lane, driven by the host that calls the tools of a server."""

    def __init__(self, world: World, lane: str, owner: str, driver: str, *, lets_go: bool = False) -> None:
        self.world, self.lane, self.owner, self.driver = world.route(owner=owner), lane, owner, driver
        self._databases = world  # of which one keeps the lane, and its jobs
        self.policy = Policy()
        self.lock = threading.RLock()  # a host may call tools side by side; turns are taken one after the other
        self._lets_go = lets_go
        self._drive: Drive | None = None
        self._keeper: Keeper | None = None
        self._delivered: frozenset[int] = frozenset()
        self._step: Perform | None = None  # what the host may do now, because a person approved it
        self._used_at = world.clock.monotonic()

    # -- turns ---------------------------------------------------------------------------------------------------

    def next_turn(self) -> Work | None:
        """Return the focus with all facts that are not consumed yet; a free focus is given away first.

        Where the host has redeemed a grant and not reported how its action ended, return that step.
        """
        with self.lock:
            drive = self._ensure_drive()
            try:
                work = self._next(drive)
            except LaneLost:
                self._lose()
                raise
            self._delivered = frozenset(work.consumed) if isinstance(work, Think) else frozenset()
            return work

    def answer(
        self,
        task_id: str,
        directive: Directive,
        *,
        turn: int | None = None,
        control: Control | None = None,
        effects: Mapping[str, Effect] | None = None,
    ) -> bool:
        """Commit what the host decided about its focus; return False where that turn was answered already."""
        with self.lock:
            drive = self._ensure_drive()
            answered = self.task(task_id).turn
            if turn is not None and turn <= answered:
                return False
            if turn is not None and turn > answered + 1:
                raise Conflict("turn_not_reached", id=task_id, current=answered + 1, turn=turn)
            try:
                think = self._focus(drive, task_id)
                consumed = tuple(number for number in think.consumed if number in self._delivered)
                committed = replace(think, consumed=consumed, control=control or think.control)
                work = turns.commit_turn(
                    self.world, drive, committed, directive, policy=self.policy, effects=effects or NO_ACTIONS
                )
                self._step = work if isinstance(work, Perform) else None
                self._delivered = frozenset()
                seal(self.world, drive.lane)
            except LaneLost:
                self._lose()
                raise
            return True

    def redeem(self, task_id: str, grant: str) -> Perform:
        """Open the step that a person approved; the same grant again returns it while the step is open."""
        with self.lock:
            self._ensure_drive()
            is_used = queries.check_grant(self.world, self.task(task_id), grant)
            if not is_used:
                kept, cue = self.context_of(task_id, None, None)
                self.answer(task_id, Proceed(grant, kept, cue), effects=EveryAction())
            step = self._step
            if step is not None and step.task.id == task_id:
                return step
            if is_used:
                raise NotAllowed("grant_used", id=task_id)
            raise NotAllowed("grant_void", id=task_id)

    def report(self, task_id: str, result: ActionResult) -> None:
        """Record how the redeemed action ended; the focus is decided anew in the same transaction."""
        with self.lock:
            drive, step = self._ensure_drive(), self._step
            if step is None or step.task.id != task_id:
                raise Conflict("step_not_open", id=task_id, state=self.task(task_id).state)
            try:
                turns.commit_facts(self.world, drive, step, result, self.policy)
                self._step = None
                seal(self.world, drive.lane)
            except LaneLost:
                self._lose()
                raise

    def task(self, task_id: str) -> Task:
        """Return a task of this lane as it is now."""
        number = task_number(task_id)
        lane = lanes.get_lane(self.world, self.lane, owner=self.owner)
        task = queries.find_task(self.world, number)
        if task is None or task.lane != lane.number:
            raise NotFound("task_unknown", id=task_id, lane=self.lane)
        return task

    def context_of(
        self, task_id: str, context: object, note: str | None, *, clear: bool = False
    ) -> tuple[object, str | None]:
        """Return the context and note for a directive: what the host hands over, else what is kept."""
        if clear and context is not None:
            raise InvalidInput("context_given_and_cleared")
        task = self.task(task_id)
        kept = None if task.context is None or clear else decode(task.context)
        return kept if context is None else context, task.note if note is None else note

    # -- life ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the lane back; its focus stays where it is, for the next driver."""
        with self.lock:
            drive, self._drive = self._drive, None
            self._stop_keeping()
            if drive is not None:
                with suppress(HoraeError):
                    lanes.let_go(self.world, drive)

    @property
    def is_driving(self) -> bool:
        return self._drive is not None

    def hears(self, hint: str) -> bool:
        """Return whether a hint of the store may be about this lane."""
        drive = self._drive
        return not hint.startswith("lane:") or drive is None or hint == lanes.hint(drive.lane)

    @property
    def is_silent(self) -> bool:
        return self._lets_go and self.world.clock.monotonic() - self._used_at > SILENCE.total_seconds()

    def _keeps_on(self) -> bool:
        """Return whether the lease is renewed; a host that has been silent for long gives the lane back."""
        if self.is_silent:
            self.close()
            return False
        return True

    def _ensure_drive(self) -> Drive:
        self._used_at = self.world.clock.monotonic()
        [shard] = self._databases.within(owner=self.owner)
        serve_due(shard, self.driver)
        if self._keeper is not None and self._keeper.lost:
            self._lose()
        if self._drive is None:
            self._drive = lanes.acquire(
                self.world, self.lane, self.driver, owner=self.owner, lease=LEASE, policy=self.policy
            )
            if self._drive is None:
                raise Conflict("lane_driven_elsewhere", lane=self.lane)
            self._keeper = Keeper(self.world, self._drive, LEASE, self._keeps_on)
            self._keeper.start()
        return self._drive

    def _next(self, drive: Drive) -> Work | None:
        """Return the focus in its turn, or in the step that this host redeemed.

        A step that another kind of driver left open fails, as it cannot run here.
        """
        while isinstance(work := turns.next_work(self.world, drive, Control(), self.policy), Perform):
            if self._step is not None and self._step.key == work.key:
                return work
            missing = ActionResult("failed", {"error": "the lane is driven over MCP now, without this action"})
            turns.commit_facts(self.world, drive, work, missing, self.policy)
        self._step = None
        return work

    def _focus(self, drive: Drive, task_id: str) -> Think:
        work = self._next(drive)
        if work is not None and work.task.id == task_id:
            if isinstance(work, Perform):
                raise Conflict("step_open", id=task_id, action=work.action)
            return work
        state = self.task(task_id).state
        focus = "no task" if work is None else work.task.id
        if state in FINAL:
            raise Conflict("task_has_ended", id=task_id, state=state, focus=focus)
        raise Conflict("task_not_focused", id=task_id, state=state, focus=focus)

    def _lose(self) -> None:
        self._stop_keeping()
        self._drive, self._delivered, self._step = None, frozenset(), None

    def _stop_keeping(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        self._keeper = None


class LaneSessions:
    """The sessions of one server, one for each owner and lane."""

    def __init__(self, world: World, *, lets_go: bool = False) -> None:
        self.world = world
        self.driver = f"mcp:{socket.gethostname()}:{os.getpid()}:{world.dice.name(6)}"
        self._lets_go = lets_go
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], LaneSession] = {}

    def at(self, lane: str, owner: str) -> LaneSession:
        with self._lock:
            session = self._sessions.get((owner, lane))
            if session is None:
                session = LaneSession(self.world, lane, owner, self.driver, lets_go=self._lets_go)
                self._sessions[(owner, lane)] = session
            return session

    def close(self) -> None:
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
