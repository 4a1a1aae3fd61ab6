"""The driver's verbs: get the next work, commit what cognition decided, commit how an action ended.

One decision is recorded once. Cognition and actions run outside any transaction, between two of these verbs; each
verb is refused when another driver has the lane by now, so that a zombie changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from horae.actions.attention.cites import HELD, ask_for_looks, is_stale_grant, release_held, why_held, why_refused
from horae.actions.attention.focus import dispatch, expire_old, must_end, safe_point
from horae.actions.attention.inbox import end_cancelled
from horae.actions.attention.lanes import Drive, LaneWriter, effective, write_as_driver
from horae.actions.attention.waits import find_grant, open_waits, take_early
from horae.core.attention.directives import (
    Act,
    Directive,
    Done,
    Effect,
    FactKind,
    FactList,
    Fail,
    Proceed,
    Wait,
    Yield,
    intent_hash,
    step_key,
    wait_keys,
)
from horae.core.attention.lanes import Lane, Task, TaskWait
from horae.core.attention.task import Control, Policy, wait_span
from horae.core.jobs.payloads import decode, encode
from horae.core.time.instants import iso
from horae.errors import LaneLost
from horae.ports import World

BACKOFF = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Think:
    """Ask cognition what to do."""

    task: Task
    facts: FactList
    consumed: tuple[int, ...]  # the numbers of these facts
    control: Control


@dataclass(frozen=True, slots=True)
class Perform:
    """Run an action whose intent is written down."""

    task: Task
    action: str
    arguments: Mapping[str, Any]
    key: str
    effect: Effect
    control: Control


Work = Think | Perform
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


def next_work(world: World, drive: Drive, control: Control, policy: Policy) -> Work | None:
    """Return what the lane needs done now; None when it has to wait."""

    def write(writer: LaneWriter) -> Work | None:
        allowed = effective(writer.lane, control)
        live = expire_old(writer, policy)
        focus = next((task for task in live if task.state == "running"), None)
        if focus is not None and (focus.phase == "gap" or (focus.phase == "think" and not writer.lane.knows(focus))):
            focus = safe_point(writer, focus, live, allowed, policy)
            if focus is None:  # the task that had it is suspended now, or has ended
                live = writer.tx.attention.live_tasks(writer.lane.number)
        if focus is None:
            if release_held(writer):
                live = writer.tx.attention.live_tasks(writer.lane.number)
            focus = dispatch(writer, live, allowed, policy)
        return None if focus is None else work_for(writer, focus, allowed)

    return write_as_driver(world, drive, control, write)


def work_for(writer: LaneWriter, focus: Task, control: Control) -> Work:
    """Return the open step of the focus, or its next turn."""
    if focus.phase == "act":
        return _perform(focus, control)
    if focus.phase == "gap":
        focus = writer.save(focus, replace(focus, phase="think"))
        writer.line("thinks", focus)
    facts = writer.tx.attention.new_facts(focus.number)
    return Think(focus, FactList(tuple(each.fact for each in facts)), tuple(each.number for each in facts), control)


def _perform(focus: Task, control: Control) -> Perform:
    intent = decode(focus.intent or "{}")
    assert focus.effect is not None
    return Perform(focus, intent["action"], intent["arguments"], intent["key"], focus.effect, control)


# -- what cognition decided ---------------------------------------------------------------------------------------


def commit_turn(
    world: World,
    drive: Drive,
    think: Think,
    directive: Directive,
    *,
    policy: Policy,
    effects: Mapping[str, Effect],
) -> Work | None:
    """Write a decision down with the context it leaves, and return the work that follows from it at once."""

    def write(writer: LaneWriter) -> Work | None:
        control = effective(writer.lane, think.control)
        task = _get_current(writer, drive, think.task, "think")
        _consume(writer, task, think.consumed)
        context = None if directive.context is None else encode(directive.context, "context")
        left = None if task.clean_up is None else max(0, task.clean_up - 1)
        decided = replace(
            task, context=context, note=directive.note, turn=task.turn + 1, errors=0, crashes=0, holds=False,
            held_since=None, clean_up=left,
        )  # fmt: skip
        task = writer.save(task, decided)
        if isinstance(directive, Done | Fail):
            _finish(writer, task, directive)
            return None
        if must_end(task) and (task.clean_up is None or not isinstance(directive, Act | Proceed)):
            end_cancelled(writer, task, task.reason)
            return None
        followed = _follow(writer, task, directive, control, policy, effects)
        if isinstance(directive, Act) and followed is None and why_held(writer, directive.intent):
            held.append(writer.lane)
        return followed

    held: list[Lane] = []
    work = write_as_driver(world, drive, think.control, write)
    if held and isinstance(directive, Act):
        ask_for_looks(world, held[-1].owner, held[-1].name, directive.cites)
    return work


def _follow(
    writer: LaneWriter,
    task: Task,
    directive: Directive,
    control: Control,
    policy: Policy,
    effects: Mapping[str, Effect],
) -> Work | None:
    if isinstance(directive, Wait):
        _park(writer, task, wait_keys(directive.on), wait_span(directive.timeout, policy))
        return None
    if isinstance(directive, Act):
        return _act(writer, task, directive, control, effects)
    if isinstance(directive, Proceed):
        return _proceed(writer, task, directive, control, effects)
    assert isinstance(directive, Yield)
    if directive.release:
        writer.move(task, "yielded", "yielded", ready_since=writer.now, phase="gap")
        return None
    task = writer.save(task, replace(task, phase="gap"))
    writer.line("yielded", task)
    safe_point(writer, task, expire_old(writer, policy), control, policy)
    return None


def _finish(writer: LaneWriter, task: Task, directive: Done | Fail) -> None:
    writer.forget(task.deadline_job)
    if isinstance(directive, Done):
        writer.move(task, "done", "done", result=encode(directive.result, "result"), deadline_job=None)
    else:
        reason = directive.reason
        writer.move(task, "failed", "failed", {"reason": reason}, reason=reason, deadline_job=None)


def _park(
    writer: LaneWriter, task: Task, keys: Sequence[str], timeout: timedelta, *, cites: Sequence[str] = (),
    why: Sequence[str] = (), **fields: Any,
) -> None:  # fmt: skip
    """Let a task wait (T7), and wake it at once where its event has come already (T12); end a cancelled one."""
    if must_end(task):
        end_cancelled(writer, task, task.reason)
        return
    waits = open_waits(writer, task, keys, timeout, **fields)
    until: dict[str, Any] = {"keys": list(keys), "deadline": iso(waits[0].deadline)}
    until |= ({"cites": list(cites)} if cites else {}) | ({"why": list(why)} if why else {})
    parked = writer.move(task, "parked", "parked", until, phase="gap", intent=None, effect=None)
    take_early(writer, parked, waits)


def _act(
    writer: LaneWriter, task: Task, directive: Act, control: Control, effects: Mapping[str, Effect]
) -> Work | None:
    intent = directive.intent if directive.interruptible else {**directive.intent, "interruptible": False}
    known = directive.action in effects
    refused = why_refused(writer, directive.cites) if known else "this lane has no such action"
    if refused is not None:
        writer.fact(task, "action_failed", {"error": refused}, action=directive.action)
        task = writer.save(task, replace(task, phase="gap"))
        writer.line("step_refused", task, action=directive.action)
        return None
    why, asks = why_held(writer, intent), control.needs_confirmation(directive.action)
    if asks or why:
        intent = {**intent, "why": why} if why else intent
        text = encode(intent, "intent")
        key = f"{'confirm:' if asks else HELD}{task.number}:{task.turn}"
        _park(
            writer, task, [key], control.confirm_timeout, cites=directive.cites, why=why, kind="confirm", intent=text,
            intent_hash=intent_hash(intent),
        )  # fmt: skip
        return None
    return _intend(writer, task, intent, control, effects, holds=not directive.interruptible)


def _proceed(
    writer: LaneWriter, task: Task, directive: Proceed, control: Control, effects: Mapping[str, Effect]
) -> Work | None:
    """Do exactly what was approved, once."""
    confirmation = find_grant(writer, task, directive.grant)
    intent = None if confirmation is None or confirmation.intent is None else decode(confirmation.intent)
    if confirmation is None or intent is None or _is_void(writer, confirmation, intent, effects):
        writer.fact(task, "grant_refused", {"grant": directive.grant})
        task = writer.save(task, replace(task, phase="gap"))
        writer.line("grant_refused", task)
        return None
    writer.save(confirmation, replace(confirmation, used_at=writer.now))
    return _intend(writer, task, intent, control, effects, holds=not intent.get("interruptible", True))


def _is_void(
    writer: LaneWriter, confirmation: TaskWait, intent: Mapping[str, Any], effects: Mapping[str, Effect]
) -> bool:
    """Return whether a grant is worth nothing any more: the action is gone, or what it cites is doubtful again."""
    return intent.get("action") not in effects or is_stale_grant(writer, confirmation, intent)


def _intend(
    writer: LaneWriter,
    task: Task,
    intent: Mapping[str, Any],
    control: Control,
    effects: Mapping[str, Effect],
    *,
    holds: bool,
) -> Work:
    step = task.step + 1
    key = step_key(writer.lane.name, task.number, step)
    cites = {"cites": intent["cites"]} if intent.get("cites") else {}
    whole = {"action": intent["action"], "arguments": intent["arguments"], **cites, "key": key}
    intended = replace(
        task, phase="act", step=step, intent=encode(whole, "intent"), effect=effects[intent["action"]], holds=holds,
        held_since=writer.now if holds else None,
    )  # fmt: skip
    writer.save(task, intended)
    writer.line("step_intended", intended, action=intent["action"], step=step, holds=holds, **cites)
    return _perform(intended, control)


def commit_error(world: World, drive: Drive, think: Think, error: str, policy: Policy) -> None:
    """Let a task whose cognition failed rest and try again; fail it after the policy's number of errors in a row."""

    def write(writer: LaneWriter) -> None:
        task = _get_current(writer, drive, think.task, "think")
        errors = task.errors + 1
        writer.line("turn_failed", task, error=error[:2000], errors=errors)
        if errors >= policy.turn_errors:
            writer.forget(task.deadline_job)
            reason = f"cognition failed {errors} times: {error[:500]}"
            writer.move(task, "failed", "failed", {"reason": reason}, reason=reason, errors=errors, deadline_job=None)
            return
        task = writer.save(task, replace(task, errors=errors))
        _park(writer, task, [f"backoff:{task.number}:{errors}"], BACKOFF * 2 ** (errors - 1), kind="backoff")

    write_as_driver(world, drive, think.control, write)


# -- how an action ended ------------------------------------------------------------------------------------------


def commit_facts(
    world: World, drive: Drive, step: Perform, action: ActionResult | Callable[[Any], ActionResult], policy: Policy, *,
    limit: timedelta | None = None, held_for: timedelta | None = None,
) -> None:  # fmt: skip
    """Write down how an action ended, and decide at once whether the focus stays.

    A transactional action is called here, with the connection of this transaction: what it does and that it was done
    commit together. *limit* bounds each of its statements. The lane is locked meanwhile, so the commit extends its
    lease by *held_for*.
    """

    def write(writer: LaneWriter) -> None:
        control = effective(writer.lane, step.control)
        task = _get_current(writer, drive, step.task, "act")
        if task.step != step.task.step:
            raise LaneLost(drive.driver, drive.epoch)
        result = _run_within(writer, action, limit, held_for) if callable(action) else action
        task = writer.save(task, replace(task, phase="gap", intent=None, effect=None, crashes=0))
        if result.ending == "pending":
            assert result.timeout is not None
            writer.line("step_facts", task, action=step.action, ending=result.ending)
            _park(writer, task, result.on, wait_span(result.timeout, policy))
            return
        unknown = {"key": step.key} if result.ending == "unknown" else {}
        writer.fact(task, FACT_KINDS[result.ending], result.data, action=step.action, step=task.step, **unknown)
        writer.line("step_facts", task, action=step.action, ending=result.ending)
        safe_point(writer, task, expire_old(writer, policy), control, policy)

    write_as_driver(world, drive, step.control, write)


# -- the parts -----------------------------------------------------------------------------------------------------


def _run_within(
    writer: LaneWriter, action: Callable[[Any], ActionResult], limit: timedelta | None, held_for: timedelta | None
) -> ActionResult:
    """Run a transactional action inside the transaction that records it."""
    with writer.tx.lend_connection(limit) as connection:
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
