"""Lanes as the JSON that ``--json`` prints, and the same as people read it: FOCUS, STACK, BACKLOG, WAITING."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.cli import words
from horae.cli.shapes import moment
from horae.core.instants import from_iso

if TYPE_CHECKING:
    from horae.actions.journal import Verified
    from horae.actions.lanes import Snapshot
    from horae.cli.terminal import Terminal
    from horae.core.lanes import Event, Lane, Line, Task, TaskWait

Shape = dict[str, Any]
WIDTH = 100
NOTHING = "-"
PHASES = {"think": "thinks", "act": "acts", "gap": "is between two steps"}


# -- as JSON -------------------------------------------------------------------------------------------------------


def lane_shape(lane: Lane) -> Shape:
    return {
        "name": lane.name,
        "owner": lane.owner,
        "driver": lane.driver,
        "driven_until": moment(lane.leased_until),
        "epoch": lane.epoch,
        "seq": lane.seq,
        "created_at": moment(lane.created_at),
    }


def wait_shape(wait: TaskWait) -> Shape:
    """A wait without its grant: that is the agent's to use, not ours to show."""
    told = {
        "id": wait.number,
        "task": f"t{wait.task}",
        "key": wait.key,
        "kind": wait.kind,
        "state": wait.state,
        "deadline": moment(wait.deadline),
        "opened_at": moment(wait.opened_at),
    }
    if wait.kind != "confirm":
        return told
    intent = json.loads(wait.intent or "{}")
    return told | {
        "action": intent.get("action"),
        "arguments": intent.get("arguments", {}),
        "intent_hash": wait.intent_hash,
        "approved": None if wait.decided_by is None else wait.grant is not None,
        "decided_by": wait.decided_by,
    }


def event_shape(event: Event) -> Shape:
    return {
        "id": event.number,
        "key": event.key,
        "event_id": event.event_id,
        "state": event.state,
        "task": None if event.task is None else f"t{event.task}",
        "reason": event.reason,
        "posted_at": moment(event.posted_at),
    }


def line_shape(line: Line) -> Shape:
    return {
        "seq": line.seq,
        "at": moment(line.at),
        "task": None if line.task is None else f"t{line.task}",
        "before": line.before,
        "after": line.after,
        "cause": line.cause,
        "told": dict(line.told),
        "changes": list(line.changes),
        "control": line.control,
        "epoch": line.epoch,
        "hash": line.hash,
    }


def verified_shape(found: Verified) -> Shape:
    return {
        "lane": found.lane,
        "sound": found.is_sound,
        "lines": found.lines,
        "sealed": found.sealed,
        "complaints": list(found.complaints),
    }


def view_of(snapshot: Snapshot) -> Shape:
    """A lane as it is."""
    parts = {"stack": snapshot.stack, "backlog": snapshot.backlog, "created": snapshot.created}
    return {
        "lane": lane_shape(snapshot.lane),
        "at": moment(snapshot.at),
        "focus": None if snapshot.focus is None else task_shape(snapshot.focus),
        **{part: [task_shape(task) for task in tasks] for part, tasks in parts.items()},
        "waiting": [
            {"task": task_shape(task), "waits": [wait_shape(wait) for wait in waits]}
            for task, waits in snapshot.waiting
        ],
        "control": dict(snapshot.control),
    }


def task_shape(task: Task) -> Shape:
    """A task as it stands, without what it is about."""
    from horae.actions.lanes import shown

    return {name: value for name, value in shown(task).items() if name not in ("payload", "context", "result")}


def view_after(tables: Mapping[str, Mapping[int, Shape]], seq: int, at: datetime) -> Shape:
    """A lane as its journal tells it after a line; contexts and payloads are known by their digests only."""
    from horae.core.attention import Policy, Weighed, in_order

    tasks = {number: _told_task(row) for number, row in tables["task"].items()}
    by_state: dict[str, list[Shape]] = {}
    for task in tasks.values():
        by_state.setdefault(task["state"], []).append(task)
    waits = [row for row in tables["wait"].values() if row["state"] == "open"]
    weighed = [
        Weighed(row["number"], "ready", row["base"], _at(row["ready_since"]), _at(row["due_by"]))
        for row in tables["task"].values()
        if row["state"] == "ready"
    ]
    return {
        "seq": seq,
        "at": moment(at),
        "focus": next(iter(by_state.get("running", [])), None),
        "stack": sorted(by_state.get("suspended", []), key=lambda task: -task["place"]),
        "backlog": [tasks[each.number] for each in in_order(weighed, at, Policy())],
        "waiting": [{"task": task, "waits": _told_waits(waits, task)} for task in by_state.get("waiting", [])],
        "created": by_state.get("created", []),
        "ended": [task for state in ("completed", "failed", "cancelled") for task in by_state.get(state, [])],
    }


def _told_task(row: Shape) -> Shape:
    kept = ("kind", "state", "phase", "key", "turn", "step", "reason", "cancel_requested", "place")
    return {"id": f"t{row['number']}", "priority": row["base"]} | {name: row[name] for name in kept}


def _told_waits(waits: Iterable[Shape], task: Shape) -> list[Shape]:
    own = (row for row in waits if f"t{row['task']}" == task["id"])
    kept = ("key", "kind", "state", "opened_at", "deadline")
    return [{"id": row["number"], "task": task["id"]} | {name: row[name] for name in kept} for row in own]


def _at(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)


# -- as text -------------------------------------------------------------------------------------------------------


def view_lines(view: Shape, now: datetime, width: int = WIDTH) -> list[str]:
    """FOCUS, STACK, BACKLOG, WAITING: a line for each task, the first one beside its heading."""
    told = []
    for heading, cells in _parts(view, now):
        for place, cell in enumerate(cells or [NOTHING]):
            told.append(_cut(f"{heading if place == 0 else '':<9}{cell}", width))
    return told


def four_lines(view: Shape, now: datetime, width: int = WIDTH) -> list[str]:
    """The same in exactly four lines."""
    return [_cut(f"{heading:<9}{' | '.join(cells) or NOTHING}", width) for heading, cells in _parts(view, now)]


def one_line(view: Shape, now: datetime) -> str:
    """The same in one line."""
    return "; ".join(f"{heading} {' | '.join(cells) or NOTHING}" for heading, cells in _parts(view, now))


def _parts(view: Shape, now: datetime) -> list[tuple[str, list[str]]]:
    focus = [] if view["focus"] is None else [f"{_about(view['focus'])}, {_doing(view['focus'])}"]
    waits = [(each["task"], wait) for each in view["waiting"] for wait in each["waits"]]
    return [
        ("FOCUS", focus),
        ("STACK", [_with_reason(task) for task in view["stack"]]),
        ("BACKLOG", [_with_reason(task) for task in view["backlog"]]),
        ("WAITING", [f"{_about(task)}, {_wait(wait, now)}" for task, wait in waits]),
    ]


def _about(task: Shape) -> str:
    return f"{task['id']} {task['kind']} ({task['priority']})"


def _with_reason(task: Shape) -> str:
    """A task that could have the focus, and why its driver leaves it alone."""
    return f"{_about(task)}, {task['reason']}" if task["reason"] else _about(task)


def _doing(task: Shape) -> str:
    ending = ", asked to end" if task["cancel_requested"] else ""
    if task["phase"] == "act":
        return f"acts, step {task['step']}{ending}"
    return f"{PHASES[task['phase']]}, {words.count(task['step'], 'step')} so far{ending}"


def _wait(wait: Shape, now: datetime) -> str:
    left = f"{countdown(from_iso(wait['deadline']) - now)} left"
    if wait["kind"] == "confirm":
        return f"a person must confirm {intended(wait)}(wait {wait['id']}), {left}"
    return f"rests after an error, {left}" if wait["kind"] == "backoff" else f"{wait['key']}, {left}"


def intended(wait: Shape) -> str:
    """``refund amount=40 to=c-17``, and a space; nothing where the journal knows only a digest."""
    if not wait.get("action"):
        return ""
    return "".join(f"{word} " for word in (wait["action"], *(f"{n}={v}" for n, v in wait["arguments"].items())))


def countdown(left: timedelta) -> str:
    """``9:58``, ``1:09:58``, ``3 d 4:00:00``; never below zero."""
    seconds = max(0, -int(-left.total_seconds() // 1))
    days, rest = divmod(seconds, 86400)
    hours, minutes = divmod(rest // 60, 60)
    text = f"{hours}:{minutes:02}:{rest % 60:02}" if days or hours else f"{minutes}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def heading(view: Shape, now: datetime) -> str:
    """Which lane, who drives it, how far its journal is."""
    lane = view["lane"]
    alive = lane["driver"] is not None and lane["driven_until"] is not None and from_iso(lane["driven_until"]) > now
    driven = f"driven by {lane['driver']}" if alive else "nobody drives it"
    whose = "" if lane["owner"] == "system" else f" of {lane['owner']}"
    told = {name: value for name, value in sorted(view["control"].items()) if value not in (None, [])}
    forbidden = "".join(f", {name}={_word(value)}" for name, value in told.items())
    return f"{lane['name']}{whose}  {now:%H:%M:%SZ}  {driven}, line {lane['seq']}{forbidden}"


def _word(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lane_row(view: Shape, now: datetime) -> tuple[str, ...]:
    lane, focus = view["lane"], view["focus"]
    alive = lane["driven_until"] is not None and from_iso(lane["driven_until"]) > now
    numbers = (str(len(view[part])) for part in ("stack", "backlog", "waiting"))
    doing = NOTHING if focus is None else _about(focus)
    return (lane["name"], lane["owner"], doing, *numbers, str(lane["seq"]), lane["driver"] if alive else NOTHING)


def task_page(terminal: Terminal, task: Shape, now: datetime) -> str:
    facts = [
        ("priority", task["priority"]),
        ("phase", PHASES[task["phase"]] if task["state"] == "running" else ""),
        ("turns", f"{task['turn']}, {words.count(task['step'], 'step')}"),
        ("reason", task["reason"]),
        ("payload", _word(task["payload"])),
        ("context", "" if task["context"] is None else _word(task["context"])),
        ("note", task["note"]),
        ("result", "" if task["result"] is None else _word(task["result"])),
        ("key", task["key"]),
        ("asked to end", "yes" if task["cancel_requested"] else ""),
        *((name.removesuffix("_at").replace("_", " "), words.both(_at(task[name]), now))
          for name in ("created_at", "start_at", "ready_since", "due_by", "expires_at")),
    ]  # fmt: skip
    lines = [f"{terminal.bold(task['id'])}  {task['kind']}  {task['state']}"]
    lines += [f"  {name:<14}{value}" for name, value in facts if value not in ("", None)]
    lines += [f"  {'waits for':<14}{_wait(wait, now)}" for wait in task["waits"]]
    return "\n".join(lines)


def journal_table(terminal: Terminal, lines: Sequence[Shape]) -> str:
    headers = ("LINE", "UTC", "TASK", "CAUSE", "FROM", "TO", "TOLD")
    return terminal.table(headers, [_journal_row(line) for line in lines])


def _journal_row(line: Shape) -> tuple[str, ...]:
    told = " ".join(f"{name}={value}" for name, value in line["told"].items() if value is not None)
    moved = (line["before"] or "", line["after"] or "")
    task = line["task"] or ""
    return (
        str(line["seq"]),
        words.exact(from_iso(line["at"])),
        task,
        line["cause"],
        *moved,
        words.first_line(told, 36),
    )


def verified_line(found: Shape) -> str:
    if not found["sound"]:
        return f"{found['lane']}: {words.count(len(found['complaints']), 'complaint')}"
    return f"{found['lane']}: {sound(found)}"


def sound(found: Shape) -> str:
    """What holds for a journal without complaints."""
    open_end = found["lines"] - found["sealed"]
    loose = f", {open_end} of them not sealed yet" if open_end else ""
    return f"{words.count(found['lines'], 'line')}{loose}; folding them gives the tables, the chain of hashes is valid"
