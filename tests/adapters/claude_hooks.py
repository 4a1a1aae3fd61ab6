"""Hook inputs as hosts of the Claude Agent SDK get them, and the fields that the SDK declares for them.

Read from ``claude_agent_sdk/types.py`` and from the schema inside the bundled CLI of the wheel ``claude-agent-sdk
0.2.183`` (CLI 2.1.326) on PyPI, field by field; ``session_crons`` also from the CLI's own description of it: a cron
expression in local time, ``recurring`` false where it encodes a single instant, and prompts "capped at 1000 chars;
clipped values append an in-string … [+N chars] marker". The values are ours: recording them takes a key.

With the SDK on the path, ``python -m tests.adapters.claude_hooks`` compares these fields with those of its types.
"""

from __future__ import annotations

import sys
from typing import Any

Fields = dict[str, type]
VERSION = "0.2.183"
SESSION = "0d2c6f0e-5a44-4b0a-9a43-1f7c3a1b5f10"
BASE: Fields = {"session_id": str, "transcript_path": str, "cwd": str}
BASE_OPTIONAL: Fields = {"permission_mode": str, "prompt_id": str, "effort": dict}
STOPPED: Fields = {"hook_event_name": str, "stop_hook_active": bool}
LISTS: Fields = {"last_assistant_message": str, "background_tasks": list, "session_crons": list}
SUBAGENT: Fields = {"agent_id": str, "agent_transcript_path": str, "agent_type": str}
CALL: Fields = {"hook_event_name": str, "tool_name": str, "tool_input": dict, "tool_use_id": str}
# The type of the SDK: its required fields, and those that may be left out.
FIELDS: dict[str, tuple[Fields, Fields]] = {
    "StopHookInput": (BASE | STOPPED, BASE_OPTIONAL | LISTS),
    "SubagentStopHookInput": (BASE | STOPPED | SUBAGENT, BASE_OPTIONAL | LISTS),
    "PreToolUseHookInput": (BASE | CALL, BASE_OPTIONAL | {"agent_id": str, "agent_type": str}),
    "SessionCronSummary": ({"id": str, "schedule": str, "recurring": bool, "prompt": str}, {}),
    "BackgroundTaskSummary": (
        {"id": str, "type": str, "status": str, "description": str},
        {"command": str, "agent_type": str, "server": str, "tool": str, "name": str},
    ),
    "PreToolUseHookSpecificOutput": (
        {"hookEventName": str},
        {"permissionDecision": str, "permissionDecisionReason": str, "updatedInput": dict, "additionalContext": str},
    ),
}
PERMISSIONS = ("allow", "deny", "ask", "defer")

ALL: dict[str, Any] = {
    "session_id": SESSION,
    "transcript_path": "/home/u/.claude/projects/-w/0d2c6f0e.jsonl",
    "cwd": "/w",
    "permission_mode": "default",
    "prompt_id": "5b0f6a53-0d0e-4bb7-8f0c-6f6b0c3f3c11",
    "effort": {"level": "high"},
}
STOP: dict[str, Any] = {
    **ALL,
    "hook_event_name": "Stop",
    "stop_hook_active": False,
    "last_assistant_message": "I will look again.",
    "background_tasks": [
        {"id": "b1", "type": "shell", "status": "running", "description": "tests", "command": "make test"}
    ],
    "session_crons": [
        {"id": "a1b2c3d4", "schedule": "*/5 * * * *", "recurring": True, "prompt": "Is the build green?"},
        {"id": "e5f6a7b8", "schedule": "30 14 17 11 *", "recurring": False, "prompt": "x" * 1000 + "… [+234 chars]"},
    ],
}
SUBAGENT_STOP: dict[str, Any] = {
    **STOP,
    "hook_event_name": "SubagentStop",
    "agent_id": "ag-1",
    "agent_type": "general-purpose",
    "agent_transcript_path": "/home/u/.claude/projects/-w/0d2c6f0e/subagents/agent-ag-1.jsonl",
}
PRE_TOOL: dict[str, Any] = {
    **ALL,
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "rm -r build"},
    "tool_use_id": "toolu_01",
}


def complaints(name: str, value: Any) -> list[str]:
    """Return what the SDK's type of this name does not know of a value, or misses in it."""
    required, optional = FIELDS[name]
    known = required | optional
    found = [f"{name} has no field {field}" for field in value if field not in known]
    found += [f"{name} needs {field}" for field in required if field not in value]
    wrong = [field for field in value if field in known and not isinstance(value[field], known[field])]
    return found + [f"{name}.{field} is no {known[field].__name__}" for field in wrong]


def compare() -> list[str]:
    """Return how the fields above differ from the types of the SDK that is installed."""
    from claude_agent_sdk import types

    found = []
    for name, (required, optional) in FIELDS.items():
        theirs = getattr(types, name)
        for kind, ours in (("required", required), ("optional", optional)):
            known = getattr(theirs, f"__{kind}_keys__")
            found += [f"{name}: {kind} {field}" for field in sorted(set(ours) ^ set(known))]
    return found


if __name__ == "__main__":
    differences = compare()
    print("\n".join(differences) or f"as in {VERSION}")
    sys.exit(bool(differences))
