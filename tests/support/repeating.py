"""Repeats with ``--count`` only what ``-k`` selects.

pytest-repeat multiplies every test before ``-k`` takes its choice: 50 times the whole suite is a gigabyte in each
process and two minutes of collecting, for one test that was meant.
"""

from collections.abc import Generator

import pytest
import pytest_repeat
from _pytest.mark.expression import Expression

ADDED_LATER = "server"  # a marker that `tests.conftest` gives when everything has been collected


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    option = metafunc.config.option
    count, option.count = option.count, 1
    try:
        done = yield
    finally:
        option.count = count
    if count > 1 and is_selected(metafunc, option.keyword):
        pytest_repeat.pytest_generate_tests(metafunc)
    return done


def is_selected(metafunc: pytest.Metafunc, expression: str) -> bool:
    """Return whether ``-k`` may choose one of this function's cases."""
    if not expression:
        return True
    definition = metafunc.definition
    names = {ADDED_LATER, *definition.extra_keyword_matches, *(mark.name for mark in definition.iter_markers())}
    names |= {node.name for node in definition.listchain() if not isinstance(node, pytest.Session)}
    cases = [case.id for case in metafunc._calls] or [""]  # noqa: SLF001 - pytest tells this nowhere else
    chosen = Expression.compile(expression)
    return any(chosen.evaluate(_Matcher({*names, case})) for case in cases)


class _Matcher:
    """Answers whether a word of the expression is part of one of these names."""

    def __init__(self, names: set[str]) -> None:
        self._names = [name.lower() for name in names]

    def __call__(self, word: str, /, **_: str | int | bool | None) -> bool:
        return any(word.lower() in name for name in self._names)
