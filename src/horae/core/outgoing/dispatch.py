"""The request to an orchestrator, and the check of its answer (document 001).

A payload may say which agent answers by default and how the orchestrator chooses (S1-25, S1-26). Keys that would route
around the orchestrator are dropped and named (S1-27).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import encode
from horae.core.jobs.reasons import Reason
from horae.errors import DispatchFailed, InvalidPayload

ROUTING = ("agent", "forced_agent", "items")  # a payload with these would bypass the orchestrator
LONGEST_CHOICE = 200
PATH = "/dispatch/execute"
KEPT_BYTES = 64 * 1024
CUT = " … (cut)"


@dataclass(frozen=True, slots=True)
class Routing:
    """Who answers and how that is chosen, where the payload leaves it out."""

    default_agent: str = "attendance"
    mode: str = "hybrid"


def drop_routing(payload: Mapping[str, Any]) -> tuple[dict[str, Any], list[Reason]]:
    """Return the payload without the keys that would override routing, and a warning for each that was there."""
    kept = {key: value for key, value in payload.items() if key not in ROUTING}
    warnings = [Reason("routing", "routing_dropped", {"key": key}) for key in ROUTING if key in payload]
    return kept, warnings


def question(payload: Mapping[str, Any], routing: Routing, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is posted; *known* facts, such as the user, win over what the context claims about them."""
    text = payload.get("text") or payload.get("input")
    if not isinstance(text, str) or not text.strip():
        raise InvalidPayload("dispatch_text_missing")
    context = payload.get("context")
    if context is not None and not isinstance(context, dict):
        raise InvalidPayload("dispatch_context_unreadable", given=type(context).__name__)
    facts = {name: value for name, value in known.items() if value is not None}
    return {
        "text": text,
        "context": {**(context or {}), **facts},
        "default_agent": _choice(payload, "default_agent") or routing.default_agent,
        "mode": _choice(payload, "mode") or routing.mode,
    }


def _choice(payload: Mapping[str, Any], name: str) -> str | None:
    """Return the payload's own value; None where it is left out, null or blank."""
    value = payload.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > LONGEST_CHOICE:
        raise InvalidPayload("dispatch_choice_unreadable", name=name, most=LONGEST_CHOICE)
    return value.strip() or None


def answer_of(body: bytes) -> dict[str, Any]:
    """Return the orchestrator's answer, if it is one: an object that holds something and reports no error."""
    if not body.strip():
        raise DispatchFailed("orchestrator_silent")
    try:
        answer = json.loads(body)
        encode(answer, "answer", len(body) * 6)  # as deep and as plain as any result may be
    except (ValueError, RecursionError):
        raise DispatchFailed("orchestrator_answer_no_json") from None
    if not isinstance(answer, dict):
        raise DispatchFailed("orchestrator_answer_no_object")
    if answer.get("error"):
        raise DispatchFailed("orchestrator_failed", error=_short(answer["error"], 500))
    if not any(answer.values()):
        raise DispatchFailed("orchestrator_answer_empty")
    return answer


def truncate_answer(answer: Mapping[str, Any], most: int = KEPT_BYTES) -> dict[str, Any]:
    """Return as much of an answer as is stored with the run: all of it, or the beginning of what it says."""
    if len(encode(answer, "answer", 1 << 30).encode()) <= most:
        return dict(answer)
    return {"output": _short(answer.get("output") or dict(answer), most // 8), "truncated": True}


def _short(value: Any, most: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else text[:most] + CUT
