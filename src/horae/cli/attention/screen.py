"""Lanes as people read them: FOCUS, STACK, BACKLOG, WAITING."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.api.attention.values import PastLane, Task, Wait, WaitingTask
from horae.cli import words
from horae.core.time.instants import from_iso

if TYPE_CHECKING:
    from horae.api.attention.values import JournalEntry, LaneDetail, TaskDetail, VerifiedJournal
    from horae.cli.terminal import Terminal

WIDTH = 100
NOTHING = "-"
PHASES = {"think": "thinks", "act": "acts", "gap": "is between two steps"}
Row = dict[str, Any]


# -- as of a line of the journal -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PastView:
    """A lane as it was after a line of its journal; contexts and payloads are known by their digests only."""

    seq: int
    at: datetime
    focus: Task | None
    stack: tuple[Task, ...]
    backlog: tuple[Task, ...]
    waiting: tuple[WaitingTask, ...]
    created: tuple[Task, ...]
    ended: tuple[Task, ...]


def view_after(past: PastLane, at: datetime) -> PastView:
    """Sort the rows of a past lane into focus, stack, backlog and waits."""
    from horae.core.attention.task import Policy, Weighed, in_order

    rows = list(past.tasks.values())
    tasks = {row["number"]: _task(row) for row in rows}
    weighed = [
        Weighed(row["number"], "ready", row["base"], _at(row["ready_since"]), _at(row["due_by"]))
        for row in rows
        if row["state"] == "ready"
    ]

    def of(*states: str) -> tuple[Task, ...]:
        return tuple(task for state in states for task in tasks.values() if task.state == state)

    interrupted = sorted((row for row in rows if row["state"] == "suspended"), key=lambda row: -row["place"])
    return PastView(
        seq=past.seq,
        at=at,
        focus=next(iter(of("running")), None),
        stack=tuple(tasks[row["number"]] for row in interrupted),
        backlog=tuple(tasks[each.number] for each in in_order(weighed, at, Policy())),
        waiting=tuple(WaitingTask(task=task, waits=_open_waits(past, task)) for task in of("waiting")),
        created=of("created"),
        ended=of("completed", "failed", "cancelled"),
    )


def _task(row: Row) -> Task:
    kept = ("kind", "state", "phase", "key", "turn", "step", "reason", "cancel_requested")
    moments = ("created_at", "start_at", "ready_since", "due_by", "expires_at")
    same: Row = {name: row[name] for name in kept} | {name: _at(row[name]) for name in moments}
    return Task(id=f"t{row['number']}", priority=row["base"], **same)


def _open_waits(past: PastLane, task: Task) -> tuple[Wait, ...]:
    own = (row for row in past.waits.values() if row["state"] == "open" and f"t{row['task']}" == task.id)
    return tuple(
        Wait(
            id=row["number"], task=task.id, key=row["key"], kind=row["kind"], state=row["state"],
            deadline=from_iso(row["deadline"]), opened_at=from_iso(row["opened_at"]), intent_hash=row["intent_hash"],
        )
        for row in own
    )  # fmt: skip


def _at(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)


# -- as text -------------------------------------------------------------------------------------------------------


def view_lines(view: LaneDetail | PastView, now: datetime, width: int = WIDTH) -> list[str]:
    """Return FOCUS, STACK, BACKLOG, WAITING: a line for each task, the first one beside its heading."""
    lines = []
    for heading, cells in _parts(view, now):
        for index, cell in enumerate(cells or [NOTHING]):
            lines.append(_cut(f"{heading if index == 0 else '':<9}{cell}", width))
    return lines


def four_lines(view: LaneDetail | PastView, now: datetime, width: int = WIDTH) -> list[str]:
    """Return the same in exactly four lines."""
    return [_cut(f"{heading:<9}{' | '.join(cells) or NOTHING}", width) for heading, cells in _parts(view, now)]


def one_line(view: LaneDetail | PastView, now: datetime) -> str:
    """Return the same in one line."""
    return "; ".join(f"{heading} {' | '.join(cells) or NOTHING}" for heading, cells in _parts(view, now))


def _parts(view: LaneDetail | PastView, now: datetime) -> list[tuple[str, list[str]]]:
    focus = [] if view.focus is None else [f"{_about(view.focus)}, {_doing(view.focus)}"]
    waits = [(each.task, wait) for each in view.waiting for wait in each.waits]
    return [
        ("FOCUS", focus),
        ("STACK", [_with_reason(task) for task in view.stack]),
        ("BACKLOG", [_with_reason(task) for task in view.backlog]),
        ("WAITING", [f"{_about(task)}, {_wait(wait, now)}" for task, wait in waits]),
    ]


def _about(task: Task) -> str:
    return f"{task.id} {task.kind} ({task.priority})"


def _with_reason(task: Task) -> str:
    """Return a task that could have the focus, and why its driver leaves it alone."""
    return f"{_about(task)}, {task.reason}" if task.reason else _about(task)


def _doing(task: Task) -> str:
    ending = ", asked to end" if task.cancel_requested else ""
    if task.phase == "act":
        return f"acts, step {task.step}{ending}"
    return f"{PHASES[task.phase]}, {words.count(task.step, 'step')} so far{ending}"


def _wait(wait: Wait, now: datetime) -> str:
    left = f"{countdown(wait.deadline - now)} left"
    if wait.kind == "confirm":
        return f"a person must confirm {describe_intent(wait)}(wait {wait.id}), {left}"
    return f"rests after an error, {left}" if wait.kind == "backoff" else f"{wait.key}, {left}"


def describe_intent(wait: Wait) -> str:
    """Return ``refund amount=40 to=c-17``, what it cites and a space; nothing where the journal knows only a digest."""
    if not wait.action:
        return ""
    cites = (f"citing {', '.join(wait.cites)}",) if wait.cites else ()
    return "".join(f"{word} " for word in (wait.action, *(f"{n}={v}" for n, v in wait.arguments.items()), *cites))


def countdown(left: timedelta) -> str:
    """Return the time left: ``9:58``, ``1:09:58``, ``3 d 4:00:00``; never below zero."""
    seconds = max(0, -int(-left.total_seconds() // 1))
    days, rest = divmod(seconds, 86400)
    hours, minutes = divmod(rest // 60, 60)
    text = f"{hours}:{minutes:02}:{rest % 60:02}" if days or hours else f"{minutes}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def heading(view: LaneDetail, now: datetime) -> str:
    """Return which lane it is, who drives it, and how far its journal is."""
    from horae.api.values import to_json

    lane = view.lane
    driver_text = f"driven by {lane.driver}" if _is_driven(view, now) else "no driver"
    owned_by = "" if lane.owner == "system" else f" of {lane.owner}"
    forbidden = "".join(
        f", {name}={_word(value)}" for name, value in sorted(to_json(view.control).items()) if value not in (None, [])
    )
    return f"{lane.name}{owned_by}  {now:%H:%M:%SZ}  {driver_text}, line {lane.seq}{forbidden}"


def _is_driven(view: LaneDetail, now: datetime) -> bool:
    lane = view.lane
    return lane.driver is not None and lane.driven_until is not None and lane.driven_until > now


def _word(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lane_row(view: LaneDetail, now: datetime) -> tuple[str, ...]:
    lane, counts = view.lane, view.counts
    numbers = (str(number) for number in (counts.suspended, counts.ready, counts.waiting))
    doing = NOTHING if view.focus is None else _about(view.focus)
    driver = (lane.driver or NOTHING) if _is_driven(view, now) else NOTHING
    return (lane.name, lane.owner, doing, *numbers, str(lane.seq), driver)


def task_page(terminal: Terminal, task: TaskDetail, waits: Sequence[Wait], now: datetime) -> str:
    facts = [
        ("priority", task.priority),
        ("phase", PHASES[task.phase] if task.state == "running" else ""),
        ("turns", f"{task.turn}, {words.count(task.step, 'step')}"),
        ("reason", task.reason_in(terminal.language)),
        ("payload", _word(task.payload)),
        ("context", "" if task.context is None else _word(task.context)),
        ("note", task.note),
        ("result", "" if task.result is None else _word(task.result)),
        ("key", task.key),
        ("asked to end", "yes" if task.cancel_requested else ""),
        *((name.removesuffix("_at").replace("_", " "), words.both(getattr(task, name), now))
          for name in ("created_at", "start_at", "ready_since", "due_by", "expires_at")),
    ]  # fmt: skip
    lines = [f"{terminal.bold(task.id)}  {task.kind}  {task.state}"]
    lines += [f"  {name:<14}{value}" for name, value in facts if value not in ("", None)]
    lines += [f"  {'waits for':<14}{_wait(wait, now)}" for wait in waits]
    return "\n".join(lines)


def journal_table(terminal: Terminal, lines: Sequence[JournalEntry]) -> str:
    headers = ("LINE", "UTC", "TASK", "CAUSE", "FROM", "TO", "TOLD")
    return terminal.table(headers, [_journal_row(line) for line in lines])


def _journal_row(line: JournalEntry) -> tuple[str, ...]:
    details = " ".join(f"{name}={value}" for name, value in line.details.items() if value is not None)
    moved = (line.before or "", line.after or "")
    return (
        str(line.seq), words.exact(line.at), line.task or "", line.cause, *moved, words.first_line(details, 36),
    )  # fmt: skip


def verified_line(journal: VerifiedJournal) -> str:
    if not journal.sound:
        return f"{journal.lane}: {words.count(len(journal.complaints), 'complaint')}"
    return f"{journal.lane}: {sound(journal)}"


def sound(journal: VerifiedJournal) -> str:
    """Return what holds for a journal without complaints."""
    open_end = journal.lines - journal.sealed
    loose = f", {open_end} of them not sealed yet" if open_end else ""
    return f"{words.count(journal.lines, 'line')}{loose}; folding them gives the tables, the chain of hashes is valid"
