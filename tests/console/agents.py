"""Agents of the shop: one at work with something on its stack, one that asks, one at rest, one that nobody drives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from horae.actions.attention import endings, events, inbox, lanes, turns
from horae.actions.schedules import schedules
from horae.core.attention.directives import Act, Directive, Done, Wait
from horae.core.attention.task import Control, Policy
from horae.core.schedules.schedule import Schedule
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.ground import HOSTILE

CONTROL, POLICY = Control(must_confirm=frozenset({"refund", "ban"})), Policy()
EFFECTS: Mapping[str, Any] = {"refund": "once", "read_source": "idempotent", "restart": "idempotent", "ban": "once"}


class Agent:
    """An agent whose every turn is said."""

    def __init__(self, world: World, clock: VirtualClock, name: str, owner: str = "system") -> None:
        self.world, self.clock, self.name, self.owner = world, clock, name, owner
        self.drive: lanes.Drive | None = None

    def add(self, kind: str, goal: str, **options: Any) -> str:
        extra = options.pop("payload", {})
        added = inbox.add(self.world, self.name, kind, {"goal": goal, **extra}, owner=self.owner, **options)
        return added.task.id

    def turn(self, directive: Directive) -> turns.Work | None:
        """Decide the next turn; return what is to be done."""
        drive = lanes.acquire(
            self.world, self.name, "web-1.shop.example", owner=self.owner, lease=timedelta(minutes=20)
        ) if self.drive is None else self.drive  # fmt: skip
        assert drive is not None
        self.drive = drive
        think = turns.next_work(self.world, drive, CONTROL, POLICY)
        assert isinstance(think, turns.Think)
        self.clock.advance(timedelta(seconds=4))
        return turns.commit_turn(self.world, drive, think, directive, policy=POLICY, effects=EFFECTS)

    def do(self, directive: Act, **facts: Any) -> None:
        """Decide for an action, and say how it ended."""
        step = self.turn(directive)
        assert isinstance(step, turns.Perform)
        assert self.drive is not None
        self.clock.advance(timedelta(seconds=7))
        turns.commit_facts(self.world, self.drive, step, turns.ActionResult("ok", facts), POLICY)

    def go(self) -> None:
        assert self.drive is not None
        lanes.let_go(self.world, self.drive)


def make_agents(world: World, clock: VirtualClock) -> dict[str, str]:
    """Let agents work for a while; return the ids of tasks worth a picture."""
    rest = Agent(world, clock, "buyer")
    rest.add("report", "Compare prices of three suppliers")
    rest.turn(Done({"cheapest": "north"}))
    rest.go()

    refunds = Agent(world, clock, "support", owner="acme")
    asking = refunds.add("refund", "Refund order 4711, twice charged", priority=60, payload={"api_key": "sk_live_9"})
    context = {"order": 4711, "password": "hush"}
    refunds.turn(Act("refund", arguments={"amount": 40, "to": "c-17"}, context=context))
    refunds.add("ticket", "Answer the ticket of c-22")
    refunds.turn(Wait("reply:c-22", timedelta(hours=3), note="asked for the invoice"))
    refunds.go()

    ops = Agent(world, clock, "ops")
    report = ops.add("report", "Write the weekly report", priority=30, payload={"sources": 4})
    ops.do(Act("read_source", arguments={"n": 1}, context=[41], note="two of four sources read"), lines=41)
    ops.do(Act("read_source", arguments={"n": 2}, context=[41, 42], note="two of four sources read"), lines=42)
    ops.add("alert", "The stock database does not answer", priority=90)
    ops.do(Act("read_source", arguments={"n": 3}), lines=43)
    ops.do(Act("restart", arguments={"host": "db-1"}), started=True)
    ops.turn(Wait("ack:db-1", timedelta(minutes=20)))
    ops.add("alert", "Nightly backup is late", priority=80, due_by=clock.now() + timedelta(minutes=50))
    ops.do(Act("read_source", arguments={"n": 3}), lines=43)
    ops.turn(Act("restart", arguments={"host": "backup-2"}))
    ops.add("report", "Count the returns of December", priority=20)
    ops.add("report", "Plan the shifts of next week", priority=20, delay=timedelta(hours=6))

    alone = Agent(world, clock, "night-watch")
    alone.add("round", "Walk through the logs of the night")
    return {"task": report, "asking": asking}


def make_pile(world: World, count: int = 9) -> None:
    """Let many schedules fire at the same minute."""
    for number in range(count):
        key = f"tenant-{number}-digest"
        schedules.create(world, Schedule(key, "mail.digest", "cron", "0 3 * * 1", queue="mail"))


def make_hostile_lane(world: World) -> dict[str, str]:
    """Put hostile text wherever a caller can put it into a lane."""
    text = HOSTILE[:80].replace("\u202e", "")
    clock = VirtualClock()
    agent = Agent(world, clock, "hostile")
    task = agent.add("refund", text, key=text, payload={text: [text]})
    agent.turn(Act("refund", arguments={text: text}, context={text: text}, note=text))
    events.post(world, "hostile", text, {text: text}, actor=text)
    lanes.set_control(world, "hostile", {"must_confirm": [text]}, actor=text, reason=text)
    inbox.add(world, "hostile", "report", {"goal": text}, actor=text)
    endings.cancel(world, "hostile", inbox.add(world, "hostile", "report", {"goal": text}).task.id, reason=text)
    return {"lane": "hostile", "task_id": task}
