"""The agent of the stories: a report that can be interrupted, an alert that waits, a refund that must be confirmed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Facts, Fail, Pending, Proceed, Rule, Turn, Wait

MINUTES = timedelta(minutes=1)


class Pager:
    def __init__(self) -> None:
        self.paged: list[str] = []


def an_agent(app: Horae, *, name: str = "ops", must_confirm: frozenset[str] = frozenset()) -> tuple[Attention, Pager]:
    """Document 002's story, on a store that the test owns."""
    agent, pager = Attention(name, app), Pager()

    @agent.control
    def control() -> Control:
        return Control(must_confirm=must_confirm)

    @agent.action(effect="idempotent")
    def read_source(step: Any, n: int) -> Facts:
        return Facts(n=n, lines=40 + n)

    @agent.action(effect="once")
    def page(step: Any, who: str) -> Pending:
        pager.paged.append(who)
        return Pending(on="ack:db-1", timeout=10 * MINUTES)

    @agent.action(effect="once")
    def refund(step: Any, amount: int, to: str) -> Facts:
        pager.paged.append(f"refund {amount} to {to}")
        return Facts(receipt=f"r-{amount}")

    @agent.cognition("report")
    def report(turn: Turn) -> Any:
        notes = (turn.context or []) + [fact["lines"] for fact in turn.facts.of("action_ok", "read_source")]
        if len(notes) < 4:
            return Act("read_source", {"n": len(notes) + 1}, context=notes)
        return Done({"lines": sum(notes)})

    @agent.cognition("alert")
    def alert(turn: Turn) -> Any:
        tried = list(turn.context or [])
        if ack := turn.facts.last("event", key="ack:db-1"):
            return Done({"by": ack["by"]})
        if turn.facts.last("action_unknown"):
            return Wait("ack:db-1", timeout=10 * MINUTES, context=tried)
        if turn.facts.last("timed_out"):
            tried.append("silent")
        if len(tried) == 2:
            return Fail("nobody answered")
        return Act("page", {"who": ["alice", "bob"][len(tried)]}, context=tried)

    @agent.cognition("refund")
    def refund_flow(turn: Turn) -> Any:
        if ok := turn.facts.last("confirmed"):
            return Proceed(ok.grant)
        if turn.facts.last("action_ok") or turn.facts.last("denied"):
            return Done()
        if turn.facts.last("timed_out"):
            return Fail("no decision in time")
        return Act("refund", {"amount": 40, "to": "c-17"}, interruptible=False)

    agent.rule(Rule("db.down", do="task", kind="alert", priority=90, key="alert:{id}"))
    agent.rule(Rule("chat.message", do="steer"))
    agent.rule(Rule("noise", do="log"))
    return agent, pager


def trace(agent: Attention) -> list[tuple[str, str | None, str | None]]:
    """Every transition of the journal: who, from, to."""
    return [(f"t{line.task}", line.before, line.after) for line in agent.journal() if line.after is not None]
