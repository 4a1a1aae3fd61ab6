"""Tools of governance: an agent asks before it acts, and is told what to do with the answer."""

from __future__ import annotations

import pytest

from horae.mcp.governance import ADVICE
from horae.ports import World
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
