"""The driver's verbs: get the next work, commit what cognition decided, commit how an action ended.

One decision is recorded once. Cognition and actions run outside any transaction, between two of these verbs; each
verb is refused when another driver has the lane by now, so that a zombie changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from horae.actions.attention.charges import FREE, Costs, charge, settle
from horae.actions.attention.cites import ask_for_looks, release_held, why_held
from horae.actions.attention.directives import (
    Following,
    finish,
    follow,
    park,
    perform,
    wait_for_budget,
)
from horae.actions.attention.directives import Perform as Perform
from horae.actions.attention.directives import Think as Think
from horae.actions.attention.directives import Work as Work
from horae.actions.attention.endings import end_cancelled, fail
from horae.actions.attention.focus import dispatch, expire_old, must_end, safe_point
from horae.actions.attention.lanes import Drive, LaneWriter, effective, write_as_driver
from horae.core.attention.directives import KEEP, Act, Directive, Done, Effect, Fail, Proceed
from horae.core.attention.facts import FactKind, FactList
from horae.core.attention.lanes import Lane, Task
from horae.core.attention.task import Control, Policy, wait_span
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import decode, encode
from horae.errors import LaneLost
from horae.ports.world import World

BACKOFF = timedelta(seconds=2)


Ending = Literal["ok", "partial", "failed", "unknown", "pending"]
FACT_KINDS: dict[Ending, FactKind] = {  # of the fact that tells cognition of an ending
    "ok": "action_ok", "partial": "action_partial", "failed": "action_failed", "unknown": "action_unknown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action."""

    ending: Ending
    data: Mapping[str, Any]
    on: tuple[str, ...] = ()
    timeout: timedelta | None = None


def next_work(world: World, drive: Drive, control: Control, policy: Policy, costs: Costs = FREE) -> Work | None:
    """Return what the lane needs done now; None when it has to wait."""

    def write(writer: LaneWriter) -> Work | None:
        allowed = effective(writer.lane, control)
        expire_old(writer, policy)
        focus = writer.tx.attention.focus(writer.lane.number)
        if focus is not None and (focus.phase == "gap" or (focus.phase == "think" and not writer.lane.knows(focus))):
            focus = safe_point(writer, focus, allowed, policy)
        if focus is None:
            release_held(writer)
            focus = dispatch(writer, allowed, policy)
        while focus is not None:
            work = work_for(writer, focus, allowed, policy, costs)
            if work is not None:
                return work
            focus = dispatch(writer, allowed, policy)  # the other one waits for its budget
        return None

    return write_as_driver(world, drive, control, write)


def work_for(writer: LaneWriter, focus: Task, control: Control, policy: Policy, costs: Costs = FREE) -> Work | None:
    """Return the open step of the focus, or its next turn; None where that cannot be paid now."""
    if focus.phase == "act":
        return perform(_pay_again(writer, focus, costs), control)
    if costs.budget is not None and focus.charged is None:
        charged, lacking = charge(writer, focus, costs, costs.turns.get(focus.kind))
        if lacking is not None:
            wait_for_budget(writer, focus, lacking, policy)
            return None
        focus = writer.save(focus, replace(focus, charged=charged))
    if focus.phase == "gap":
        focus = writer.save(focus, replace(focus, phase="think"))
        writer.line("thinks", focus)
    facts = writer.tx.attention.new_facts(focus.number)
    return Think(focus, FactList(tuple(each.fact for each in facts)), tuple(each.number for each in facts), control)


def _pay_again(writer: LaneWriter, focus: Task, costs: Costs) -> Task:
    """Charge a step that is tried again after a crash: what the lost try took stays spent.

    It cannot wait for a refill, for it may have happened in part; a budget that has no room left is overdrawn.
    """
    if costs.budget is None or focus.charged is not None:
        return focus
    cost = costs.steps.get(decode(focus.intent or "{}").get("action", ""))
    charged, _ = charge(writer, focus, costs, cost, overdraw=True)
    return writer.save(focus, replace(focus, charged=charged))


# -- what cognition decided ---------------------------------------------------------------------------------------


def commit_turn(
    world: World,
    drive: Drive,
    think: Think,
    directive: Directive,
    *,
    policy: Policy,
    effects: Mapping[str, Effect],
    costs: Costs = FREE,
    spent: Mapping[str, int] | None = None,
) -> Work | None:
    """Write a decision down with the context it leaves, and return the work that follows from it at once.

    *spent* is what the turn has really cost.
    """
    rules = Following(policy, effects, costs)

    def write(writer: LaneWriter) -> Work | None:
        control = effective(writer.lane, think.control)
        task = _get_current(writer, drive, think.task, "think")
        task = settle(writer, task, spent)
        _consume(writer, task, think.consumed)
        left = None if task.clean_up is None else max(0, task.clean_up - 1)
        decided = replace(
            task, **_kept(directive), turn=task.turn + 1, errors=0, crashes=0, holds=False, held_since=None,
            clean_up=left,
        )  # fmt: skip
        task = writer.save(task, decided)
        if isinstance(directive, Done | Fail):
            finish(writer, task, directive)
            return None
        if must_end(task) and (task.clean_up is None or not isinstance(directive, Act | Proceed)):
            end_cancelled(writer, task, task.reason)
            return None
        if task.turn >= policy.max_turns:
            fail(writer, task, f"it has had {task.turn} turns, the most that its lane allows")
            return None
        followed = follow(writer, task, directive, control, rules)
        if isinstance(directive, Act) and followed is None and why_held(writer, directive.intent):
            held.append(writer.lane)
        return followed

    held: list[Lane] = []
    work = write_as_driver(world, drive, think.control, write)
    if held and isinstance(directive, Act):
        ask_for_looks(world, held[-1].owner, held[-1].name, directive.cites)
    return work


def _kept(directive: Directive) -> dict[str, Any]:
    """Return the context and the note that a decision leaves, without those that it leaves as they are."""
    found: dict[str, Any] = {} if directive.note is KEEP else {"note": directive.note}
    if directive.context is not KEEP:
        found["context"] = None if directive.context is None else encode(directive.context, "context")
    return found


def commit_error(
    world: World, drive: Drive, think: Think, error: str, policy: Policy, *, spent: Mapping[str, int] | None = None
) -> None:
    """Let a task whose cognition failed rest and try again; fail it after the policy's number of errors in a row."""

    def write(writer: LaneWriter) -> None:
        task = _get_current(writer, drive, think.task, "think")
        errors = task.errors + 1
        writer.line("turn_failed", task, error=error[:2000], errors=errors)
        task = settle(writer, task, spent)
        if errors >= policy.turn_errors:
            fail(writer, task, f"cognition failed {errors} times: {error[:500]}", errors=errors)
            return
        task = writer.save(task, replace(task, errors=errors))
        park(writer, task, [f"backoff:{task.number}:{errors}"], BACKOFF * 2 ** (errors - 1), kind="backoff")

    write_as_driver(world, drive, think.control, write)


# -- how an action ended ------------------------------------------------------------------------------------------


def commit_facts(
    world: World, drive: Drive, step: Perform, action: ActionResult | Callable[[Any], ActionResult], policy: Policy, *,
    limit: timedelta | None = None, held_for: timedelta | None = None,
    spent: Callable[[], Mapping[str, int] | None] = lambda: None,
) -> None:  # fmt: skip
    """Write down how an action ended, and decide at once whether the focus stays.

    A transactional action is called here, with the connection of this transaction: what it does and that it was done
    commit together. *limit* bounds it; after that it is rolled back. The lane is locked meanwhile, so the commit
    extends its lease by *held_for*.
    """

    def write(writer: LaneWriter) -> None:
        control = effective(writer.lane, step.control)
        task = _get_current(writer, drive, step.task, "act")
        if task.step != step.task.step:
            raise LaneLost(drive.driver, drive.epoch)
        result = _run_within(writer, action, limit, held_for) if callable(action) else action
        task = settle(writer, task, spent())
        task = writer.save(task, replace(task, phase="gap", intent=None, effect=None, crashes=0))
        if result.ending == "pending":
            assert result.timeout is not None
            writer.line("step_facts", task, action=step.action, ending=result.ending)
            park(writer, task, result.on, wait_span(result.timeout, policy))
            return
        unknown = {"key": step.key} if result.ending == "unknown" else {}
        writer.fact(task, FACT_KINDS[result.ending], result.data, action=step.action, step=task.step, **unknown)
        writer.line("step_facts", task, action=step.action, ending=result.ending)
        expire_old(writer, policy)
        focus = writer.tx.attention.focus(writer.lane.number)  # one that expired may have asked it to end
        if focus is not None:
            safe_point(writer, focus, control, policy)

    write_as_driver(world, drive, step.control, write)


# -- the parts -----------------------------------------------------------------------------------------------------


def _run_within(
    writer: LaneWriter, action: Callable[[Any], ActionResult], limit: timedelta | None, held_for: timedelta | None
) -> ActionResult:
    """Run a transactional action inside the transaction that records it."""
    with writer.tx.lend_connection(limit, whole=True) as connection:
        result = action(connection)
    if held_for is not None:
        writer.lane = replace(writer.lane, leased_until=writer.world.clock.steady() + held_for)
    return result


def _get_current(writer: LaneWriter, drive: Drive, seen: Task, phase: str) -> Task:
    """Return the task as it is now, or refuse where it is no longer in the driver's phase and turn."""
    task = writer.tx.attention.task(seen.number)
    if task is None or task.state != "running" or task.phase != phase or task.turn != seen.turn:
        raise LaneLost(drive.driver, drive.epoch)
    return task


def _consume(writer: LaneWriter, task: Task, numbers: Sequence[int]) -> None:
    """Mark the facts of this turn as read; those that came while cognition was thinking stay for the next turn."""
    read = set(numbers)
    for fact in writer.tx.attention.new_facts(task.number):
        if fact.number in read:
            writer.save(fact, replace(fact, turn=task.turn + 1))
