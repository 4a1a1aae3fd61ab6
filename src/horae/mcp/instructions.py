"""The texts that a model reads before it calls a tool: the instructions of the servers, and the prompt of the loop.

A server that offers fewer tools leaves out what is said about the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

ATTENTION = "Your attention: one task has your focus, others wait or were interrupted. Nothing wakes you: ask for work."
FOR_AGENTS = (
    "next_work tells what to work on, with the context that you left and what happened since. It waits for work, up to "
    "50 seconds; safe_point without a task is the same without waiting.",
    "Between two steps call safe_point with the task and a context: go on if it says continue, stop if it says yield.",
    "For something outside use wait_for (with a timeout), and go on with what next_work gives you.",
    "Before something that needs a person's word use confirm_request. When `confirmed` comes, call grant_redeem, do "
    "what it says and nothing else, and call action_report.",
    "End with task_done or task_fail.",
)
FOR_OPERATORS = (
    "Agents ask before they act. Answer for a person, never for an agent: an approval permits exactly what it shows."
)
LOOP = (
    "Call next_work. On `idle` call it again. Else read task.goal, task.payload, task.context, task.note and facts.",
    "If `step` is there, you redeemed a grant and have not said how its action ended: call action_report first.",
    "Do one small step. Then call safe_point with task_id, turn, a note, and a context from which you could go on "
    "after a restart. On `yield` stop at once: another task has the focus; yours comes back later with that context.",
    "For something outside call wait_for, then go to 1.",
    "For what needs a person call confirm_request, then go to 1.",
    "When the goal is reached call task_done with a result, or task_fail with a reason that a person understands; then "
    "go to 1.",
)
CARE = "Work only on what next_work or safe_point gave you. When a call is refused, its answer says what to change."
TOOL_NAME = re.compile(r"\b[a-z]+_[a-z]+\b")
NOT_TOOLS = frozenset({"task_id"})


def instructions(tools: Collection[str]) -> str:
    """Return what an agent is told when it connects."""
    return "\n".join([ATTENTION, *numbered(FOR_AGENTS, tools)])


def loop(tools: Collection[str], until: str) -> str:
    """Return the prompt that starts an agent on its work."""
    return "\n".join([f"Work on your tasks until {until}.", *numbered(LOOP, tools), CARE])


def numbered(lines: Sequence[str], tools: Collection[str]) -> list[str]:
    """Return the lines that name no tool but these, with their numbers."""
    offered = {*tools, *NOT_TOOLS}
    kept = [line for line in lines if offered.issuperset(TOOL_NAME.findall(line))]
    return [f"{number}. {line}" for number, line in enumerate(kept, 1)]
