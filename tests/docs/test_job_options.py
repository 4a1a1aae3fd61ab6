"""The options of a job are declared once, and every door has the same names and defaults."""

import inspect
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pytest

from horae import Blueprint, Horae
from horae.cli.schedules.options import OPTIONS as COMMAND_LINE
from horae.core.schedules.schedule import Schedule
from horae.declare.definitions import define
from horae.declare.file_values import KEYS, codec_of
from horae.declare.options import SECTIONS, JobOptions, options
from scripts.job_options import HTTP_NAMES, of_new_schedules

OPTIONS = dict(options())
NOT_OPTIONS = {"key", "handler", "once", "reason", "title"}  # of a schedule made over HTTP, which has no function
BY_KIND = {"retry", "executor", "lock_ttl"}  # their defaults depend on the job, and say so in words or in the text
PYTHON_NAMES = {there: name for name, there in HTTP_NAMES.items()}
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


def test_a_blueprint_takes_the_same_options() -> None:
    assert Horae.job is Blueprint.job


# -- every option on every door, or a reason -----------------------------------------------------------------------

DOORS: dict[str, tuple[set[str], dict[str, str]]] = {
    "jobs.conf": (set(KEYS) - OLDER_NAMES, {name: each.not_in_file for name, each in OPTIONS.items()}),
    "HTTP": (
        {PYTHON_NAMES.get(name, name) for name in of_new_schedules() - NOT_OPTIONS},
        {name: each.not_over_http for name, each in OPTIONS.items()},
    ),
    "command line": (
        {PYTHON_NAMES.get(name, name) for name in ({*COMMAND_LINE, "enabled"} - NOT_OPTIONS)},
        {name: each.not_on_command_line for name, each in OPTIONS.items()},
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_option_is_on_every_door_or_says_why_not(door: str) -> None:
    taken, reasons = DOORS[door]

    assert taken - set(OPTIONS) == set(), "a door has the same names as the decorator"
    assert [name for name in OPTIONS if name not in taken and not reasons[name]] == []
    assert [name for name in taken if reasons[name]] == [], "a reason that no longer holds"


@pytest.mark.parametrize("name", [name for name in OPTIONS if not OPTIONS[name].not_in_file])
def test_every_option_of_the_file_is_read_by_the_codec_of_its_type(name: str) -> None:
    """An option of a new type needs a codec, or a reason, where it is declared."""
    assert callable(codec_of(get_type_hints(JobOptions)[name]))
