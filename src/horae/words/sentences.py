"""The sentence of an error or of a why line, from its reason and its facts, and the phrase of an audit verb.

The sentence of an error says what is wrong, then what to do. Its placeholders are the facts; ``{name!r}`` and the
formats of numbers are Python's, a list is read with commas (``{circle:path}`` with arrows, ``{problems:lines}`` line by
line), ``{wait:span}`` reads seconds as hours, minutes and days, and ``{count:jobs}`` a number of jobs.

English is the first language; other tables (:mod:`horae.words.chinese`) have the same keys and placeholders and are
imported when a sentence in their language is asked for.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib import import_module
from string import Formatter
from types import ModuleType
from typing import Any, NamedTuple

from horae.words import (
    access,
    adapters,
    attention,
    audit,
    budgets,
    cli,
    cluster,
    common,
    decisions,
    declarations,
    doctor,
    governance,
    jobs,
    mcp,
    outgoing,
    runtime,
    scheduled_tasks,
    schedules,
    secrets,
    service,
    settings,
    statistics,
    stores,
)
from horae.words.languages import Language

# The module of each room; the Chinese one has the same name.
MODULES: dict[str, ModuleType] = {
    "common": common,
    "jobs": jobs,
    "schedules": schedules,
    "scheduled_tasks": scheduled_tasks,
    "attention": attention,
    "adapters": adapters,
    "access": access,
    "audit": audit,
    "secrets": secrets,
    "statistics": statistics,
    "governance": governance,
    "budgets": budgets,
    "cluster": cluster,
    "decisions": decisions,
    "outgoing": outgoing,
    "service": service,
    "stores": stores,
    "mcp": mcp,
    "declarations": declarations,
    "runtime": runtime,
    "settings": settings,
    "command_line": cli,
    "doctor": doctor,
}
ROOMS: dict[str, Mapping[str, str]] = {room: module.ERRORS for room, module in MODULES.items()}
# Why a job, a schedule or a task stands where it stands, and what is wrong with a chain of the audit.
REASONS: dict[str, Mapping[str, str]] = {room: module.WHY for room, module in MODULES.items() if hasattr(module, "WHY")}
# Facts that hold a word of ours, or several, and nothing of a caller's.
TERM_FACTS = ("thing", "what", "promise", "loses", "waits", "harm")
ENGLISH = {reason: text for table in ROOMS.values() for reason, text in table.items()}
WHY = {reason: text for table in REASONS.values() for reason, text in table.items()}


class Words(NamedTuple):
    """All tables of one language."""

    errors: Mapping[str, str]
    why: Mapping[str, str]
    verbs: Mapping[str, str]
    problems: Mapping[str, str]  # of the service alone
    titles: Mapping[str, str]  # of HTTP statuses
    terms: Mapping[str, str]  # words inside facts
    helps: Mapping[str, str]  # of settings; the English ones stand with the settings
    writer: Formatter


def sentence(reason: str, facts: Mapping[str, Any], language: Language = "en") -> str | None:
    """Return the sentence of an error's reason; None for a text that is no reason, or one without its facts."""
    words = words_in(language)
    return _fill(words, words.errors.get(reason), facts)


def why_line(reason: str, facts: Mapping[str, Any], language: Language = "en") -> str | None:
    """Return the line that says why something does not run; None for an unknown reason, or one without its facts."""
    words = words_in(language)
    return _fill(words, words.why.get(reason), facts)


def verb_phrase(verb: str, language: Language = "en") -> str:
    """Return what was done, for a person; a verb that this release does not know is its own phrase."""
    return words_in(language).verbs.get(verb, verb)


def setting_help(env: str, english: str, language: Language = "en") -> str:
    """Return what a setting is, in one sentence, without what follows from it; *english* is all of it."""
    return words_in(language).helps.get(env, english.partition(";")[0])


@cache
def words_in(language: Language) -> Words:
    """Return the tables of a language; other tables than the English ones are imported here."""
    if language == "en":
        return Words(ENGLISH, WHY, audit.VERBS, service.PROBLEMS, {}, {}, {}, _Writer())
    zh: Any = import_module("horae.words.chinese.tables")
    return Words(zh.ERRORS, zh.WHY, zh.VERBS, zh.PROBLEMS, zh.TITLES, zh.TERMS, zh.HELPS, _ChineseWriter())


def _fill(words: Words, template: str | None, facts: Mapping[str, Any]) -> str | None:
    if template is None:
        return None
    terms = {name: _in_terms(words, facts[name]) for name in TERM_FACTS if name in facts} if words.terms else {}
    try:
        return words.writer.vformat(template, (), ChainMap(terms, dict(facts)) if terms else facts).rstrip()
    except KeyError:  # a user's own error may have such a word as its text
        return None


def _in_terms(words: Words, value: Any) -> Any:
    """Return a word of ours, or a list of them, in a language; any other value is left as it is."""
    if isinstance(value, list | tuple):
        return [_in_terms(words, each) for each in value]
    return words.terms.get(value, value) if isinstance(value, str) else value


class _Writer(Formatter):
    """Fills a template."""

    joined: Mapping[str, str] = {"": ", ", "lines": "\n", "path": " → "}  # how a list is read
    nothing = "none"

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list | tuple):
            return self.joined.get(format_spec, self.joined[""]).join(str(each) for each in value) or self.nothing
        try:
            if format_spec == "jobs":
                return self.jobs(value)
            return self.span(value) if format_spec == "span" else format(value, format_spec)
        except (OverflowError, TypeError, ValueError):  # a value that does not fit may be what the error is about
            return str(value)

    def span(self, seconds: float) -> str:
        return str(timedelta(seconds=seconds))

    def jobs(self, count: int) -> str:
        return f"{count:,} job" if count == 1 else f"{count:,} jobs"


class _ChineseWriter(_Writer):
    joined: Mapping[str, str] = {**_Writer.joined, "": "、"}
    nothing = "无"

    def span(self, seconds: float) -> str:
        return super().span(seconds).replace(" days, ", " 天 ").replace(" day, ", " 天 ")

    def jobs(self, count: int) -> str:
        return f"{count:,} 个任务"
