"""Requests that do not fit their model, as errors of ours: pydantic's findings become reasons and facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from horae.core.dataclass import dataclass
from horae.errors import HoraeError, InvalidInput
from horae.service.fields import ONE_LINE
from horae.words.languages import Language

LONGEST_NAME = 64
# How pydantic names a branch of a union.
INTERNAL = re.compile(r"function-(?:before|after|plain|wrap)\[|constrained-|literal\[|<")


# What pydantic finds, and our reason for it.
REASONS = {
    "missing": "input_missing",
    "extra_forbidden": "input_unknown",
    ONE_LINE: "input_not_one_line",
    "string_type": "input_not_text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "input_not_whole"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "input_not_number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "input_not_boolean"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "input_not_object"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "input_not_list"),
}
# The same with a fact, and what pydantic calls it.
BOUND_REASONS = {
    "literal_error": ("input_not_a_choice", "choices", "expected"),
    "enum": ("input_not_a_choice", "choices", "expected"),
    "string_too_long": ("input_too_long", "most", "max_length"),
    "string_too_short": ("input_too_short", "least", "min_length"),
    "too_long": ("input_too_many", "most", "max_length"),
    "too_short": ("input_too_few", "least", "min_length"),
    "greater_than_equal": ("input_too_small", "least", "ge"),
    "less_than_equal": ("input_too_large", "most", "le"),
    "greater_than": ("input_not_above", "bound", "gt"),
    "less_than": ("input_not_below", "bound", "lt"),
    "string_pattern_mismatch": ("input_not_in_form", "form", "pattern"),
}


@dataclass(frozen=True)
class Misfit:
    """One place where a request does not fit its model."""

    where: str
    kind: str  # pydantic's word for it
    error: HoraeError

    def in_words(self, language: Language) -> str:
        """Say where it is and what is wrong; errors that a model raises do not know where they stand."""
        sentence = self.error.in_words(language)
        return sentence if "where" in self.error.facts else f"{self.where}: {sentence}"

    def as_json(self, language: Language) -> dict[str, Any]:
        found = {"where": self.where, "message": self.error.in_words(language), "kind": self.kind}
        return {**found, **self.error.as_json()}


def misfit(found: Mapping[str, Any]) -> Misfit:
    """Return one of pydantic's findings as an error of ours; the input itself is not in it."""
    kind, location = found["type"], found["loc"]
    where = path_of(location[:1] if kind == "json_invalid" else location)
    return Misfit(where, kind, _error_of(found, where))


def _error_of(found: Mapping[str, Any], where: str) -> HoraeError:
    kind, context = found["type"], found.get("ctx", {})
    if kind == "json_invalid":
        position = int(found["loc"][-1])
        return InvalidInput("input_not_json", where=where, problem=str(context["error"]), position=position)
    if kind in REASONS:
        return InvalidInput(REASONS[kind], where=where)
    if kind in BOUND_REASONS:
        reason, fact, name = BOUND_REASONS[kind]
        return InvalidInput(reason, **{"where": where, fact: context[name]})
    cause = context.get("error")
    problem = str(found["msg"]).removeprefix("Value error, ")
    return cause if isinstance(cause, HoraeError) else InvalidInput("input_refused", where=where, problem=problem)


def path_of(location: tuple[int | str, ...]) -> str:
    """Return where the input does not fit, in the caller's names, without those of pydantic's types."""
    return ".".join(str(part)[:LONGEST_NAME] for part in location if not INTERNAL.match(str(part)))
