"""Durable wake-ups and approvals for hosts of the Claude Agent SDK.

The SDK is imported only where a session is resumed or its hooks are built; nothing else here needs it.
"""

from horae.adapters.claude.approvals import Approvals
from horae.adapters.claude.sessions import hook_matchers, resume_session
from horae.adapters.claude.wake_ups import WakeUp, WakeUps

__all__ = ["Approvals", "WakeUp", "WakeUps", "hook_matchers", "resume_session"]
