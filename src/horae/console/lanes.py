"""Agents' lanes in words and pictures: tasks, waits, lines of a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from horae.api.attention.values import JournalEntry, LaneControl, Task, Wait
from horae.console import drawing, states, times
from horae.console.texts import _, gettext, listed, mark
from horae.console.visitor import Visit

MOST_ROWS = 8  # of a picture; the table has them all
PHASES = {"think": mark("thinking"), "act": mark("acting"), "gap": mark("between two steps")}
STATES = {
    "created": mark("planned"),
    "ready": mark("ready"),
    "running": mark("in focus"),
    "waiting": mark("waiting"),
    "suspended": mark("interrupted"),
    "completed": mark("done"),
    "failed": mark("failed"),
    "cancelled": mark("cancelled"),
}
KINDS = {"created": "queued", "ready": "queued", "waiting": "held", "suspended": "paused", "completed": "succeeded"}
# How the time that a task spent in a state is drawn.
DRAWN = {"running": "running", "waiting": "waiting", "ready": "ahead", "created": "ahead", "suspended": "skipped"}
CAUSES = {
    "added": mark("was added"),
    "admitted": mark("is ready to begin"),
    "focused": mark("got the focus"),
    "resumed": mark("came back from the stack"),
    "interrupted": mark("was interrupted"),
    "parked": mark("waits"),
    "yielded": mark("let others go first"),
    "thinks": mark("thinks"),
    "done": mark("is done"),
    "failed": mark("failed"),
    "cancelled": mark("was cancelled"),
    "cancel_requested": mark("was asked to end"),
    "cancel_too_late": mark("had ended before it was cancelled"),
    "woken by event": mark("was woken by an event"),
    "woken by timeout": mark("was woken by its deadline"),
    "woken by cancelled": mark("was woken, its wait is off"),
    "step_intended": mark("begins a step"),
    "step_facts": mark("ended a step"),
    "step_refused": mark("may not do that"),
    "grant_refused": mark("has no valid approval"),
    "turn_failed": mark("stumbled while thinking"),
    "event": mark("an event arrived"),
    "event_expired": mark("an event was never asked for"),
    "starved": mark("has waited long for the focus"),
    "hold_exceeded": mark("held the focus for too long"),
    "deadline_passed": mark("its time is up"),
    "recovered": mark("goes on after a crash"),
    "control": mark("an operator changed what is allowed"),
    "late_confirmation": mark("the answer came too late"),
    "task_ended": mark("hears that another task has ended"),
    "tasks_started": mark("started other tasks"),
    "changed": mark("was changed"),
}
FACTS = {
    "started": mark("began"),
    "resumed": mark("goes on"),
    "interrupted": mark("was interrupted"),
    "event": mark("event"),
    "late_event": mark("event, too late"),
    "timed_out": mark("nothing came in time"),
    "confirmed": mark("approved"),
    "denied": mark("refused"),
    "action_ok": mark("step succeeded"),
    "action_failed": mark("step failed"),
    "action_partial": mark("step succeeded in part"),
    "action_unknown": mark("unknown whether the step happened"),
    "cancel_requested": mark("asked to end"),
    "deadline_passed": mark("its time is up"),
    "control_changed": mark("control changed"),
    "recovered": mark("goes on after a crash"),
    "steer": mark("new directions"),
    "hold_exceeded": mark("held the focus for too long"),
    "grant_refused": mark("has no valid approval"),
    "slept": mark("its pause is over"),
    "task_ended": mark("another task has ended"),
    "tasks_started": mark("started other tasks"),
    "budget_empty": mark("its budget is empty"),
}
# What a line of the journal says beside its cause; ``holds`` and ``graceful`` are said only where they are so.
DETAILS = {
    "action": mark("action %(value)s"),
    "became": mark("it is now %(value)s"),
    "by": mark("by %(value)s"),
    "cites": mark("rests on %(value)s"),
    "crashes": mark("crashes so far: %(value)s"),
    "deadline": mark("at the latest until %(value)s"),
    "ending": mark("ended: %(value)s"),
    "error": mark("error: %(value)s"),
    "errors": mark("errors in a row: %(value)s"),
    "event": mark("event number %(value)s"),
    "graceful": mark("after what it does now"),
    "holds": mark("not to be interrupted"),
    "key": mark("called %(value)s"),
    "keys": mark("for %(value)s"),
    "phase": mark("while %(value)s"),
    "reason": mark("reason: %(value)s"),
    "rule": mark("rule: %(value)s"),
    "since": mark("since %(value)s"),
    "step": mark("step %(value)s"),
    "switches": mark("set: %(value)s"),
    "ended": mark("task %(value)s"),
    "tasks": mark("tasks: %(value)s"),
    "went_to": mark("for task %(value)s"),
    "why": mark("because: %(value)s"),
}
VALUES = {
    "ok": mark("succeeded"),
    "partial": mark("succeeded in part"),
    "failed": mark("failed"),
    "unknown": mark("unknown"),
    "interrupt": mark("something more urgent came"),
    "cancel": mark("it was asked to end"),
    "hold": mark("nothing may get the focus"),
    "unknown kind": mark("its kind is no longer declared"),
    "crash_loop": mark("it crashed again and again"),
    **PHASES,
}
WAIT_STATES = {
    "open": mark("open"),
    "event": mark("answered"),
    "timeout": mark("timed out"),
    "cancelled": mark("no longer needed"),
}


def word(table: Mapping[str, str], name: str) -> str:
    """Return the words for a name; one that this console does not know stays as it is."""
    return gettext(table[name]) if name in table else name


def state_word(state: str) -> str:
    return word(STATES, state)


def state_kind(state: str) -> str:
    """Return the state whose shape and colour it has."""
    return KINDS.get(state, state)


def name_of(task: Task, goals: Mapping[str, str | None] | None = None) -> str:
    """Return what a task is about: its goal in plain words, or its kind."""
    goal = task.goal or (goals or {}).get(task.id)
    return goal or task.kind


def doing(task: Task) -> str:
    """Return what the focus does now."""
    if task.cancel_requested:
        return _("ends at its next safe point")
    if task.phase == "act":
        return _("acting, step %(step)s", step=task.step)
    return word(PHASES, task.phase)


def question(wait: Wait) -> str:
    """Return what an agent asks to do: ``refund amount=40 to=c-17``."""
    given = " ".join(f"{name}={value}" for name, value in wait.arguments.items())
    return f"{wait.action or wait.key} {given}".strip()


def wait_words(wait: Wait) -> str:
    """Return what is waited for."""
    if wait.kind == "confirm":
        return _("a person's answer: %(what)s", what=question(wait))
    texts = {
        "backoff": _("a rest after an error"),
        "sleep": _("the end of a pause"),
        "budget": _("its budget to be refilled"),
    }
    return texts.get(wait.kind, wait.key)


def wait_state(wait: Wait) -> str:
    """Return how a wait stands: open, or how it ended."""
    if wait.approved is not None:
        return _("approved") if wait.approved else _("refused")
    return word(WAIT_STATES, wait.state)


def forbidden(control: LaneControl) -> list[str]:
    """Return what an operator forbids in a lane, each in a sentence."""
    said = []
    if control.auto_continue is False:
        said.append(_("Nothing new gets the focus."))
    if control.allow_interrupt is False:
        said.append(_("Nothing interrupts the focus."))
    if control.confirm_everything:
        said.append(_("A person must confirm every action."))
    if control.must_confirm:
        said.append(_("A person must confirm: %(actions)s.", actions=listed(control.must_confirm)))
    return said


def line_details(line: JournalEntry, clock: times.Clock) -> str:
    """Return what a line of a journal says beside its cause, as one line, its instants on the reader's clock."""
    details = states.localised(line.details, clock)
    parts = [_detail(name, value) for name, value in details.items() if value not in (None, "", [], {}, False)]
    return _("; ").join(parts)[:300]


def _detail(name: str, value: Any) -> str:
    text = (
        word(VALUES, value)
        if isinstance(value, str) and name in ("ending", "phase", "reason", "why")
        else _plain(value)
    )
    return gettext(DETAILS[name], value=text) if name in DETAILS else f"{name}: {text}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed(f"{name}: {_plain(each)}" for name, each in value.items())
    return listed(map(_plain, value)) if isinstance(value, list | tuple) else str(value)


# -- pictures ----------------------------------------------------------------------------------------------------------


def waits_band(visit: Visit, rows: Sequence[tuple[str, Iterable[Wait]]], name: str) -> Markup | None:
    """Draw open waits around now, a row for each title: how long they have lasted, and how long they still may."""
    all_rows = [(title, list(waits)) for title, waits in rows]
    filled = [(title, waits) for title, waits in all_rows if waits][:MOST_ROWS]
    if not filled:
        return None
    every = [wait for _title, waits in filled for wait in waits]
    since = min(wait.opened_at for wait in every)
    until = max(max(wait.deadline for wait in every), visit.now)
    # A wait that has just begun has some past as well, so that the line of now does not stand at the edge.
    ahead = max(until - visit.now, timedelta(minutes=1))
    window = window_of(visit, min(since, visit.now - ahead / 8), max(until, visit.now + ahead), ahead / 40)
    shapes = []
    for row, (title, waits) in enumerate(filled):
        for wait in waits:
            kind = "late" if wait.kind == "confirm" else "running" if wait.kind == "event" else "failed"
            left = times.relative(wait.deadline, visit.now)
            text = f"{title}: {wait_words(wait)}, {left}"
            shapes.append(drawing.Shape(wait.opened_at, visit.now, kind, text, row=row, ahead=False))
            if wait.deadline > visit.now:
                shapes.append(drawing.Shape(visit.now, wait.deadline, kind, text, row=row, ahead=True))
    return drawing.band(window, shapes, name=name, now_label=_now(visit, window), rows=len(filled))


def life_band(visit: Visit, lines: Sequence[JournalEntry], waits: Sequence[Wait], name: str) -> Markup | None:
    """Draw the life of a task: the states that it was in, and below them what it waited for."""
    moves = [line for line in lines if line.after is not None]
    if not moves:
        return None
    ended = moves[-1].after in ("completed", "failed", "cancelled")
    deadlines = [wait.deadline for wait in waits if wait.state == "open"]
    since = moves[0].at
    farthest = visit.now + max(3 * (visit.now - since), timedelta(minutes=1))  # a long wait must not hide what was
    until = moves[-1].at if ended else min(max([visit.now, *deadlines]), farthest)
    window = window_of(visit, since, max(until, since + timedelta(seconds=1)), (until - since) / 40)
    shapes = []
    for line, after in zip(moves, [*moves[1:], None], strict=True):
        end = after.at if after is not None else line.at if ended else visit.now
        title = f"{state_word(line.after or '')}, {times.span(end - line.at)}"
        kind = {"completed": "done", "failed": "failed", "cancelled": "skipped"}.get(line.after or "")
        shapes.append(
            drawing.Shape(line.at, None if kind else end, kind or DRAWN.get(line.after or "", "waiting"), title,
                          ahead=False)
        )  # fmt: skip
    for wait in waits:
        over = wait.closed_at or visit.now
        shapes.append(drawing.Shape(wait.opened_at, over, "done", wait_words(wait), row=1, ahead=False))
        if wait.state == "open" and wait.deadline > visit.now:
            shapes.append(drawing.Shape(visit.now, wait.deadline, "late", wait_words(wait), row=1, ahead=True))
    return drawing.band(window, shapes, name=name, now_label=_now(visit, window), rows=2 if waits else 1)


def window_of(visit: Visit, since: datetime, until: datetime, margin: timedelta) -> drawing.Window:
    edge = max(margin, timedelta(seconds=1))
    return drawing.Window(since - edge, until + edge, visit.now, visit.clock.zone_for())


def _now(visit: Visit, window: drawing.Window) -> str:
    return _("now %(time)s", time=times.clock_time(visit.now, visit.now, window.zone))
