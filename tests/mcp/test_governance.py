"""Tools of governance: an agent asks before it acts, and is told what to do with the answer."""

from __future__ import annotations

import pytest

from horae.mcp.governance import ADVICE, STANDING_ADVICE
from horae.ports.world import World
from tests.mcp.conftest import agent
from tests.support.governed import keep


@pytest.mark.parametrize(
    ("state", "risk", "outcome"),
    [("active", "low", "executed"), ("active", "high", "limited"), ("stale", "high", "escalated"),
     ("rejected_poisoned", "low", "abstained")],
)  # fmt: skip
async def test_an_agent_decides_and_gets_advice(world: World, state: str, risk: str, outcome: str) -> None:
    keep(world, "mem_1", state=state, risk="low")
    async with agent(world) as host:
        made = await host.call("decide", action="refund 40", cites=["memory:mem_1"], risk=risk, reason="asked for")

    assert (made["outcome"], made["advice"], made["cites"]) == (outcome, ADVICE[outcome], ["memory:mem_1"])
    assert made["reason"]
    assert (made["opened_review"] is not None) == (outcome == "escalated")
    kept = world.store.read(lambda tx: tx.decisions.get("alice", made["id"]))
    assert kept is not None
    assert kept.agent == "main"


async def test_what_is_no_decision_is_refused_in_words(world: World) -> None:
    async with agent(world) as host:
        assert "memory 'none'" in await host.refused("decide", action="refund", cites=["memory:none"])
        assert "kind and the id" in await host.refused("decide", action="refund", cites=["none"])
        assert "action" in await host.refused("decide", action="")


async def test_an_agent_remembers_recalls_and_adds_evidence(world: World) -> None:
    async with agent(world) as host:
        made = await host.call(
            "propose", content="Ann likes tea", subject="Ann", evidence=["chat:1"], reason="she said so"
        )
        again = await host.call("propose", content="Ann likes tea", subject="Ann", idempotency_key="mem_tea")
        known = await host.call("evidence", name=made["name"], references=["chat:1", "chat:2"], note="said it twice")
        found = await host.call("recall", subject="Ann")
        strict = await host.call("recall", subject="Ann", strict=True)

    assert (made["status"], made["next_action"], made["advice"]) == (
        "candidate",
        "verify",
        STANDING_ADVICE["uncertain"],
    )
    assert again["name"] == "memory:mem_tea"
    assert known["new"] == 1
    assert {(each["content"], each["usable"]) for each in found["items"]} == {("Ann likes tea", "caution")}
    assert strict["items"] == []


async def test_proposing_twice_under_one_key_is_one_memory(world: World) -> None:
    async with agent(world) as host:
        for deduplicated in (False, True):
            made = await host.call("propose", content="Ann likes tea", subject="Ann", idempotency_key="mem_tea")
            assert made["deduplicated"] is deduplicated
        assert "other content" in await host.refused(
            "propose", content="Ann likes coffee", subject="Ann", idempotency_key="mem_tea"
        )


async def test_what_is_no_memory_or_evidence_is_refused_in_words_and_changes_nothing(world: World) -> None:
    async with agent(world) as host:
        assert "content" in await host.refused("propose", content="", subject="Ann")
        assert "kind" in await host.refused("propose", content="x", subject="Ann", kind="dream")
        assert "memory" in await host.refused("propose", content="x", subject="Ann", rests_on=["cognition:cog_1"])
        assert "references" in await host.refused("evidence", name="memory:mem_1", references=[""])
        assert "no memory" in await host.refused("evidence", name="memory:mem_1", references=["chat:1"])
        assert (await host.call("recall", subject="Ann"))["items"] == []
