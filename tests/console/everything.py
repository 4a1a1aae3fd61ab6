"""One of everything that a page shows, each with a text in every field that a caller fills, for tests of all pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from horae.actions import roll_up, scheduled_tasks
from horae.actions.access.tokens import create_token
from horae.actions.budgets import budgets
from horae.actions.jobs import claims, queues
from horae.actions.jobs.batch import BatchRequest, create
from horae.actions.jobs.requests import Request
from horae.api.application import Acting
from horae.api.here import Here, house
from horae.console.filters import quoted
from horae.core.jobs.retry import Retry
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.console.agents import make_hostile_lane
from tests.console.ground import HOSTILE, fail_loudly, make_hostile

LABEL = HOSTILE[:80].replace("\u202e", "")  # of a name: printable, not long
QUEUE = "default"


def make_everything(world: World, clock: VirtualClock) -> dict[str, str]:
    """Make one of each thing with hostile text in it; return what stands in the paths of pages."""
    made = make_hostile(world)
    queues.resume_queue(world, QUEUE, actor="test")
    lane = make_hostile_lane(world)
    found = {"job_id": made["job"], "key": made["schedule"], "lane": lane["lane"], "lane_task": lane["task_id"]}
    rooms: Any = Acting(lambda: Here(world, house("user/carol")))
    found["batch_id"] = make_batch(world)
    found["task_id"] = make_task(world)
    found["act_id"] = rooms.acts.start("cancel", f"tag:{quoted(LABEL)}", reason=HOSTILE).id
    found |= make_governed(world, rooms)
    rooms.calendars.set("mail", ["sat", "2030-12-24..2030-12-31"], title=LABEL, reason=HOSTILE)
    rooms.queues.quiet("mail", "22:00-07:00", zone="Asia/Shanghai", reason=HOSTILE)
    rooms.views.save(LABEL, "state:dead", room="jobs", shared=True)
    clock.advance(timedelta(minutes=3))
    roll_up.keep_up(world)
    found["fingerprint"] = next(iter(rooms.error_groups.list(limit=1))).fingerprint
    create_token(world, owner="system", scopes=("read",), title=LABEL)
    queues.pause_queue(world, "mail", until=world.clock.now() + timedelta(days=1), actor=LABEL, reason=HOSTILE)
    return {**found, "name": "mail", "unit": "calls"}


def make_batch(world: World) -> str:
    """Make a batch with a part that failed, one that is left, and something that follows."""
    parts = [Request("hostile.part", {LABEL: LABEL}, retry=Retry.none(), tags=(LABEL,)) for _ in range(2)]
    follower = Request("hostile.after", {LABEL: LABEL})
    asked = BatchRequest(parts, LABEL, LABEL, callbacks={"on_end": follower, "on_failure": follower})
    batch, numbers = create(world, asked, actor=LABEL)
    job = next(
        each for each in claims.pull(world, worker_id=LABEL, queues=(QUEUE,), limit=10) if each.number == numbers[0]
    )
    fail_loudly(world, job, f"{HOSTILE}\n{HOSTILE}", HOSTILE, final=True)
    return batch.id


def make_task(world: World) -> str:
    wish = Wish(name=LABEL, schedule_expr="0 9 * * *", payload={"text": HOSTILE, "default_agent": LABEL})
    scheduled_tasks.create(world, wish, owner="system", terms=Terms(), actor=LABEL)
    rooms: Any = Acting(lambda: Here(world, house("user/carol")))
    return str(next(iter(rooms.scheduled_tasks.list(limit=1))).id)


def make_governed(world: World, rooms: Any) -> dict[str, str]:
    """Make an object, a review, a decision, a budget, a persona and a policy."""
    agent: Any = Acting(lambda: Here(world, house("agent/desk")))
    memory = agent.objects.propose(
        "memory", HOSTILE, subject=LABEL, agent="desk", evidence=[LABEL], risk="high", reason=HOSTILE
    ).id  # fmt: skip
    agent.objects.contest(memory, reason=HOSTILE, evidence=[f"{LABEL}2"])
    rooms.personas.set("desk", boundaries=[LABEL, {"text": "limit", "effect": "limit"}], values=[LABEL], reason=HOSTILE)
    rooms.policies.set("memory", {"verify_budget": 3, "trusted_sources": [LABEL]}, reason=HOSTILE)
    decision = agent.decisions.decide(HOSTILE[:60].replace("\u202e", ""), cites=[f"memory:{memory}"], agent="desk")
    budgets.set_budget(world, "mail", "calls", 10, owner="system", actor=LABEL)
    budgets.adjust(world, "mail", "calls", 3, owner="system", actor=LABEL, reason=HOSTILE)
    review = next(iter(rooms.reviews.list(state="open"))).id
    return {
        "object_id": memory, "review_id": review, "decision_id": decision.id, "kind": "memory", "agent": "desk",
    }  # fmt: skip
