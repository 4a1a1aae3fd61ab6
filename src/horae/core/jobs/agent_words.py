"""Jobs and schedules that carry what an agent told itself: which arguments hold it.

Such words are about people and are erased with what they repeat. The audit, which cannot be changed, never has them.
"""

from __future__ import annotations

from collections.abc import Mapping

AGENT_WORDS: Mapping[str, tuple[str, ...]] = {"attend": ("payload",), "claude.wake": ("prompt",)}  # by handler
