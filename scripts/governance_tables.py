"""The machines of governed objects, and what actions and verdicts mean, drawn from the tables of the core."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from horae.core.governance.machines import MACHINES, VERDICTS, event_of, way_to_archive
from horae.core.governance.timers import RULES

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "governance.md"
PART = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.S)


def explanation_page() -> str:
    """Return the page with its drawn parts made anew; the text around them is written by hand."""
    text = PAGE.read_text(encoding="utf-8")
    return PART.sub(lambda part: f"{part[1]}\n{DRAWN[part[2]]()}\n\n{part[3]}", text)


def machine(kind: str) -> str:
    return f"```mermaid\n{MACHINES[kind].diagram()}\n```"


def actions() -> str:
    """Return for each kind and state the event that each action leads to, by verdict."""
    head = [
        "kind",
        "state",
        *(f"verify: {each}" for each in VERDICTS),
        "reinstate-check: confirmed",
        "decay",
        "archive",
    ]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for kind, drawn in MACHINES.items():
        for state in drawn.states:
            if state.startswith("retracted"):
                continue
            looks = [event_of(kind, "verify", state, verdict) for verdict in VERDICTS]
            back, decay = event_of(kind, "reinstate-check", state, "confirmed"), event_of(kind, "decay", state, None)
            cells = [*looks, back, decay, ", ".join(way_to_archive(kind, state))]
            rows.append("| " + " | ".join([kind, f"`{state}`", *(each or "–" for each in cells)]) + " |")
    return "\n".join(rows)


def timers() -> str:
    rows = ["| kind | state | timers |", "|---|---|---|"]
    rows += [
        f"| {kind} | `{state}` | {', '.join(rules)} |"
        for kind, states in RULES.items()
        for state, rules in states.items()
    ]
    return "\n".join(rows)


DRAWN: dict[str, Callable[[], str]] = {
    "memory": lambda: machine("memory"),
    "experience": lambda: machine("experience"),
    "cognition": lambda: machine("cognition"),
    "actions": actions,
    "timers": timers,
}
