"""Errors in words for a model: the tool, what is wrong, and the argument to change or the tool to call next.

The sentences of :mod:`horae.words` are for people as well, and some name a command of a shell. A model has none, so
those are said here in other words; the test of this module provokes each refusal of each tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from horae.errors import HoraeError, StoreError

MOST_SHOWN = 80  # characters of a value that was refused
MOST_FAULTS = 10
COMMAND = re.compile(r"`?\bhorae(?:-\w+)? [a-z]|\bpip install|HORAE_[A-Z]|--[a-z]+|\btzdata\b")
SENTENCES = re.compile(r"(?<=[.!?;]) +")

# The argument that a reason or a code is about; where tools differ, "tool.reason" comes first.
ARGUMENTS: Mapping[str, str] = {
    "task_id_unreadable": "task_id",
    "task_id_malformed": "task_id",
    "task_unknown": "task_id",
    "task_has_ended": "task_id",
    "task_not_focused": "task_id",
    "task_of_context_missing": "task_id",
    "confirmation_not_opened": "task_id",
    "step_not_open": "task_id",
    "turn_not_reached": "turn",
    "context_given_and_cleared": "clear_context",
    "grant_unknown": "grant",
    "grant_used": "grant",
    "grant_void": "grant",
    "grant_expired": "grant",
    "task_key_taken": "idempotency_key",
    "key_conflict": "idempotency_key",
    "start_at_and_delay": "delay_s",
    "wait_keys_outside": "keys",
    "wait_too_long": "timeout_s",
    "cursor_invalid": "cursor",
    "agent_schedule_unknown": "schedule_id",
    "agent_schedule_too_often": "expr",
    "agent_schedule_end_outside": "ends_at",
    "cron_zone_missing": "timezone",
    "interval_expr_unreadable": "expr",
    "once_expr_passed": "expr",
    "once_expr_unreadable": "expr",
    "confirmation_not_listed": "wait_id",
    "confirmation_decided": "wait_id",
    "confirmation_not_needed": "wait_id",
    "confirmation_timed_out": "wait_id",
    "act_arguments_unreadable": "args",
    "note_unreadable": "note",
    "failure_without_reason": "reason",
    "wait_for_own_task": "wait",
    "task_has_result": "result",
    "invalid_cron": "expr",
    "never_fires": "expr",
    "invalid_interval": "expr",
    "past_due": "expr",
    "unknown_zone": "timezone",
    "content_too_large": "content",
    "evidence.not_found": "name",
    "decide.not_found": "cites",
    "decide.invalid_input": "cites",
    "propose.not_found": "rests_on",
    "propose.invalid_input": "rests_on",
    "confirm_request.invalid_input": "cites",
    "confirm_request.not_found": "cites",
}
# The argument behind a thing that a sentence is about.
THINGS: Mapping[str, str] = {
    "idempotency key": "idempotency_key",
    "id of an object": "idempotency_key",
    "key": "idempotency_key",
    "event": "key",
    "event id": "event_id",
    "event data": "body",
    "wait key": "keys",
    "arguments": "args",
    "intent": "args",
    "facts": "result",
}
# What a model can do where no argument is wrong, or where the sentence for people would send it to a shell.
ADVICE: Mapping[str, str] = {
    "lane_unknown": "This lane has no task yet, so there is no such task. Call task_add first, or leave `task_id` out.",
    "lane_driven_elsewhere": "Another process decides about the tasks of this lane, so no argument helps. Use task_add "
    "and event_post, which work all the same, or next_work, which waits until the lane is free.",
    "lane_lost": "This server lost the lane to another driver, and nothing was committed. Call safe_point without "
    "`task_id` to learn what to work on.",
    "step_open": "Call action_report with this `task_id` and an `outcome` first, then go on.",
    "too_many_live_tasks": "Call task_cancel for a `task_id` that is not wanted any more, or finish some.",
    "too_many_calls_wait": "Call safe_point instead, or wait until one of them has ended.",
    "token_invalid": "The token of this connection is not valid any more. Tell the person that you work for.",
}  # fmt: skip


def tool_refusal(tool: str, problem: HoraeError, arguments: Iterable[str]) -> str:
    """Return an error as a model reads it; what the database said stays in the log."""
    if isinstance(problem, StoreError):
        return f"The store does not answer just now; whether {tool} did something is not known. Call it again."
    advice = ADVICE.get(problem.reason)
    said = without_commands(str(problem)) if problem.reason not in REPLACED else ""
    argument = argument_of(tool, problem, tuple(arguments))
    if argument is not None:
        advice = f"Change `{argument}` of {tool}."
    elif advice is None:
        advice = f"Read the description of {tool} again."
    return f"{f'{said} ' if said else ''}{advice} ({problem.code})"


REPLACED = ("lane_unknown", "lane_driven_elsewhere", "lane_lost")  # their advice says it all


def argument_of(tool: str, problem: HoraeError, arguments: tuple[str, ...]) -> str | None:
    """Return the argument that an error is about; None where it is about none."""
    if problem.reason in ADVICE:
        return None
    for fact in ("name", "what", "thing", "field", "argument"):
        named = str(problem.facts.get(fact, ""))
        for each in (THINGS.get(named), named, named.replace(" ", "_")):
            if each in arguments:
                return each
    by_code = (f"{tool}.{problem.code}", problem.code)
    found = (ARGUMENTS.get(each) for each in (f"{tool}.{problem.reason}", problem.reason, *by_code))
    return next((each for each in found if each in arguments), None)


def without_commands(text: str) -> str:
    """Return a text without the sentences that name a command, an option or a setting."""
    kept = " ".join(each for each in SENTENCES.split(text) if not COMMAND.search(each))
    return f"{kept[:-1]}." if kept.endswith(";") else kept


def argument_faults(tool: str, problem: ValidationError, known: Mapping[str, FieldInfo]) -> str:
    """Return what is wrong with the arguments of a call, one line for each."""
    faults = sorted(problem.errors(include_url=False), key=lambda each: each["type"] == "missing")
    lacks = any(each["type"] == "missing" for each in faults)
    lines = [_fault(tool, dict(each), known, lacks=lacks) for each in faults[:MOST_FAULTS]]
    more = len(faults) - MOST_FAULTS
    return "\n".join([*lines, f"… and {more} more."] if more > 0 else lines) + " (invalid_input)"


def _fault(tool: str, fault: dict[str, Any], known: Mapping[str, FieldInfo], *, lacks: bool) -> str:
    where = str(fault["loc"][0]) if fault["loc"] else "arguments"
    if fault["type"] == "extra_forbidden":
        near = [] if lacks else get_close_matches(where, known, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"it takes {listed(known)}."
        return f"{tool} has no argument `{where}`; {hint}"
    meaning = f" {known[where].description}" if where in known and known[where].description else ""
    if fault["type"] == "missing":
        return f"Give `{where}`: {tool} needs it.{meaning}"
    given = repr(fault.get("input"))
    short = given if len(given) <= MOST_SHOWN else f"{given[:MOST_SHOWN]}…"
    inside = "".join(f"[{part}]" for part in fault["loc"][1:] if isinstance(part, int))
    return f"Change `{where}{inside}` of {tool}, which is {short}: {_rule(fault)}.{meaning}"


# What pydantic says of a value, in fewer words; the placeholders are its own facts.
RULES: Mapping[str, str] = {
    "string_too_short": "it must not be empty",
    "too_short": "it must not be empty",
    "string_too_long": "it may have {max_length} characters",
    "too_long": "there may be {max_length} of them",
    "less_than_equal": "it may be {le} at most",
    "greater_than_equal": "it must be {ge} or more",
    "greater_than": "it must be more than {gt}",
    "literal_error": "it must be one of {expected}",
    "int_parsing": "it must be a whole number",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_parsing": "it must be a number",
    "float_type": "it must be a number",
    "string_type": "it must be a text",
    "bool_type": "it must be true or false",
    "list_type": "it must be a list",
    "dict_type": "it must be an object",
    "string_pattern_mismatch": "it has another form",
    "timezone_aware": "the time needs its zone",
    "datetime_from_date_parsing": "it must be a time",
    "datetime_parsing": "it must be a time",
}


def _rule(fault: dict[str, Any]) -> str:
    rule = RULES.get(fault["type"])
    text = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
    return text if rule is None else rule.format(**fault.get("ctx", {}))


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Return what to call instead of a tool that is not there."""
    names = sorted(known)
    near = get_close_matches(name, names, 3, 0.4)
    return f"There is no tool {name[:MOST_SHOWN]!r}. {'Near it' if near else 'There'} are: {', '.join(near or names)}."


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "no arguments"
