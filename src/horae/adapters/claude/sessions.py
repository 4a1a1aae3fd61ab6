"""Resume sessions by the Claude Agent SDK, which is imported here and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.adapters.claude.approvals import Approvals
from horae.adapters.claude.wake_ups import WakeUps
from horae.adapters.extras import needs_extra


def hook_matchers(wake_ups: WakeUps | None = None, approvals: Approvals | None = None) -> dict[str, list[Any]]:
    """Return ``hooks=`` for ``ClaudeAgentOptions``."""
    with needs_extra("claude"):
        from claude_agent_sdk import HookMatcher
    hooks: dict[str, list[Any]] = {}
    if wake_ups is not None:
        hooks |= {name: [HookMatcher(hooks=[wake_ups.on_stop])] for name in ("Stop", "SubagentStop")}
    if approvals is not None:
        matcher = HookMatcher(hooks=[approvals.on_tool])
        if hasattr(matcher, "on_failure"):  # of a release that knows it: a hook that takes too long blocks the tool
            matcher.on_failure = "block"
        hooks["PreToolUse"] = [matcher]
    return hooks


async def resume_session(session_id: str, text: str, options: Any = None) -> dict[str, Any]:
    """Give a session another turn; return how that turn ended. Raises what the SDK raises."""
    with needs_extra("claude"):
        from claude_agent_sdk import ClaudeAgentOptions, query
    base = ClaudeAgentOptions() if options is None else options
    last: Any = None
    async for message in query(prompt=text, options=replace(base, resume=session_id)):
        last = message
    fields = ("subtype", "is_error", "num_turns", "total_cost_usd", "result")
    return {name: getattr(last, name) for name in fields if hasattr(last, name)}
