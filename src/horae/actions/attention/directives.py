"""What follows from a decision of cognition: an intent, a wait, child tasks, or an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

from horae.actions.attention.charges import Costs, Lacking, charge, pause_until
from horae.actions.attention.cites import HELD, is_stale_grant, why_held, why_refused
from horae.actions.attention.endings import OF_TASK, end_cancelled, fail, resolve_by_end, task_of_lane
from horae.actions.attention.focus import expire_old, must_end, safe_point
from horae.actions.attention.inbox import put
from horae.actions.attention.lanes import LaneWriter
from horae.actions.attention.waits import find_grant, open_waits, take_early
from horae.core.attention.directives import (
    Act,
    Child,
    Directive,
    Done,
    Effect,
    Fail,
    Join,
    Proceed,
    Since,
    Sleep,
    Start,
    Wait,
    Yield,
    intent_hash,
    listed_children,
    step_key,
    task_ids,
    wait_keys,
)
from horae.core.attention.facts import FactList
from horae.core.attention.lanes import Task, TaskWait
from horae.core.attention.numbers import task_number
from horae.core.attention.task import FINAL, Control, Policy, wait_span
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import decode, encode
from horae.core.time.instants import iso
from horae.errors import InvalidInput


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


@dataclass(frozen=True, slots=True)
class Following:
    """What a decision is held against: the lane's policy, the actions of its driver, and what they cost."""

    policy: Policy
    effects: Mapping[str, Effect]
    costs: Costs


def perform(focus: Task, control: Control) -> Perform:
    """Return the step that is written down."""
    intent = decode(focus.intent or "{}")
    assert focus.effect is not None
    return Perform(focus, intent["action"], intent["arguments"], intent["key"], focus.effect, control)


def follow(writer: LaneWriter, task: Task, directive: Directive, control: Control, rules: Following) -> Work | None:
    """Do what a decision asks for, in the transaction that records it; return the step to run."""
    policy = rules.policy
    if isinstance(directive, Act):
        return _act(writer, task, directive, control, rules)
    if isinstance(directive, Proceed):
        return _proceed(writer, task, directive, control, rules)
    if isinstance(directive, Wait):
        early = _early(writer, task, directive.since)
        park(writer, task, wait_keys(directive.on), wait_span(directive.timeout, policy), early=early)
    elif isinstance(directive, Sleep):
        key = f"sleep:{task.number}:{task.turn}"
        park(writer, task, [key], wait_span(directive.duration, policy), kind="sleep")
    elif isinstance(directive, Join):
        joined = [task_of_lane(writer, task_number(each)) for each in task_ids(directive.tasks)]
        _join(writer, task, joined, wait_span(directive.timeout, policy), every=directive.every)
    elif isinstance(directive, Start):
        _start(writer, task, directive, control, policy)
    else:
        assert isinstance(directive, Yield)
        _yield(writer, task, directive, control, policy)
    return None


def finish(writer: LaneWriter, task: Task, directive: Done | Fail) -> None:
    """End a task as its cognition says (T9, T10)."""
    if isinstance(directive, Fail):
        fail(writer, task, directive.reason)
        return
    writer.forget(task.deadline_job)
    writer.move(task, "done", "done", result=encode(directive.result, "result"), deadline_job=None)


def _yield(writer: LaneWriter, task: Task, directive: Yield, control: Control, policy: Policy) -> None:
    if directive.release:
        writer.move(task, "yielded", "yielded", ready_since=writer.now, phase="gap")
        return
    _go_on(writer, task, "yielded")
    expire_old(writer, policy)
    focus = writer.tx.attention.focus(writer.lane.number)
    if focus is not None:
        safe_point(writer, focus, control, policy)


def _go_on(writer: LaneWriter, task: Task, cause: str, **details: Any) -> Task:
    """Leave the focus where it is, at a safe point."""
    task = writer.save(task, replace(task, phase="gap"))
    writer.line(cause, task, **details)
    return task


# -- waits ---------------------------------------------------------------------------------------------------------


def park(
    writer: LaneWriter, task: Task, keys: Sequence[str], timeout: timedelta, *, cites: Sequence[str] = (),
    why: Sequence[str] = (), early: datetime | Literal[False] | None = None, **fields: Any,
) -> list[TaskWait]:  # fmt: skip
    """Let a task wait (T7), and wake it at once where its event has come already (T12); end a cancelled one.

    An *early* event is one that was posted since then; False: none is.
    """
    if must_end(task):
        end_cancelled(writer, task, task.reason)
        return []
    waits = open_waits(writer, task, keys, timeout, **fields)
    until: dict[str, Any] = {"keys": list(keys), "deadline": iso(waits[0].deadline)}
    until |= ({"cites": list(cites)} if cites else {}) | ({"why": list(why)} if why else {})
    parked = writer.move(task, "parked", "parked", until, phase="gap", intent=None, effect=None)
    if early is not False:
        take_early(writer, parked, waits, early)
    return waits


def _early(writer: LaneWriter, task: Task, since: Since) -> datetime | Literal[False] | None:
    """Return since when an event counts that came before the wait."""
    if since == "now":
        return False
    return task.created_at if since == "task" else None


def wait_for_budget(writer: LaneWriter, task: Task, lacking: Lacking, policy: Policy) -> None:
    """Let a task wait until its budget is refilled; fail it where that never helps."""
    if lacking.until is None:
        fail(writer, task, lacking.reason)
        return
    span = pause_until(lacking, writer.now, policy.longest_wait)
    writer.fact(task, "budget_empty", {"reason": lacking.reason, "until": iso(writer.now + span)})
    park(writer, task, [f"budget:{task.number}:{task.turn}"], span, kind="budget", why=[lacking.reason])


def _join(writer: LaneWriter, task: Task, joined: Sequence[Task], timeout: timedelta, *, every: bool) -> None:
    """Let a task wait for the ends of others; those that have ended already count at once."""
    if any(each.number == task.number for each in joined):
        raise InvalidInput("task_joins_itself", id=task.id)
    keys = [f"{OF_TASK}{each.id}" for each in joined]
    waits = park(writer, task, keys, timeout, kind="tasks" if every else "task", early=False)
    for wait, each in zip(waits, joined, strict=False):
        still = writer.tx.attention.wait(wait.number)
        ended = writer.tx.attention.task(each.number)
        if still is not None and still.state == "open" and ended is not None and ended.state in FINAL:
            resolve_by_end(writer, still, ended)


def _start(writer: LaneWriter, task: Task, directive: Start, control: Control, policy: Policy) -> None:
    """Start child tasks, and wait for them where a timeout is given."""
    started = [_put_child(writer, task, each, policy.max_tasks) for each in listed_children(directive.children)]
    known = [{"task": each.id, "kind": each.kind, "key": each.key} for each in started]
    writer.fact(task, "tasks_started", {"tasks": known})
    if directive.timeout is not None:
        _join(writer, task, started, wait_span(directive.timeout, policy), every=directive.every)
        return
    task = _go_on(writer, task, "tasks_started", tasks=[each.id for each in started])
    safe_point(writer, task, control, policy)


def _put_child(writer: LaneWriter, task: Task, child: Child, most: int) -> Task:
    payload = encode({} if child.payload is None else child.payload, max_bytes=writer.world.max_payload_bytes)
    base = task.base if child.priority is None else child.priority
    wanted = Task(
        0, 0, child.kind, "created", base, payload, key=child.key, created_at=writer.now,
        parent=None if child.detached else task.number,
    )  # fmt: skip
    return put(writer, wanted, f"task/{task.id}", most).task


# -- actions -------------------------------------------------------------------------------------------------------


def _act(writer: LaneWriter, task: Task, directive: Act, control: Control, rules: Following) -> Work | None:
    intent = directive.intent if directive.interruptible else {**directive.intent, "interruptible": False}
    known = directive.action in rules.effects
    refused = why_refused(writer, directive.cites) if known else "this lane has no such action"
    if refused is not None:
        writer.fact(task, "action_failed", {"error": refused}, action=directive.action)
        _go_on(writer, task, "step_refused", action=directive.action)
        return None
    why, asks = why_held(writer, intent), control.needs_confirmation(directive.action)
    if asks or why:
        intent = {**intent, "why": why} if why else intent
        text = encode(intent, "intent")
        key = f"{'confirm:' if asks else HELD}{task.number}:{task.turn}"
        park(
            writer, task, [key], control.confirm_timeout, cites=directive.cites, why=why, kind="confirm", intent=text,
            intent_hash=intent_hash(intent),
        )  # fmt: skip
        return None
    return _intend(writer, task, intent, control, rules, holds=not directive.interruptible)


def _proceed(writer: LaneWriter, task: Task, directive: Proceed, control: Control, rules: Following) -> Work | None:
    """Do exactly what was approved, once."""
    confirmation = find_grant(writer, task, directive.grant)
    intent = None if confirmation is None or confirmation.intent is None else decode(confirmation.intent)
    if confirmation is None or intent is None or _is_void(writer, confirmation, intent, rules.effects):
        writer.fact(task, "grant_refused", {"grant": directive.grant})
        _go_on(writer, task, "grant_refused")
        return None
    return _intend(
        writer, task, intent, control, rules, holds=not intent.get("interruptible", True), granted=confirmation
    )


def _is_void(
    writer: LaneWriter, confirmation: TaskWait, intent: Mapping[str, Any], effects: Mapping[str, Effect]
) -> bool:
    """Return whether a grant is worth nothing any more: the action is gone, or what it cites is doubtful again."""
    return intent.get("action") not in effects or is_stale_grant(writer, confirmation, intent)


def _intend(
    writer: LaneWriter, task: Task, intent: Mapping[str, Any], control: Control, rules: Following, *, holds: bool,
    granted: TaskWait | None = None,
) -> Work | None:  # fmt: skip
    """Write an intent down before it is carried out; not where it cannot be paid or is one step too many.

    A grant that could not be paid for stays valid until its deadline.
    """
    action = intent["action"]
    if task.step >= rules.policy.max_steps:
        fail(writer, task, f"it has had {task.step} steps, the most that its lane allows")
        return None
    charged, lacking = charge(writer, task, rules.costs, rules.costs.steps.get(action))
    if lacking is not None:
        _refuse_unpaid(writer, task, action, lacking, rules.policy)
        return None
    if granted is not None:
        writer.save(granted, replace(granted, used_at=writer.now))
    step = task.step + 1
    key = step_key(writer.lane.name, task.number, step)
    cites = {"cites": intent["cites"]} if intent.get("cites") else {}
    whole = {"action": action, "arguments": intent["arguments"], **cites, "key": key}
    intended = replace(
        task, phase="act", step=step, intent=encode(whole, "intent"), effect=rules.effects[action], holds=holds,
        held_since=writer.now if holds else None, charged=charged,
    )  # fmt: skip
    writer.save(task, intended)
    writer.line("step_intended", intended, action=action, step=step, holds=holds, **cites)
    return perform(intended, control)


def _refuse_unpaid(writer: LaneWriter, task: Task, action: str, lacking: Lacking, policy: Policy) -> None:
    """Let a task whose step cannot be paid wait for its budget, or hear that this step never can be."""
    if lacking.until is not None:
        wait_for_budget(writer, task, lacking, policy)
        return
    writer.fact(task, "action_failed", {"error": lacking.reason}, action=action)
    _go_on(writer, task, "step_refused", action=action)
