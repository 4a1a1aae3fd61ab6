"""The options of a job are declared once, and every door has the same names and defaults."""

import inspect
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from horae import Horae
from horae.core.schedules.schedule import Schedule
from horae.declare.definitions import define
from horae.declare.jobs_conf import KEYS
from horae.declare.options import SECTIONS, JobOptions, options
from scripts.job_options import HTTP_NAMES, of_new_schedules

OPTIONS = dict(options())
NOT_OPTIONS = {"key", "handler", "once", "reason", "title"}  # of a schedule made over HTTP, which has no function
BY_KIND = {"retry", "executor", "lock_ttl"}  # their defaults depend on the job, and say so in words or in the text
FOR_DEFINE = {"context_type", "built"}  # given by the decorator, never by a user
OLDER_NAMES = {"fixedRate", "initialDelay", "lockTtlMs", "fixed_rate"}  # of files written for milliseconds


def defaults_of_a_schedule() -> dict[str, Any]:
    return {
        each.name: each.default
        for each in fields(Schedule)
        if each.name in OPTIONS and each.default is not MISSING and each.name not in BY_KIND
    }


def defaults_of_a_definition() -> dict[str, Any]:
    parameters = inspect.signature(define).parameters.values()
    taken = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.name not in FOR_DEFINE]
    return {each.name: each.default for each in taken}


def test_every_option_is_declared_once_with_a_section_and_a_sentence() -> None:
    assert list(OPTIONS) == sorted(OPTIONS, key=lambda name: list(SECTIONS).index(OPTIONS[name].section))
    assert set(OPTIONS) == set(get_type_hints(JobOptions))
    assert [name for name, option in OPTIONS.items() if not option.text.endswith(".")] == []


def test_the_defaults_are_those_that_apply() -> None:
    applied = defaults_of_a_schedule() | defaults_of_a_definition()
    applied["after"] = None  # a schedule without leaders has an empty tuple; an empty option is refused

    assert {name: OPTIONS[name].default for name in applied} == applied


def test_what_a_definition_takes_is_an_option() -> None:
    assert set(defaults_of_a_definition()) - set(OPTIONS) == set()


def test_the_docstring_lists_every_option_in_four_sections() -> None:
    text = inspect.getdoc(Horae.job) or ""

    assert [name for name in OPTIONS if f"* ``{name}``: " not in text] == []
    assert [title for title in SECTIONS.values() if f"\n{title}:\n" not in text] == []


def test_the_file_has_the_same_names() -> None:
    assert set(KEYS) - OLDER_NAMES - set(OPTIONS) == set()


def test_http_has_the_same_names() -> None:
    assert of_new_schedules() - NOT_OPTIONS - set(HTTP_NAMES.values()) - set(OPTIONS) == set()
