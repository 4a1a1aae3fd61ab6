"""Tools of a host that drives its own turns: at safe points it states its decision and receives what happened.

The first call is ``safe_point`` without a task: it returns the focus, and gives a free focus away. From then on every
call that names the task commits the host's turn; the reply to ``safe_point`` opens the next one. Driving a lane is no
operation of a room, so these tools use the verbs of the lane through their session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from horae.actions.attention.lanes import effective, get_lane
from horae.actions.attention.queries import new_facts, open_waits_and_facts
from horae.actions.attention.turns import ActionResult, Perform, Think, Work
from horae.actions.consistency import moment
from horae.api.attention.values import Task, TaskDetail
from horae.api.attention.values import Wait as OpenWait
from horae.api.values import extend, to_public
from horae.core.attention import lanes as core
from horae.core.attention.directives import MAX_KEYS, Act, Directive, Done, Fail, Wait, Yield
from horae.core.attention.task import Control
from horae.core.jobs.payloads import decode
from horae.errors import Conflict, InvalidInput, NotAllowed
from horae.mcp.arguments import (
    MAX_REASON,
    Cites,
    ClearContext,
    Context,
    Data,
    Grant,
    Keys,
    Note,
    Patience,
    TaskId,
    Text,
    Timeout,
    Turn,
)
from horae.mcp.here import Here
from horae.mcp.lane_sessions import LaneSession
from horae.mcp.long_calls import until
from horae.mcp.shapes import ApprovedStep, Asked, FactLine, Redeemed, SafePoint, TaskEnded, TaskLine, WaitingTask

WHY = {
    "suspended": "interrupted",
    "cancelled": "it was cancelled",
    "completed": "it is completed",
    "failed": "it has failed",
    "waiting": "it waits",
    "ready": "it is in the backlog",
    "created": "its start has not come",
}

DRIVEN = (
    "another process works on the tasks of this lane. If it has died, its lane is free within half a minute: call "
    "next_work again. If it lives, it decides about them: task_add and event_post work all the same"
)


class TurnTools:
    """Tools that only the driver of a lane may use."""

    def __init__(self, here: Here) -> None:
        self._here = here

    @property
    def _session(self) -> LaneSession:
        return self._here.sessions.at(self._here.lane, self._here.who().owner)

    def safe_point(
        self, task_id: TaskId | None = None, context: Context = None, clear_context: ClearContext = False,
        note: Note = None, turn: Turn = None,
    ) -> SafePoint:  # fmt: skip
        """Call it between two steps of work. Without a task: learn what to work on; nothing is committed. With the task
        you work on: your context is kept, and you hear whether to continue or to yield, and what happened meanwhile.
        """
        session = self._session
        with session.lock:
            if task_id is None:
                if context is not None or note is not None or clear_context:
                    raise InvalidInput("task_of_context_missing")
                return _safe_point(session.next_turn(), None, self._why_idle())
            if session.task(task_id).state == "running":
                kept, cue = session.context_of(task_id, context, note, clear=clear_context)
                session.answer(task_id, Yield(context=kept, note=cue), turn=turn)
            work = session.next_turn()
            return _safe_point(work, task_id, _why(session, session.task(task_id), work))

    async def next_work(self, timeout_s: Patience = 25) -> SafePoint:
        """Wait for the next thing to work on, up to timeout_s seconds; the answer is that of safe_point without a task,
        as soon as there is one. `idle` means that nothing came: call it again. It may be cancelled; nothing is lost.
        """
        return await until(self._here, self._look, lambda point: point.answer != "idle", timeout_s)

    def wait_for(
        self, task_id: TaskId, keys: Keys, timeout_s: Timeout, context: Context = None,
        clear_context: ClearContext = False, note: Note = None, turn: Turn = None,
    ) -> WaitingTask:  # fmt: skip
        """Park the task until one of these events is posted or the time is up. Your focus is free meanwhile: call
        next_work for the next one. An event that came before you waited counts as well.
        """
        session = self._session
        with session.lock:
            kept, cue = session.context_of(task_id, context, note, clear=clear_context)
            directive = Wait(keys, timedelta(seconds=timeout_s), kept, cue)
            session.answer(task_id, directive, turn=turn)
            task, waits, facts = self._after(session, task_id)
        return extend(
            WaitingTask,
            to_public(TaskLine, to_public(Task, task)),
            waits=to_public(tuple[OpenWait, ...], waits),
            early=_early(facts) if task.state == "ready" else None,
            durability=self._here.durability,
        )

    def task_done(
        self, task_id: TaskId, result: Annotated[Any, Field(description="Any JSON; kept with the task.")] = None
    ) -> TaskEnded:
        """The task is completed. Call next_work for the next one."""
        return self._end(task_id, "completed", lambda kept, cue: Done(result, kept, cue), result)

    def task_fail(
        self,
        task_id: TaskId,
        reason: Annotated[
            Text, Field(min_length=1, max_length=MAX_REASON, description="Why, as a person would say it.")
        ],
    ) -> TaskEnded:
        """The task cannot be done, and this is why."""
        return self._end(task_id, "failed", lambda kept, cue: Fail(reason, kept, cue))

    def confirm_request(
        self,
        task_id: TaskId,
        action: Annotated[
            str,
            Field(
                min_length=1,
                max_length=100,
                pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]*$",
                description="The name of what you want to do, without spaces, such as send_refund.",
            ),
        ],
        args: Data = None,
        timeout_s: Timeout = 8 * 3600,
        cites: Cites = None,
    ) -> Asked:
        """Ask a person before you act. The task waits; its next turn brings `confirmed` with exactly what was approved
        and a grant for grant_redeem, or `denied`, or `timed_out`. Silence is not a yes. You cannot answer it yourself.
        """
        session = self._session
        with session.lock:
            kept, cue = session.context_of(task_id, None, None)
            act = Act(action, args, cites=cites or (), context=kept, note=cue)
            asks = Control(must_confirm=frozenset({action}), confirm_timeout=timedelta(seconds=timeout_s))
            session.answer(task_id, act, control=asks, effects={action: "once"})
            task, waits, _ = self._after(session, task_id)
        if not waits:
            raise NotAllowed("confirmation_not_opened", id=task.id, state=task.state)
        return extend(Asked, to_public(OpenWait, waits[0]), durability=self._here.durability)

    def grant_redeem(self, task_id: TaskId, grant: Grant) -> Redeemed:
        """Redeem the grant of a `confirmed` fact, once, before you do what was approved: the answer repeats exactly
        that action and its arguments. Do it now, hand `key` on as its idempotency key where you can, then report how it
        ended with action_report. Without that report it counts as unknown.
        """
        step = self._session.redeem(task_id, grant)
        return Redeemed(task_id=task_id, step=_step(step), durability=self._here.durability)

    def action_report(
        self,
        task_id: TaskId,
        outcome: Annotated[
            Literal["ok", "failed", "unknown"],
            Field(description="ok: it was done. failed: it was not done. unknown: you cannot tell; say so."),
        ],
        result: Data = None,
    ) -> SafePoint:
        """Report how the action ended whose grant you redeemed. The answer is that of safe_point: whether to continue
        with the task, and what happened meanwhile.
        """
        session = self._session
        with session.lock:
            session.report(task_id, ActionResult(outcome, result or {}))
            work = session.next_turn()
            return _safe_point(work, task_id, _why(session, session.task(task_id), work))

    def _look(self) -> SafePoint:
        """Return what to work on; a lane that another process drives is waited for, since that one may have died."""
        try:
            return self.safe_point()
        except Conflict as problem:
            if problem.reason != "lane_driven_elsewhere":
                raise
            return SafePoint(answer="idle", reason=DRIVEN)

    def _why_idle(self) -> str:
        """Return why there is nothing to work on, in case there is nothing."""
        lane = get_lane(self._here.world, self._here.lane, owner=self._here.who().owner)
        if not effective(lane, Control()).auto_continue:
            return "an operator has told this agent to hold; call next_work to wait until it may go on"
        return "nothing is ready; call next_work to wait for something"

    # -- the parts -----------------------------------------------------------------------------------------------

    def _end(
        self, task_id: str, state: str, ends: Callable[[Any, str | None], Directive], result: Any = None
    ) -> TaskEnded:
        session = self._session
        with session.lock:
            task = session.task(task_id)
            kept = None if task.result is None else decode(task.result)
            if task.state == state and result not in (None, kept):
                raise Conflict("task_has_result", id=task_id)
            if task.state != state:  # what has ended like that already is not ended again
                session.answer(task_id, ends(*session.context_of(task_id, None, None)))
                task = session.task(task_id)
        return extend(TaskEnded, to_public(TaskLine, to_public(Task, task)), durability=self._here.durability)

    def _after(
        self, session: LaneSession, task_id: str
    ) -> tuple[core.Task, list[core.TaskWait], list[core.StoredFact]]:
        with moment(session.world):
            task = session.task(task_id)
            waits, facts = open_waits_and_facts(session.world, task.number)
            return task, waits[:MAX_KEYS], facts


def _early(facts: list[core.StoredFact]) -> FactLine | None:
    """Return the event that came before its wait."""
    return next((to_public(FactLine, each.fact) for each in facts if each.kind == "event"), None)


def _safe_point(work: Work | None, named: str | None, why: str | None) -> SafePoint:
    if work is None:
        return SafePoint(answer="idle" if named is None else "yield", reason=why)
    stays = named is None or named == work.task.id
    return SafePoint(
        answer="continue" if stays else "yield",
        reason=None if stays else why,
        task=to_public(TaskDetail, work.task),
        turn=work.task.turn + 1 if isinstance(work, Think) else None,
        facts=to_public(tuple[FactLine, ...], work.facts) if isinstance(work, Think) else (),
        step=_step(work) if isinstance(work, Perform) else None,
    )


def _step(step: Perform) -> ApprovedStep:
    return ApprovedStep(action=step.action, args=dict(step.arguments), key=step.key)


def _why(session: LaneSession, task: core.Task, work: Work | None) -> str:
    """Return why the task that was named is no longer the focus."""
    if task.state == "running":
        return "it has the focus"
    if task.state == "suspended":
        facts = new_facts(session.world, task.number)
        newest = (decode(fact.data) for fact in reversed(facts) if fact.kind == "interrupted")
        interruption: dict[str, Any] = next(newest, {})
        if interruption.get("why") == "hold":
            return "control does not let it go on; it comes back when control does"
        return f"interrupted by {interruption.get('by') or 'a stronger task'}; it comes back when that ends or waits"
    reason = f": {task.reason}" if task.state in ("cancelled", "failed") and task.reason else ""
    other = "" if work is None else f"; {work.task.id} has the focus"
    return f"{WHY[task.state]}{reason}{other}"
