"""Public values whose sentences are put into another language."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from horae.api.attention.values import Task
from horae.api.jobs.room import Reason
from horae.api.schedules.values import Schedule
from horae.api.values import is_value
from horae.words.languages import Language


def translated(value: Any, language: Language) -> Any:
    """Return a value with the sentences of Horae's own in a language; what callers wrote stays as it is."""
    if language == "en":
        return value
    if isinstance(value, tuple):
        return tuple(translated(each, language) for each in value)
    if isinstance(value, Reason):
        return replace(value, text=value.in_words(language))
    if not is_value(type(value)):
        return value
    if isinstance(value, Task):
        value = replace(value, reason=value.reason_in(language))
    if isinstance(value, Schedule):
        value = replace(value, words=value.words_in(language))
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    inner = {name: each for name, each in found.items() if isinstance(each, tuple) or is_value(type(each))}
    return replace(value, **{name: translated(each, language) for name, each in inner.items()})
