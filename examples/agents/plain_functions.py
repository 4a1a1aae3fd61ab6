# plain_functions.py
"""An agent of plain functions: no model, no key, no network.

A report is being written when the database goes down. The alert takes the focus at the next safe point, pages Alice,
and waits for her word; meanwhile the report is finished.
"""

from datetime import timedelta
from typing import Any

from horae.attention import Act, Attention, Directive, Done, Facts, Fail, Pending, Rule, Step, Turn, Wait


def ops(store: str = "sqlite://") -> Attention:
    agent = Attention("ops", store)
    agent.rule(Rule("db.down", do="task", kind="alert", priority=90, key="alert:{id}"))

    @agent.action(effect="idempotent")  # after a crash: run again, with the same key
    def read_source(step: Step, n: int) -> Facts:
        print(f"  reads source {n}")
        if n == 2:  # something happens while we read; any process may post it
            agent.post("db.down", {"id": "db-1"}, event_id="monitor-8841")
        return Facts(lines=40 + n)

    @agent.action(effect="once")  # after a crash: not repeated; the next turn hears action_unknown
    def page(step: Step, who: str) -> Pending:
        print(f"  pages {who}")
        return Pending(on="ack:db-1", timeout=timedelta(minutes=10))

    @agent.cognition("report")
    def report(turn: Turn) -> Act | Done:
        lines = (turn.context or []) + [fact["lines"] for fact in turn.facts.of("action_ok", "read_source")]
        if len(lines) == 4:
            return Done({"lines": sum(lines)})
        return Act("read_source", {"n": len(lines) + 1}, context=lines, note=f"{len(lines)} of 4 sources read")

    @agent.cognition("alert")
    def alert(turn: Turn) -> Directive:
        if ack := turn.facts.last("event"):
            return Done({"by": ack["by"]})
        if turn.facts.last("action_unknown"):  # did we page or not? wait, do not page twice
            return Wait("ack:db-1", timeout=timedelta(minutes=10))
        if turn.facts.last("timed_out"):
            return Fail("nobody answered")
        return Act("page", {"who": "alice"})

    return agent


def tell(agent: Attention, since: int = 0) -> int:
    """Print the journal of the tasks, line by line."""
    lines = agent.journal(since=since)
    for line in lines:
        if line.after is not None:
            print(f"t{line.task}  {line.before or '-'} -> {line.after}")
    return lines[-1].seq if lines else since


def main() -> dict[str, Any]:
    with ops() as agent:
        agent.add("report", priority=40, key="report:2026-11-16")
        agent.run(until="idle")
        seen = tell(agent)
        print("Alice answers")
        agent.post("ack:db-1", {"by": "alice"})
        agent.run(until="idle")
        tell(agent, seen)
        return {"sound": agent.verify().is_sound, "idle": agent.snapshot().is_idle}


if __name__ == "__main__":
    print(main())
