"""Requests that do not fit their model, as errors of ours: pydantic's findings become reasons and facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from horae.core.dataclass import dataclass
from horae.errors import HoraeError, InvalidInput
from horae.service import fields
from horae.words.languages import Language

LONGEST_NAME = 64
# How pydantic names a branch of a union.
INTERNAL = re.compile(r"function-(?:before|after|plain|wrap)\[|constrained-|literal\[|<")


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
    if isinstance(cause := context.get("error"), HoraeError):
        return cause
    problem = str(found["msg"]).removeprefix("Value error, ")
    misfitting = _of_type(kind, where) or _of_bound(kind, where, context)
    return misfitting or InvalidInput("input_refused", where=where, problem=problem)


def _of_type(kind: str, where: str) -> HoraeError | None:
    match kind:
        case "missing":
            return InvalidInput("input_missing", where=where)
        case "extra_forbidden":
            return InvalidInput("input_unknown", where=where)
        case "string_type":
            return InvalidInput("input_not_text", where=where)
        case "int_type" | "int_parsing" | "int_from_float":
            return InvalidInput("input_not_whole", where=where)
        case "float_type" | "float_parsing" | "finite_number":
            return InvalidInput("input_not_number", where=where)
        case "bool_type" | "bool_parsing":
            return InvalidInput("input_not_boolean", where=where)
        case "dict_type" | "model_type" | "model_attributes_type" | "dataclass_type":
            return InvalidInput("input_not_object", where=where)
        case "list_type" | "tuple_type" | "set_type":
            return InvalidInput("input_not_list", where=where)
        case fields.ONE_LINE:
            return InvalidInput("input_not_one_line", where=where)
    return None


def _of_bound(kind: str, where: str, context: Mapping[str, Any]) -> HoraeError | None:
    match kind:
        case "literal_error" | "enum":
            return InvalidInput("input_not_a_choice", where=where, choices=str(context["expected"]))
        case "string_too_long":
            return InvalidInput("input_too_long", where=where, most=context["max_length"])
        case "string_too_short":
            return InvalidInput("input_too_short", where=where, least=context["min_length"])
        case "too_long":
            return InvalidInput("input_too_many", where=where, most=context["max_length"])
        case "too_short":
            return InvalidInput("input_too_few", where=where, least=context["min_length"])
        case "greater_than_equal":
            return InvalidInput("input_too_small", where=where, least=context["ge"])
        case "less_than_equal":
            return InvalidInput("input_too_large", where=where, most=context["le"])
        case "greater_than":
            return InvalidInput("input_not_above", where=where, bound=context["gt"])
        case "less_than":
            return InvalidInput("input_not_below", where=where, bound=context["lt"])
        case "string_pattern_mismatch":
            return InvalidInput("input_not_in_form", where=where, form=context["pattern"])
    return None


def path_of(location: tuple[int | str, ...]) -> str:
    """Return where the input does not fit, in the caller's names, without those of pydantic's types."""
    return ".".join(str(part)[:LONGEST_NAME] for part in location if not INTERNAL.match(str(part)))
