"""The judge of a lane: pure checks over its journal and its tables. An empty list means that all is well.

The journal is replayed line by line, so that what must hold at every commit is looked at after every line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from horae.actions.attention import lanes
from horae.actions.attention.journal_chain import lines_between
from horae.core.attention.lanes import Event, Lane, Line, StoredFact, Task, TaskWait, complaints, picture
from horae.core.attention.task import FINAL, TASK, Control, Policy
from horae.core.jobs.job import Filter, Job
from horae.core.jobs.machinery import MACHINERY, TIMEOUT
from horae.ports.store import Tx
from horae.ports.world import World

LEGAL = {(before, after) for (before, _), after in TASK.arrows.items()} | {(None, "created")}
RESOLVED = ("event", "timeout", "cancelled")
ENDS = {("pending", end) for end in ("pending", "used", "late", "expired", "dropped")} | {("late", "used")}
TOLD = ("event", "timed_out", "confirmed", "denied")


@dataclass(frozen=True)
class Scene:
    """All that is known of a lane at one moment."""

    lane: Lane
    lines: Sequence[Line]
    tasks: Sequence[Task]
    waits: Sequence[TaskWait]
    events: Sequence[Event]
    facts: Sequence[StoredFact]
    jobs: Sequence[Job]  # of the due queue, those that are still to run
    policy: Policy = field(default_factory=Policy)
    controls: Mapping[str, Control] = field(default_factory=dict)  # by the hash that the journal knows them by

    @property
    def tables(self) -> dict[str, dict[int, dict[str, Any]]]:
        rows: dict[str, Sequence[Any]] = {
            "task": self.tasks, "wait": self.waits, "event": self.events, "fact": self.facts
        }  # fmt: skip
        return {table: {row.number: picture(row) for row in found} for table, found in rows.items()}


def look(world: World, lane: str, *, policy: Policy | None = None, controls: Iterable[Control] = (Control(),)) -> Scene:
    """A lane with everything that belongs to it, as of one moment."""
    number = lanes.get_lane(world, lane).number

    def read(tx: Tx) -> Scene:
        found = tx.attention.lane_by_number(number)
        assert found is not None
        rows: dict[str, Any] = tx.attention.everything(number)
        wanted = Filter(states=("queued", "running"), queue=MACHINERY)
        jobs = tx.jobs.find(wanted, limit=100_000, before=None)
        own_jobs = [job for job in jobs if job.payload["lane"] == number]
        known = {each.digest: each for each in controls}
        return Scene(
            found, list(lines_between(tx, number, 0)),
            rows["task"], rows["wait"], rows["event"], rows["fact"], own_jobs,
            policy or Policy(), known,
        )  # fmt: skip

    return world.store.read(read)


def wrong_with(scene: Scene) -> list[str]:
    """Everything that is not as section 3.9 demands."""
    found = complaints(scene.lines, scene.tables)  # 19
    if scene.lane.seq != len(scene.lines):
        found.append(f"19: the lane counts {scene.lane.seq} lines and has {len(scene.lines)}")
    return [*found, *in_the_tables(scene), *Replay(scene).run()]


# -- what the tables say now -----------------------------------------------------------------------------------------


def in_the_tables(scene: Scene) -> list[str]:
    found = list[str]()
    running = [task.id for task in scene.tasks if task.state == "running"]
    if len(running) > 1:
        found.append(f"1: {', '.join(running)} run at once")
    stack = sorted(
        (task for task in scene.tasks if task.stack_index is not None), key=lambda task: task.stack_index or 0
    )
    if {task.number for task in stack} != {task.number for task in scene.tasks if task.state == "suspended"}:
        found.append("3: the stack is not the suspended tasks")
    if len({task.stack_index for task in stack}) != len(stack):
        found.append("3: two tasks have one place on the stack")
    if any(below.base >= above.base for below, above in pairwise(stack)):
        found.append("3: the stack does not grow upwards")
    return found + _waits(scene) + _events(scene)


def _waits(scene: Scene) -> list[str]:
    found = list[str]()
    is_open = {wait.task for wait in scene.waits if wait.state == "open"}
    for task in scene.tasks:
        if (task.state == "waiting") != (task.number in is_open):
            found.append(f"5: {task.id} is {task.state} with {'an' if task.number in is_open else 'no'} open wait")
        if task.state == "created" and not any(job.number == task.start_job for job in scene.jobs):
            found.append(f"5: {task.id} has no job that starts it")
    for wait in scene.waits:
        if wait.state not in ("open", *RESOLVED):
            found.append(f"6: wait {wait.number} ended as {wait.state}")
        if wait.state != "open":
            continue
        jobs = [job for job in scene.jobs if job.handler == TIMEOUT and job.payload["wait"] == wait.number]
        if len(jobs) != 1:
            found.append(f"5: wait {wait.number} has {len(jobs)} live jobs")
        elif jobs[0].planned_at != wait.deadline or jobs[0].run_at < wait.deadline:
            found.append(f"5: the job of wait {wait.number} is not at its deadline")
    return found


def _events(scene: Scene) -> list[str]:
    odd = [each for each in scene.events if each.state not in ("pending", "used", "late", "expired", "dropped")]
    lost = [each for each in scene.events if each.state in ("used", "late") and each.task is None]
    return [f"8: event {each.number} is {each.state} and went nowhere" for each in odd + lost]


# -- what the journal says -------------------------------------------------------------------------------------------


class Replay:
    """The lane as it was after each line."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.now: dict[str, dict[int, dict[str, Any]]] = {"task": {}, "wait": {}, "event": {}, "fact": {}}
        self.stack: list[int] = []
        self.inside: set[int] = set()  # between an intent and its facts
        self.held: set[int] = set()
        self.open: dict[int, int] = {}  # task -> how many waits are open
        self.resolutions: list[int] = []  # facts that report a resolution
        self.running: int | None = None
        self.found: list[str] = []

    def run(self) -> list[str]:
        for line in self.scene.lines:
            was = None if line.task is None else self.now["task"].get(line.task, {}).get("state")
            self._moves(line, was)
            if line.after == "suspended":
                self._suspends(line)
            self._folds(line)
            self._steps(line)
            self._holds_now(line)
        self._heard()
        return self.found

    def _wrong(self, number: int, line: Line, text: str) -> None:
        self.found.append(f"{number}: line {line.seq} (t{line.task}, {line.cause}): {text}")

    def _moves(self, line: Line, was: str | None) -> None:
        if line.after is None:
            return
        if (line.before, line.after) not in LEGAL or line.before != was:
            self._wrong(2, line, f"{line.before} -> {line.after} where it was {was}")
        if line.task is not None and line.before == "suspended":
            if line.after == "ready" and self.stack[-1:] != [line.task]:
                self._wrong(4, line, "resumed although it is not the top of the stack")
            if line.task in self.stack:
                self.stack.remove(line.task)
        if line.after == "running":
            if self.running is not None:
                self._wrong(1, line, f"focused while t{self.running} runs")
            self.running = line.task
        elif line.before == "running":
            self.running = None

    def _suspends(self, line: Line) -> None:
        assert line.task is not None
        if line.task in self.inside:
            self._wrong(10, line, "suspended between intent and facts")
        if line.task in self.held:
            self._wrong(10, line, "suspended inside a hold")
        control = self.scene.controls.get(line.control)
        if control is None:
            self._wrong(11, line, "suspended under a control that nobody knows")
        elif line.details.get("why") == "hold":
            if control.auto_continue:
                self._wrong(11, line, "held although control lets it go on")
        else:
            self._obeys(line, control)
        self.stack.append(line.task)

    def _obeys(self, line: Line, control: Control) -> None:
        policy, focus = self.scene.policy, self.now["task"].get(line.task or 0, {"base": -1})
        by = self.now["task"].get(int(str(line.details.get("by", "t0"))[1:]), {})
        if by.get("state") != "ready":
            self._wrong(11, line, "interrupted by somebody who is not ready")
        elif by["base"] < focus["base"] + policy.margin:
            self._wrong(11, line, f"interrupted by {by['base']}, itself {focus['base']}")
        if not control.allow_interrupt or len(self.stack) >= policy.depth:
            self._wrong(11, line, "interrupted although that is not allowed")

    def _folds(self, line: Line) -> None:
        for table, number, new in line.changes:
            row = self.now[table].setdefault(int(number), {})
            if table == "wait" and "state" in new:
                self._wait(line, row, new)
            if table == "fact" and row.get("turn") is not None:
                self._wrong(7, line, f"fact {number} is given twice")
            if table == "event" and (row.get("state", "pending"), new.get("state")) not in ENDS and "state" in new:
                self._wrong(8, line, f"event {number} ends twice")
            if table == "task" and "turn" in new:
                self.held.discard(int(number))
            if table == "task" and row.get("state") in FINAL and {"turn", "step", "state"} & set(new):
                self._wrong(17, line, f"t{number} goes on after its end")
            row.update(new)
            if table == "fact" and line.cause.startswith("woken") and row["kind"] in TOLD and "kind" in new:
                self.resolutions.append(int(number))

    def _wait(self, line: Line, row: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        task, state = new.get("task", row.get("task")), new["state"]
        if row.get("state", "open") != "open" or state not in ("open", *RESOLVED):
            self._wrong(6, line, f"a wait goes from {row.get('state')} to {state}")
        if state == "open":
            self.open[task] = self.open.get(task, 0) + 1
            return
        self.open[task] = self.open.get(task, 0) - 1
        kinds = {self_new["kind"] for table, _, self_new in line.changes if table == "fact" and "kind" in self_new}
        if state == "timeout" and kinds & {"confirmed", "denied"}:
            self._wrong(18, line, "silence was taken for an answer")

    def _steps(self, line: Line) -> None:
        task = line.task
        if task is None:
            return
        row = self.now["task"].get(task, {})
        if line.cause == "step_intended":
            if row.get("state") != "running" or task in self.inside:
                self._wrong(13, line, "an intent where none may be")
            self.inside.add(task)
            if line.details.get("holds"):
                self.held.add(task)
        elif line.cause == "step_facts":
            if task not in self.inside:
                self._wrong(13, line, "facts without an intent")
            self.inside.discard(task)
        elif (line.cause == "recovered" and row.get("phase") == "gap") or line.after in FINAL:
            self.inside.discard(task)
            self.held -= {task} if line.after in FINAL else set()

    def _holds_now(self, line: Line) -> None:
        """What must be so after every line: one focus, a stack that grows, waits that belong to somebody who waits."""
        bases = [self.now["task"][number]["base"] for number in self.stack if number in self.now["task"]]
        if any(below >= above for below, above in pairwise(bases)):
            self._wrong(3, line, f"the stack is {bases}")
        for number in {line.task, *(number for table, number, _ in line.changes if table == "task")} - {None}:
            row = self.now["task"].get(number)
            if row is not None and (row["state"] == "waiting") != (self.open.get(number, 0) > 0):
                self._wrong(5, line, f"t{number} is {row['state']} with {self.open.get(number, 0)} open waits")

    def _heard(self) -> None:
        """Who was woken and lived on has heard why, in exactly one turn."""
        for number in self.resolutions:
            fact = self.now["fact"][number]
            task = self.now["task"][fact["task"]]
            if fact["turn"] is None and task["state"] == "completed":
                self.found.append(f"7: fact {number} never reached cognition")


# -- at the end ------------------------------------------------------------------------------------------------------


def unfinished(scene: Scene) -> list[str]:
    """Tasks that have not ended."""
    return [f"15: {task.id} is {task.state}" for task in scene.tasks if task.state not in FINAL]


def unaccounted(scene: Scene, posted: int) -> list[str]:
    """No event is lost, none is invented."""
    return [] if len(scene.events) == posted else [f"8: {posted} events were posted, {len(scene.events)} are kept"]
