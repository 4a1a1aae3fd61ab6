"""The verbs of a lane itself: drive it, restrict it, read it; and the writer of its rows and journal.

Every verb of attention locks the row of its lane first, so that whatever happens in one lane happens one after the
other; lanes never touch each other. A driver carries the epoch under which it drives: an older one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from horae.actions.attention.journal_chain import picture_passed, seal_within
from horae.actions.jobs.leases import with_wall_lease
from horae.core.attention.facts import FactKind
from horae.core.attention.lanes import Event, Lane, Line, StoredFact, Task, TaskWait, change, lane_name
from horae.core.attention.task import FINAL, TASK, Control, Policy, Rule, in_order
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM, NewJob
from horae.core.jobs.machinery import MACHINERY, OWN_NAMES, PERSISTENT, THINKING
from horae.core.jobs.payloads import decode, encode, label, true_or_false
from horae.errors import InvalidInput, LaneLost, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

CONTROL = "control"  # the cause of a journal line about an operator's restrictions
K = TypeVar("K", Task, TaskWait, Event, StoredFact)
T = TypeVar("T")
SWITCHES = ("auto_continue", "allow_interrupt", "confirm_everything")


@dataclass(frozen=True, slots=True)
class Drive:
    """The right to drive a lane, until another driver has it."""

    lane: int
    driver: str
    epoch: int
    owner: str = SYSTEM  # by which the lane is found, wherever its shard is


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A lane as people see it."""

    lane: Lane
    focus: Task | None
    stack: tuple[Task, ...]  # the top first
    backlog: tuple[Task, ...]  # in the order in which it would be served
    waiting: tuple[tuple[Task, tuple[TaskWait, ...]], ...]
    created: tuple[Task, ...]
    control: Mapping[str, Any]
    at: datetime

    @property
    def is_idle(self) -> bool:
        """Return whether nothing happens in the lane before an event, a person or a deadline comes."""
        return self.focus is None and not self.stack and not self.backlog


class LaneWriter:
    """Writes rows and, for each change, one line of the journal; all in one transaction."""

    def __init__(self, world: World, tx: Tx, lane: Lane, control: Control | None = None) -> None:
        self.world, self.tx, self.lane = world, tx, lane
        self.now = world.clock.now()
        self._control = "" if control is None else control.digest
        self._changes: list[Any] = []
        self.has_planned = False

    def add(self, kept: K) -> K:
        made = self.tx.attention.add(kept)
        self._note(None, made)
        return made

    def save(self, before: K, after: K) -> K:
        if before != after:
            self.tx.attention.save(after)
            self._note(before, after)
        return after

    def move(
        self, task: Task, event: str, cause: str, details: Mapping[str, Any] | None = None, **changes: Any
    ) -> Task:
        """Change the state of a task as its machine allows, and write the journal line."""
        state = TASK.after(task.state, event)
        moved = self.save(task, replace(task, state=state, **changes))
        self.line(cause, moved, before=task.state, after=state, **(details or {}))
        if state in FINAL:
            self._end(moved)
        return moved

    def _end(self, ended: Task) -> None:
        from horae.actions.attention.endings import report_end  # it wakes those who wait, with this writer

        report_end(self, ended)
        if (ended.key or "").startswith(THINKING):
            from horae.actions.governance.agent_answers import take_answer  # most lanes never think about objects

            take_answer(self, ended)

    def fact(self, task: Task, kind: FactKind, data: Mapping[str, Any], **about: Any) -> StoredFact:
        """Store a fact for the next turn of cognition; *about* is what Horae adds to the *data* of a caller.

        Both were checked for size when they were accepted.
        """
        texts = encode(dict(data), "fact", None), encode(about, "fact", None)
        return self.add(StoredFact(0, self.lane.number, task.number, kind, self.now, texts[0], about=texts[1]))

    def line(
        self, cause: str, task: Task | None = None, *, before: str | None = None, after: str | None = None,
        **details: Any,
    ) -> None:  # fmt: skip
        """Write one line of the journal, with the changes of rows since the last one."""
        self.lane = replace(self.lane, seq=self.lane.seq + 1)
        changes, self._changes = self._changes, []
        number = None if task is None else task.number
        self.tx.attention.write(
            Line(self.lane.number, self.lane.seq, self.now, cause, number, before, after, changes, details,
                 self._control, self.lane.epoch)
        )  # fmt: skip

    def close(self) -> None:
        """Write the changes that no line covers yet, and the lane itself."""
        if self._changes:
            self.line("changed")
        self.tx.attention.save_lane(self.lane)

    def plan(self, handler: str, run_at: datetime, unique: str, **payload: Any) -> int:
        """Plan a job of Horae's own, written together with what it is for."""
        self.has_planned = True
        new = NewJob(
            handler=handler,
            payload=encode({"lane": self.lane.number, **payload}),
            queue=MACHINERY,
            band=0,
            run_at=run_at,
            planned_at=run_at,
            owner=self.lane.owner,
            max_attempts=PERSISTENT.attempts,
            retry=encode(PERSISTENT.as_json()),
            unique=f"{OWN_NAMES}{unique}",
        )
        return self.tx.jobs.insert([new], self.now)[0].number

    def forget(self, job: int | None) -> None:
        """End a planned job that is no longer needed; one that runs already will find nothing to do."""
        planned = None if job is None else self.tx.jobs.lock(job)
        if planned is not None and planned.state == "queued":
            self.tx.jobs.end_waiting(planned, reason="no longer needed", now=self.now)

    def _note(self, before: K | None, after: K) -> None:
        table = {Task: "task", TaskWait: "wait", Event: "event", StoredFact: "fact"}[type(after)]
        changed = change(table, before, after)
        if changed is not None:
            self._changes.append(changed)


# -- transactions ------------------------------------------------------------------------------------------------------


def in_lane(world: World, lane: str, owner: str, work: Callable[[LaneWriter], T], *, quietly: bool = False) -> T:
    """Do *work* in a lane, which is made on first use, and wake its driver unless *quietly*."""
    lane_name(lane)
    label(owner, "owner")

    def find(tx: Tx) -> Lane:
        found = tx.attention.lane(lane, owner, lock=True)
        if found is None:
            tx.attention.make_lane(lane, owner, world.clock.now())
            found = tx.attention.lane(lane, owner, lock=True)
        assert found is not None
        return found

    return _write_lane(world.route(owner=owner), find, work, quietly=quietly)


def in_known_lane(world: World, number: int, work: Callable[[LaneWriter], T], *, owner: str | None = None) -> T:
    """Do *work* in an existing lane; its *owner* is needed where *world* is that of several databases."""

    def find(tx: Tx) -> Lane:
        found = tx.attention.lane_by_number(number, lock=True)
        if found is None:
            raise NotFound("lane_unknown", lane=str(number))
        return found

    return _write_lane(world.route(owner=owner), find, work)


def write_as_driver(world: World, drive: Drive, control: Control, work: Callable[[LaneWriter], T]) -> T:
    """Do *work* in a lane, or refuse it where *drive* is not its driver; quietly, as a driver knows its work."""
    here = world.route(owner=drive.owner)
    return _write_lane(here, lambda tx: check_driver(tx, drive), work, control, quietly=True)


def check_driver(tx: Tx, drive: Drive) -> Lane:
    """Lock the lane and return it; ``LaneLost`` where *drive* is not its driver."""
    found = tx.attention.lane_by_number(drive.lane, lock=True)
    if found is None or found.epoch != drive.epoch or found.driver != drive.driver:
        raise LaneLost(drive.driver, drive.epoch)
    return found


def _write_lane(
    world: World,
    find: Callable[[Tx], Lane],
    work: Callable[[LaneWriter], T],
    control: Control | None = None,
    *,
    quietly: bool = False,
) -> T:
    def write(tx: Tx) -> tuple[LaneWriter, T, int | None]:
        lane = find(tx)
        writer = LaneWriter(world, tx, lane, None if control is None else effective(lane, control))
        result = work(writer)
        writer.close()
        is_driven = lane.is_driven(world.clock.steady())
        if not is_driven:
            seal_within(tx, lane.number)
        return writer, result, None if is_driven else lane.seq

    writer, result, sealed_from = world.route().store.transact(write)
    picture_passed(world, writer.lane, sealed_from)
    hints = [MACHINERY] if writer.has_planned else []
    world.route().store.wake(hints if quietly else [*hints, hint(writer.lane.number)])
    return result


def hint(lane: int) -> str:
    """Return the name of the wake-up signal of a lane."""
    return f"lane:{lane}"


# -- control -----------------------------------------------------------------------------------------------------------


def effective(lane: Lane, control: Control) -> Control:
    """Return what the agent's control allows, less what an operator forbids."""
    switches = {} if lane.override is None else decode(lane.override)
    return replace(
        control,
        auto_continue=control.auto_continue and switches.get("auto_continue", True),
        allow_interrupt=control.allow_interrupt and switches.get("allow_interrupt", True),
        confirm_everything=control.confirm_everything or switches.get("confirm_everything", False),
        must_confirm=control.must_confirm | frozenset(switches.get("must_confirm", ())),
    )


def set_control(
    world: World, lane: str, switches: Mapping[str, Any], *, owner: str = SYSTEM, actor: str = SYSTEM, reason: str = ""
) -> Lane:
    """Set what an operator forbids in a lane; an empty mapping lifts it all. It only narrows what the agent may do."""
    unknown = sorted(set(switches) - {*SWITCHES, "must_confirm"})
    if unknown:
        raise InvalidInput("switch_unknown", switch=unknown[0], choices=[*SWITCHES, "must_confirm"])
    for switch in SWITCHES:
        true_or_false(switches.get(switch, True), switch)
    actions = switches.get("must_confirm", ())
    if isinstance(actions, str) or not all(isinstance(each, str) for each in actions):
        raise InvalidInput("must_confirm_no_list")
    override = {**switches, **({"must_confirm": sorted(actions)} if actions else {})}

    def write(writer: LaneWriter) -> Lane:
        writer.lane = replace(writer.lane, override=encode(override) if override else None)
        focus = writer.tx.attention.focus(writer.lane.number)
        if focus is not None:
            writer.fact(focus, "control_changed", {"by": actor, "switches": override})
        writer.line(CONTROL, focus, by=actor, reason=reason or None, switches=override)
        return writer.lane

    return in_known_lane(world, get_lane(world, lane, owner=owner).number, write, owner=owner)  # never makes a lane


# -- driving -----------------------------------------------------------------------------------------------------------


def acquire(
    world: World, lane: str, driver: str, *, owner: str = SYSTEM, lease: timedelta, policy: Policy | None = None,
    rules: Sequence[Rule] | None = None, kinds: Iterable[str] | None = None,
) -> Drive | None:  # fmt: skip
    """Become the lane's driver and recover what a dead one left half done; None while another driver is alive.

    The rules are stored with the lane, so that an event gets the same rule from every sender. Tasks of other *kinds*
    are left alone; None means that the driver knows all kinds.
    """
    how = policy or Policy()
    new_rules = None if rules is None else encode([each.as_json() for each in rules], "rules")
    known = None if kinds is None else encode(sorted(kinds), "kinds")

    def write(writer: LaneWriter) -> Drive | None:
        steady = world.clock.steady()
        if writer.lane.is_driven(steady) and writer.lane.driver != driver:
            return None
        died = writer.lane.driver is not None
        kept = writer.lane.rules if new_rules is None else new_rules
        until, epoch = steady + lease, writer.lane.epoch + 1
        writer.lane = replace(writer.lane, driver=driver, epoch=epoch, leased_until=until, rules=kept, kinds=known)
        focus = writer.tx.attention.focus(writer.lane.number)
        if focus is not None and (died or focus.phase == "act"):  # one that was asked to stop may be inside an action
            recover(writer, focus, how, died=died)
        return Drive(writer.lane.number, driver, writer.lane.epoch, owner)

    if _is_driven(world, lane, owner, driver):
        return None
    return in_lane(world, lane, owner, write, quietly=True)


def _is_driven(world: World, lane: str, owner: str, driver: str) -> bool:
    """Return whether another driver is alive. Takes no lock, so that standby drivers do not queue up for it."""
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lane(lane, owner))
    return found is not None and found.driver != driver and found.is_driven(world.clock.steady())


def recover(writer: LaneWriter, focus: Task, policy: Policy, *, died: bool) -> None:
    """Recover the focus of a driver that died: repeat its thinking, or its action where the effect allows it."""
    crashes = focus.crashes + died
    if died and crashes >= policy.crashes:
        writer.forget(focus.deadline_job)
        writer.move(
            focus, "failed", "failed", {"reason": "crash_loop"}, reason="crash_loop", crashes=crashes, intent=None,
            effect=None, holds=False, held_since=None, deadline_job=None,
        )  # fmt: skip
        return
    changed = replace(focus, crashes=crashes, charged=None)  # what a lost turn or step has cost stays spent
    if focus.phase == "act" and focus.effect == "once":
        intent = decode(focus.intent or "{}")
        writer.fact(focus, "action_unknown", {}, action=intent.get("action"), key=intent.get("key"), step=focus.step)
        changed = replace(changed, phase="gap", intent=None, effect=None)
    writer.fact(focus, "recovered", {"phase": focus.phase})
    writer.save(focus, changed)
    writer.line("recovered", changed, phase=focus.phase, crashes=crashes)


def renew(world: World, drive: Drive, lease: timedelta) -> None:
    """Extend the driver's lease; raise LaneLost where another driver has the lane."""

    def write(tx: Tx) -> None:
        tx.attention.save_lane(replace(check_driver(tx, drive), leased_until=world.clock.steady() + lease))

    world.route(owner=drive.owner).store.transact(write, hot=True)


def let_go(world: World, drive: Drive) -> None:
    """Stop driving at a moment when nothing is half done; the next driver need not wait for the lease to end."""

    def write(tx: Tx) -> None:
        found = tx.attention.lane_by_number(drive.lane, lock=True)
        if found is not None and found.epoch == drive.epoch and found.driver == drive.driver:
            tx.attention.save_lane(replace(found, driver=None, leased_until=None))
            seal_within(tx, drive.lane)

    world.route(owner=drive.owner).store.transact(write, hot=True)
    world.route(owner=drive.owner).store.wake([hint(drive.lane)])


# -- queries -----------------------------------------------------------------------------------------------------------


def get_lane(world: World, lane: str, *, owner: str = SYSTEM) -> Lane:
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lane(lane, owner))
    if found is None:
        raise NotFound("lane_unknown", lane=lane)
    return with_wall_lease(world, found)


def find_lanes(world: World, *, owner: str | None = None, limit: int = 100, after: int = 0) -> list[Lane]:
    found = world.route(owner=owner).store.read(lambda tx: tx.attention.lanes(owner, limit=limit, after=after))
    return [with_wall_lease(world, lane) for lane in found]


def snapshot(world: World, lane: str, *, owner: str = SYSTEM, policy: Policy | None = None) -> Snapshot:
    """Return focus, stack, backlog and waits as of one moment."""
    how, now = policy or Policy(), world.clock.now()

    def read(tx: Tx) -> Snapshot:
        found = tx.attention.lane(lane, owner)
        if found is None:
            raise NotFound("lane_unknown", lane=lane)
        tasks = {task.number: found.explain(task) for task in tx.attention.live_tasks(found.number)}
        by_state: dict[str, list[Task]] = {}
        for task in tasks.values():
            by_state.setdefault(task.state, []).append(task)
        waits: dict[int, list[TaskWait]] = {}
        for wait in tx.attention.open_waits(found.number):
            waits.setdefault(wait.task, []).append(wait)
        backlog = in_order([task.weighed for task in by_state.get("ready", [])], now, how)
        return Snapshot(
            with_wall_lease(world, found),
            next(iter(by_state.get("running", [])), None),
            tuple(sorted(by_state.get("suspended", []), key=lambda task: -(task.stack_index or 0))),
            tuple(tasks[each.number] for each in backlog),
            tuple((task, tuple(waits.get(task.number, ()))) for task in by_state.get("waiting", [])),
            tuple(by_state.get("created", [])),
            {} if found.override is None else decode(found.override),
            now,
        )

    return world.route(owner=owner).store.read(read)
