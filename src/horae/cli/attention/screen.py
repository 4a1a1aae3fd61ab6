"""Lanes as people read them: FOCUS, STACK, BACKLOG, WAITING."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.cli import words

if TYPE_CHECKING:
    from horae.api.attention.past import PastView
    from horae.api.attention.values import (
        JournalEntry,
        LaneDetail,
        LaneSummary,
        Task,
        TaskDetail,
        TaskStory,
        VerifiedJournal,
        Wait,
    )
    from horae.cli.terminal import Terminal

WIDTH = 100
NOTHING = "-"
PHASES = {"think": "thinks", "act": "acts", "gap": "is between two steps"}


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
    texts = {"backoff": "rests after an error", "sleep": "sleeps", "budget": "waits for its budget"}
    return f"{texts.get(wait.kind, wait.key)}, {left}"


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


def summary_row(seen: LaneSummary, now: datetime) -> tuple[str, ...]:
    counts = (seen.counts.suspended, seen.counts.ready, seen.waits, seen.confirmations)
    doing = NOTHING if seen.focus is None else _about(seen.focus)
    last = NOTHING if seen.last_at is None else f"{seen.last_cause}, {words.relative(seen.last_at, now)}"
    return (seen.lane.name, seen.lane.owner, doing, *map(str, counts), last)


def story_page(terminal: Terminal, story: TaskStory, now: datetime) -> str:
    """Return a task, its waits and its facts."""
    lines = [task_page(terminal, story.task, [], now)]
    lines += [f"  {'waits':<14}{_past_wait(each, now)}" for each in story.waits]
    for fact in story.facts:
        text = _word({**fact.data, **fact.about})
        lines.append(f"  {words.exact(fact.at)}  {fact.kind}  {words.first_line(text, 60)}")
    return "\n".join(lines)


def _past_wait(wait: Wait, now: datetime) -> str:
    if wait.state == "open" or wait.closed_at is None:
        return _wait(wait, now)
    return f"{describe_intent(wait) or wait.key}: {wait.state}, {words.exact(wait.closed_at)}"


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
