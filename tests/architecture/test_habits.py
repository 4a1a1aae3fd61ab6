"""The habits of tests hold, and each rule can fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import habits

Rule = Callable[..., list[str]]

WITHOUT_EXCEPTIONS: dict[Rule, tuple[Any, ...]] = {habits.overloaded_tests: ({},)}
PLANTED: list[tuple[Rule, str]] = [
    (habits.sleeping_tests, "import time\ntime.sleep(1)"),
    (habits.sleeping_tests, "from time import sleep as rest\nrest(0.1)"),
    (habits.sleeping_tests, "import asyncio\nasync def test_it():\n    await asyncio.sleep(0.1)"),
    (habits.sleeping_tests, "import threading\nthreading.Event().wait(1)"),
    (habits.overloaded_tests, "def test_it():\n" + "    assert True\n" * 13),
    (habits.matched_sentences, "import pytest\nfrom horae.errors import NotFound\npytest.raises(NotFound, match='no')"),
    (habits.matched_sentences, "import pytest\nfrom horae import errors\npytest.raises(errors.NotFound, match='no')"),
]
INNOCENT: list[tuple[Rule, str]] = [
    (habits.sleeping_tests, "import asyncio\nasync def test_it():\n    await asyncio.sleep(0)"),
    (habits.overloaded_tests, "def test_it():\n" + "    assert True\n" * 12),
    (habits.overloaded_tests, "def helper():\n" + "    assert True\n" * 13),
    (habits.matched_sentences, "import pytest\npytest.raises(ValueError, match='no')"),
    (habits.matched_sentences, "import pytest\nfrom horae.errors import NotFound\npytest.raises(NotFound)"),
]


@pytest.mark.parametrize(
    "rule", [habits.sleeping_tests, habits.overloaded_tests, habits.matched_sentences], ids=lambda rule: rule.__name__
)
def test_our_tests_keep_the_habit(rule: Rule) -> None:
    assert "\n".join(rule(habits.TESTS)) == ""


@pytest.mark.parametrize(("rule", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Rule, text: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text + "\n")

    assert len(rule(tmp_path, *WITHOUT_EXCEPTIONS.get(rule, ()))) == 1


@pytest.mark.parametrize(("rule", "text"), INNOCENT)
def test_what_is_allowed_is_not_reported(rule: Rule, text: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text + "\n")

    assert rule(tmp_path, *WITHOUT_EXCEPTIONS.get(rule, ())) == []


def test_an_exception_that_is_needed_no_more_is_reported(tmp_path: Path) -> None:
    assert len(habits.overloaded_tests(tmp_path, {"test_it.py::test_it": "long"})) == 1


def test_helpers_in_support_may_sleep(tmp_path: Path) -> None:
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "waits.py").write_text("import time\ntime.sleep(1)\n")

    assert habits.sleeping_tests(tmp_path) == []
