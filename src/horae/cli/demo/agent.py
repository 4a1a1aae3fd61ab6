"""The agent of ``horae up``: a lane that is at work, with a task that waits for a person's consent."""

from __future__ import annotations

from datetime import timedelta

from horae.app import Horae
from horae.attention import Attention, Control, Facts, Step
from horae.cli.demo.story import refund_flow, report
from horae.clock import pause

LANE = "example"
READING = 1.5  # seconds for one source
CONSENT = timedelta(hours=1)


def make_agent(app: Horae) -> Attention:
    """Make the agent, on the store of the example application."""
    agent = Attention(LANE, app)

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}), confirm_timeout=CONSENT)

    @agent.action(effect="idempotent")
    def read_source(step: Step, n: int) -> Facts:
        pause(READING)
        return Facts(n=n, lines=40 + n)

    @agent.action(effect="once")
    def refund(step: Step, amount: int, to: str) -> Facts:
        return Facts(receipt=f"r-{step.key[:4]}")

    agent.cognition("report")(report)
    agent.cognition("refund")(refund_flow)
    return agent


def add_tasks(agent: Attention) -> None:
    """Give it something to do, once an hour however often this is called."""
    hour = f"{agent.world.clock.now():%Y-%m-%dT%H}"
    agent.add("report", {"about": "last week"}, priority=40, key=f"example:report:{hour}")
    agent.add("refund", {"order": 42}, priority=60, key=f"example:refund:{hour}")
