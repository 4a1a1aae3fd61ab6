"""The driver's verbs: what to do next, what cognition answered, what an action found.

One decision is recorded once. Cognition and actions run outside any transaction, between two of these verbs; each
verb is refused when somebody else drives the lane by now, so that a zombie's word changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from horae.actions.attention.inbox import end_cancelled
from horae.actions.attention.lanes import Drive, LaneWriter, driving, effective
from horae.actions.attention.waits import closed, grant_for, open_waits, take_early
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
from horae.core.attention.lanes import Task
from horae.core.attention.task import Control, Policy, SafePoint, at_safe_point, choose, wait_span
from horae.core.jobs.payloads import decode, encode
from horae.core.time.instants import iso
from horae.errors import LaneLost
from horae.ports import World

BACKOFF = timedelta(seconds=2)
EXPIRED_BATCH = 100
STARVED = 5  # how many of the longest waiting are looked at
MISSED = 50  # how many lines of what happened meanwhile a resumed task is told


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
HEARD: dict[Ending, FactKind] = {  # as what cognition hears of an ending
    "ok": "action_ok", "partial": "action_partial", "failed": "action_failed", "unknown": "action_unknown",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """How an action ended."""

    ending: Ending
    data: Mapping[str, Any]
    on: tuple[str, ...] = ()
    timeout: timedelta | None = None


def next_work(world: World, drive: Drive, control: Control, policy: Policy) -> Work | None:
    """What the lane wants done now; None when it has to wait for something or somebody."""

    def write(writer: LaneWriter) -> Work | None:
        allowed = effective(writer.lane, control)
        live = expire_old(writer, policy)
        focus = next((task for task in live if task.state == "running"), None)
        if focus is not None and (focus.phase == "gap" or (focus.phase == "think" and not writer.lane.knows(focus))):
            focus = safe_point(writer, focus, live, allowed, policy)
            if focus is None:  # whoever had the focus stands elsewhere now, or has ended
                live = writer.tx.attention.live_tasks(writer.lane.number)
        if focus is None:
            focus = dispatch(writer, live, allowed, policy)
        return None if focus is None else work_for(writer, focus, allowed)

    return driving(world, drive, control, write)


def work_for(writer: LaneWriter, focus: Task, control: Control) -> Work:
    """Its open step, or its next turn."""
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


# -- choosing ------------------------------------------------------------------------------------------------------


def expire_old(writer: LaneWriter, policy: Policy) -> list[Task]:
    """What nobody needs any more leaves the backlog and the mailbox; answers with the tasks that stay."""
    stay: list[Task] = []
    for task in writer.tx.attention.live_tasks(writer.lane.number):
        if task.state in ("created", "ready") and task.expires_at is not None and task.expires_at <= writer.now:
            end_cancelled(writer, task, "expired")
        else:
            stay.append(task)
    for event in writer.tx.attention.pending_events(writer.lane.number, limit=EXPIRED_BATCH):
        if event.posted_at + policy.keep_events > writer.now:
            break
        closed(writer, event, "expired", reason="nobody waited for it")
        writer.line("event_expired", None, event=event.number, key=event.key)
    return stay


def dispatch(writer: LaneWriter, live: Sequence[Task], control: Control, policy: Policy) -> Task | None:
    """T4, for the top of the stack after T14."""
    known = [task.weighed for task in live if writer.lane.knows(task)]
    chosen = choose(known, writer.now, control, policy)
    if chosen is None:
        return None
    note_starved(writer, [task for task in live if task.number != chosen.number], policy)
    task = next(task for task in live if task.number == chosen.number)
    if chosen.resumes:
        writer.fact(task, "resumed", {"note": task.note, "meanwhile": meanwhile(writer, task)})
        task = writer.move(task, "resumed", "resumed", place=None, ready_since=writer.now)
    return writer.move(task, "focused", "focused", phase="think")


def note_starved(writer: LaneWriter, tasks: Sequence[Task], policy: Policy) -> None:
    """Stronger ones may always come first, by design; whoever has waited too long is at least spoken of, once."""
    ready = [(task.ready_since, task) for task in tasks if task.state == "ready" and task.ready_since is not None]
    for since, task in sorted(ready, key=lambda each: each[0])[:STARVED]:
        if writer.now - since >= policy.starved_after:
            lines = writer.tx.attention.lines(writer.lane.number, limit=1000, task=task.number)
            if not any(line.cause == "starved" and line.at >= since for line in lines):
                writer.line("starved", task, since=iso(since))


def meanwhile(writer: LaneWriter, task: Task) -> list[dict[str, Any]]:
    """What the journal says since the task was suspended: a list, not a summary."""
    since = max(0, writer.lane.seq - 1000)
    lines = writer.tx.attention.lines(writer.lane.number, since=since, limit=1000)
    left = max((line.seq for line in lines if line.task == task.number and line.after == "suspended"), default=0)
    told = [line for line in lines if line.seq > left and line.task != task.number and line.after is not None]
    return [{"at": iso(line.at), "task": f"t{line.task}", "became": line.after} for line in told[-MISSED:]]


def safe_point(writer: LaneWriter, focus: Task, live: Sequence[Task], control: Control, policy: Policy) -> Task | None:
    """What becomes of the focus between two steps, beside those that are live; None when the focus is free."""
    if focus.held_since is not None and focus.holds and writer.now - focus.held_since > policy.longest_hold:
        writer.fact(focus, "hold_exceeded", {"since": iso(focus.held_since)})
        focus = writer.save(focus, replace(focus, held_since=None))
        writer.line("hold_exceeded", focus)
    if must_end(focus):
        end_cancelled(writer, focus, focus.reason)
        return None
    verdict = at_safe_point(focus.weighed, writer.lane.rivals(live), control, policy)
    if verdict.verdict != "cancel" and not writer.lane.knows(focus):
        verdict = SafePoint("unknown kind")
    if verdict.verdict == "cancel":
        end_cancelled(writer, focus, focus.reason)
        return None
    if verdict.verdict == "go on":
        return focus
    place = max((task.place or 0 for task in live if task.state == "suspended"), default=-1) + 1
    by = None if verdict.by is None else f"t{verdict.by}"
    writer.fact(focus, "interrupted", {"by": by, "why": verdict.verdict})
    told = {"by": by, "why": verdict.verdict}
    writer.move(focus, "interrupted", "interrupted", told, place=place, holds=False, held_since=None, phase="gap")
    if verdict.by is None:
        return None
    rival = next(task for task in live if task.number == verdict.by)
    return writer.move(rival, "focused", "focused", phase="think")


# -- what cognition answered ---------------------------------------------------------------------------------------


def commit_turn(
    world: World,
    drive: Drive,
    think: Think,
    directive: Directive,
    *,
    policy: Policy,
    effects: Mapping[str, Effect],
) -> Work | None:
    """Write a decision down with the context it leaves; answers with what follows from it at once."""

    def write(writer: LaneWriter) -> Work | None:
        control = effective(writer.lane, think.control)
        task = _still(writer, drive, think.task, "think")
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
        return _follow(writer, task, directive, control, policy, effects)

    return driving(world, drive, think.control, write)


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
        told = {"reason": directive.reason}
        writer.move(task, "failed", "failed", told, reason=directive.reason, deadline_job=None)


def _park(writer: LaneWriter, task: Task, keys: Sequence[str], timeout: timedelta, **told: Any) -> None:
    """T7; and T12 at once, where what it waits for has come already. What was asked to end does not begin to wait."""
    if must_end(task):
        end_cancelled(writer, task, task.reason)
        return
    waits = open_waits(writer, task, keys, timeout, **told)
    until = {"keys": list(keys), "deadline": iso(waits[0].deadline)}
    parked = writer.move(task, "parked", "parked", until, phase="gap", intent=None, effect=None)
    take_early(writer, parked, waits)


def _act(
    writer: LaneWriter, task: Task, directive: Act, control: Control, effects: Mapping[str, Effect]
) -> Work | None:
    intent = directive.intent if directive.interruptible else {**directive.intent, "interruptible": False}
    if directive.action not in effects:
        writer.fact(task, "action_failed", {"error": "this lane has no such action"}, action=directive.action)
        task = writer.save(task, replace(task, phase="gap"))
        writer.line("step_refused", task, action=directive.action)
        return None
    if control.needs_confirmation(directive.action):
        text = encode(intent, "intent")
        key = f"confirm:{task.number}:{task.turn}"
        _park(
            writer, task, [key], control.confirm_timeout, kind="confirm", intent=text, intent_hash=intent_hash(intent)
        )
        return None
    return _intend(writer, task, intent, control, effects, holds=not directive.interruptible)


def _proceed(
    writer: LaneWriter, task: Task, directive: Proceed, control: Control, effects: Mapping[str, Effect]
) -> Work | None:
    """Exactly what was approved, once."""
    found = grant_for(writer, task, directive.grant)
    intent = None if found is None or found.intent is None else decode(found.intent)
    if found is None or intent is None or intent.get("action") not in effects:
        writer.fact(task, "grant_refused", {"grant": directive.grant})
        task = writer.save(task, replace(task, phase="gap"))
        writer.line("grant_refused", task)
        return None
    writer.save(found, replace(found, used_at=writer.now))
    return _intend(writer, task, intent, control, effects, holds=not intent.get("interruptible", True))


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
    whole = {"action": intent["action"], "arguments": intent["arguments"], "key": key}
    intended = replace(
        task, phase="act", step=step, intent=encode(whole, "intent"), effect=effects[intent["action"]], holds=holds,
        held_since=writer.now if holds else None,
    )  # fmt: skip
    writer.save(task, intended)
    writer.line("step_intended", intended, action=intent["action"], step=step, holds=holds)
    return _perform(intended, control)


def commit_error(world: World, drive: Drive, think: Think, error: str, policy: Policy) -> None:
    """Cognition raised, or answered nonsense: the task rests a little and is asked again, up to a limit."""

    def write(writer: LaneWriter) -> None:
        task = _still(writer, drive, think.task, "think")
        errors = task.errors + 1
        writer.line("turn_failed", task, error=error[:2000], errors=errors)
        if errors >= policy.turn_errors:
            writer.forget(task.deadline_job)
            reason = f"cognition failed {errors} times: {error[:500]}"
            writer.move(task, "failed", "failed", {"reason": reason}, reason=reason, errors=errors, deadline_job=None)
            return
        task = writer.save(task, replace(task, errors=errors))
        _park(writer, task, [f"backoff:{task.number}:{errors}"], BACKOFF * 2 ** (errors - 1), kind="backoff")

    driving(world, drive, think.control, write)


# -- what an action found ------------------------------------------------------------------------------------------


def commit_facts(
    world: World, drive: Drive, step: Perform, found: Found | Callable[[Any], Found], policy: Policy, *,
    limit: timedelta | None = None, held_for: timedelta | None = None,
) -> None:  # fmt: skip
    """Write down what an action found, and decide at once whether the focus stays. A transactional action is given
    the connection of this transaction: what it does and that it was done commit together. *limit* bounds each of its
    statements. The lane is locked meanwhile, so the commit extends its lease by *held_for*.
    """

    def write(writer: LaneWriter) -> None:
        control = effective(writer.lane, step.control)
        task = _still(writer, drive, step.task, "act")
        if task.step != step.task.step:
            raise LaneLost(drive.driver, drive.epoch)
        told = _within(writer, found, limit, held_for) if callable(found) else found
        task = writer.save(task, replace(task, phase="gap", intent=None, effect=None, crashes=0))
        if told.ending == "pending":
            assert told.timeout is not None
            writer.line("step_facts", task, action=step.action, ending=told.ending)
            _park(writer, task, told.on, wait_span(told.timeout, policy))
            return
        unknown = {"key": step.key} if told.ending == "unknown" else {}
        writer.fact(task, HEARD[told.ending], told.data, action=step.action, step=task.step, **unknown)
        writer.line("step_facts", task, action=step.action, ending=told.ending)
        safe_point(writer, task, expire_old(writer, policy), control, policy)

    driving(world, drive, step.control, write)


# -- the parts -----------------------------------------------------------------------------------------------------


def _within(
    writer: LaneWriter, action: Callable[[Any], Found], limit: timedelta | None, held_for: timedelta | None
) -> Found:
    with writer.tx.lend_connection(limit) as connection:
        found = action(connection)
    if held_for is not None:
        writer.lane = replace(writer.lane, leased_until=writer.world.clock.steady() + held_for)
    return found


def _still(writer: LaneWriter, drive: Drive, seen: Task, phase: str) -> Task:
    """The task as it is now, if it is still where the driver believes it to be."""
    task = writer.tx.attention.task(seen.number)
    if task is None or task.state != "running" or task.phase != phase or task.turn != seen.turn:
        raise LaneLost(drive.driver, drive.epoch)
    return task


def must_end(task: Task) -> bool:
    """Whether a cancel leaves it no further step: none was granted for cleaning up, or all have been used."""
    return task.cancel_requested and not task.clean_up


def _consume(writer: LaneWriter, task: Task, numbers: Sequence[int]) -> None:
    """These facts have been heard; those that came while cognition was thinking stay for the next turn."""
    heard = set(numbers)
    for fact in writer.tx.attention.new_facts(task.number):
        if fact.number in heard:
            writer.save(fact, replace(fact, turn=task.turn + 1))
