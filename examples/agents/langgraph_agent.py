# langgraph_agent.py
"""A LangGraph agent whose checkpoints, approvals and waits survive a restart: no model, no key, no network.

The refund needs a person; the customer's answer needs a day at most. Both are interrupts of the graph: the first
becomes an action of the agent, the second a wait with a deadline. ``decide`` is where a model would think.
"""

from datetime import timedelta
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from horae.adapters.langgraph import GraphCognition, HoraeSaver, act, wait_for
from horae.attention import Attention, Control, Facts, Step

SENT: list[dict[str, Any]] = []  # what the outside world has seen of us


class Ticket(TypedDict, total=False):
    order: str
    amount: int
    refund: dict[str, Any]
    answer: str


def decide(state: Ticket) -> Ticket:
    return {"amount": 40}


def refund(state: Ticket) -> Ticket:
    answer = act("refund", order=state["order"], amount=state["amount"])
    return {"refund": answer.for_model()}


def ask_customer(state: Ticket) -> Ticket:
    answer = wait_for(f"customer:{state['order']}", timeout=timedelta(days=1))
    return {"answer": answer.data.get("text", answer.kind)}


def support(store: Any = "sqlite://") -> Attention:
    agent = Attention("support", store)
    builder = StateGraph(Ticket)
    for node in (decide, refund, ask_customer):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "decide")
    builder.add_edge("decide", "refund")
    builder.add_edge("refund", "ask_customer")
    builder.add_edge("ask_customer", END)
    graph = builder.compile(checkpointer=HoraeSaver(agent))
    agent.cognition("ticket")(GraphCognition(graph))

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}), confirm_timeout=timedelta(hours=8))

    @agent.action(effect="once", name="refund")
    def pay(step: Step, order: str, amount: int) -> Facts:
        SENT.append({"order": order, "amount": amount, "key": step.key})
        return Facts(receipt=f"r-{order}")

    return agent


def main() -> dict[str, Any]:
    with support() as agent:
        agent.add("ticket", {"order": "A-17"}, key="A-17")
        (_, (question,)) = agent.run(until="idle").waiting[0]
        print("waits for a person:", question.intent)
        agent.confirm(question.number, True, actor="user/olga")
        (_, (wait,)) = agent.run(until="idle").waiting[0]
        print("waits for", wait.key)
        agent.post("customer:A-17", {"text": "thank you"})
        agent.run(until="idle")
        return {"sent": len(SENT), "idle": agent.snapshot().is_idle, "sound": agent.verify().is_sound}


if __name__ == "__main__":
    print(main())
