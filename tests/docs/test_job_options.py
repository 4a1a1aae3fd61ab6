"""The options of a job are declared once, and every door has the same names and defaults."""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_type_hints

import pytest

from horae import Blueprint, Collect, Horae, JobHandle, RateLimiter, Retry
from horae.cli.schedules.options import OPTIONS as COMMAND_LINE
from horae.core.schedules.schedule import Schedule
from horae.declare.definitions import define
from horae.declare.file_values import KEYS, codec_of
from horae.declare.options import SECTIONS, JobOptions, options
from horae.declare.using import USING
from scripts.job_options import HTTP_NAMES, of_new_schedules
from scripts.option_examples import EXAMPLES

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


# -- every option has an example that works ------------------------------------------------------------------------

NAMES = {
    "Retry": Retry, "RateLimiter": RateLimiter, "Collect": Collect, "UTC": UTC, "datetime": datetime,
    "after_failure": lambda *_: None,
}  # fmt: skip


def report(region: str = "eu") -> None: ...


def mail(addresses: list[str]) -> None: ...


def call_with(example: str, call: Callable[..., Any]) -> Any:
    """Call something with arguments as an example writes them."""
    return eval(f"call({example})", {**NAMES, "call": call})


def test_every_option_has_an_example() -> None:
    assert set(EXAMPLES) == set(OPTIONS)
    assert [name for name, example in EXAMPLES.items() if not re.search(rf"\b{name}=", example)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_job_is_declared_as_the_example_of_an_option_shows(name: str) -> None:
    app = Horae("sqlite://")
    app.job("import-orders", every="1h")(lambda: None)

    handle = call_with(EXAMPLES[name], partial(app.job, "report"))(mail if name == "collect" else report)

    assert app.definitions.find("report") is handle.definition


def test_every_option_of_using_is_described_with_an_example() -> None:
    taken = [each.name for each in inspect.signature(JobHandle.using).parameters.values() if each.name != "self"]

    assert list(USING) == taken
    assert [name for name, each in USING.items() if not re.search(rf"\b{name}=", each.example)] == []
    assert [name for name in USING if f"* ``{name}``: " not in (JobHandle.using.__doc__ or "")] == []


@pytest.mark.parametrize("name", sorted(set(USING) - {"connection"}))
def test_a_job_is_enqueued_as_the_example_of_using_shows(name: str) -> None:
    with Horae("sqlite://") as app:
        app.job("report")(report).enqueue()
        handle = app.job("mail")(mail)

        assert call_with(USING[name].example, handle.using).enqueue(["a"]).id == "job_2"


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
