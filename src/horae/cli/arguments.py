"""Values of jobs as people type them; a refusal shows how to write them."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from horae.core.time.instants import from_iso
from horae.errors import InvalidInput

PRIORITIES = ("high", "medium", "low")


def arguments_from(pairs: list[str], text: str | None, stdin: str | None) -> dict[str, Any]:
    """Read the arguments of a job from ``--arg``, ``--args`` or stdin; a single pair wins over the whole."""
    if stdin not in (None, "-"):
        raise InvalidInput("word_too_many", text=stdin)
    if stdin is not None and text is not None:
        raise InvalidInput("arguments_given_twice")
    whole = sys.stdin.read() if stdin == "-" else text
    return _object(whole) | dict(_pair(pair) for pair in pairs)


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as problem:
        raise InvalidInput("arguments_unreadable", problem=str(problem)) from None
    if not isinstance(value, dict):
        raise InvalidInput("arguments_no_object")
    return value


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidInput("argument_unreadable", text=text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def instant_from(text: str) -> datetime:
    return from_iso(text)


def until_from(text: str | None) -> dict[str, Any]:
    """Read ``--until`` as the verbs take it; nothing where it is not given."""
    return {} if text is None else {"until": instant_from(text)}


def priority_from(text: str | None) -> str | None:
    if text is not None and text not in PRIORITIES:
        raise InvalidInput("choice_unknown", name="priority", value=text, choices=list(PRIORITIES))
    return text
