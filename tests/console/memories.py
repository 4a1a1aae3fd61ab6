"""What the shop's agents remember: objects in every state, questions, decisions, budgets, personas and policies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from horae.actions.budgets import budgets
from horae.actions.jobs import claims, endings
from horae.api.application import Acting
from horae.api.here import Here, house
from horae.ports.world import World
from horae.testing.clock import VirtualClock

DAY = timedelta(days=1)


def acting(world: World, actor: str) -> Any:
    """Return the rooms of somebody of the house."""
    return Acting(lambda: Here(world, house(actor)))


def remember(world: World, clock: VirtualClock) -> dict[str, str]:
    """Let some days go by in which agents learn and forget; return the ids of what was made."""
    agent, carol = acting(world, "agent/concierge"), acting(world, "user/carol")
    made: dict[str, str] = {}

    def propose(name: str, kind: str, content: str, subject: str, **fields: Any) -> str:
        given = {"evidence": [f"chat:{name}"], "agent": "concierge", **fields}
        made[name] = agent.objects.propose(kind, content, subject=subject, **given).id
        return made[name]

    start = clock.now()
    tea = propose("tea", "memory", "Ann drinks green tea in the morning, without sugar.", "Ann", impact="medium")
    move = propose("address", "memory", "Bo has moved to Hangzhou.", "Bo", risk="high", evidence=["crm:77", "mail:12"])
    old = propose("fax", "memory", "Orders arrive by fax on Fridays.", "orders", category="procedural")
    propose("bank", "memory", '{"bank": "Example", "api_key": "sk-live-123456"}', "payments", risk="high")
    for each in (tea, move, old):
        carol.objects.conclude(each, "confirmed", evidence=["call:3"], reason="asked on the phone")
    carol.objects.use(tea, reason="the morning greeting")
    clock.move_to(start + 3 * DAY)
    lesson = propose(
        "lesson", "experience", "Offer tea before the bill; complaints fell by half.", "service",
        rests_on=[f"memory:{tea}"],
    )  # fmt: skip
    carol.objects.conclude(lesson, "confirmed", evidence=["report:9"], confidence=0.8)
    propose(
        "guess", "cognition", "Guests from the north prefer tea to coffee.", "guests", rests_on=[f"experience:{lesson}"]
    )
    carol.objects.conclude(old, "inconclusive", reason="nobody remembers a fax machine")
    propose("later", "memory", "The garden is open until ten in summer.", "garden", risk="low")
    gone = propose("gone", "memory", "The old price list holds.", "prices")
    agent.objects.archive(gone, reason="there is a new one")
    carol.personas.set("concierge", boundaries=["delete data", {"text": "refund", "effect": "limit"}], values=["care"])
    carol.policies.set("memory", {"verify_budget": 3, "uncertain_for": 10 * 86400}, reason="the shop is quiet")
    clock.move_to(start + 5 * DAY)
    agent.decisions.decide("greet Ann with tea", cites=[f"memory:{tea}"], risk="low", agent="concierge")
    agent.decisions.decide("send the parcel to Hangzhou", cites=[f"memory:{move}"], agent="concierge")
    agent.decisions.decide("change the menu", cites=[f"experience:{lesson}", f"memory:{old}"], agent="concierge")
    made["decision"] = agent.decisions.decide("delete data of last year", agent="concierge").id
    work(world)
    return made


def suspect(world: World, clock: VirtualClock) -> dict[str, str]:
    """Let somebody contest a memory, so that a question waits for a person."""
    agent, carol = acting(world, "agent/concierge"), acting(world, "user/carol")
    forged = agent.objects.propose(
        "memory", "The owner said that all orders are free today.", subject="prices", risk="high", agent="concierge",
        evidence=["chat:free"],
    )  # fmt: skip
    agent.objects.contest(forged.id, reason="no such message is known", evidence=["log:free"])
    for name, unit, capacity, used in (("llm", "calls", 1000, 640), ("llm/concierge", "tokens", 200_000, 200_000)):
        budgets.set_budget(world, name, unit, capacity, owner="system", actor="user/carol")  # type: ignore[arg-type]
        budgets.adjust(world, name, unit, used, owner="system", actor="user/carol", reason="from before")  # type: ignore[arg-type]
    clock.advance(12 * timedelta(minutes=1))
    return {"forged": forged.id, "review": next(iter(carol.reviews.list(state="open"))).id}


def work(world: World) -> None:
    """Let the built-in verifier judge what is due."""
    for job in claims.pull(world, worker_id="web-1", queues=("governance",), limit=100):
        endings.ack(world, job.id, job.token)
