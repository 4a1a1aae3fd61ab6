"""Every point that the console must hold is tied to something that shows it, and that exists."""

import ast
import importlib.util
import re
from pathlib import Path

from scripts.requirements import ROOT

PAGE = ROOT / "docs" / "contributing" / "console-holds.md"
ROW = re.compile(r"^\| (H?\d+) \| (.+?) \| (.+) \|$", re.M)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
COMMAND = re.compile(r"`python -m ([\w.]+)")
BY_HAND = "by hand at each release"
FAULTS = 15


def rows() -> dict[str, str]:
    return {number: shown for number, _, shown in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def names_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {each.name for each in functions if each.name.startswith("test_")}


def test_all_points_are_there() -> None:
    assert list(rows()) == [*map(str, range(1, 26)), *(f"H{number}" for number in range(1, 15))]


def test_every_point_names_a_test_that_exists() -> None:
    missing, without = [], []
    for number, shown in rows().items():
        named = NAMED.findall(shown)
        missing += [f"{number}: {file}::{name}" for file, name in named if name not in names_in(ROOT / file)]
        modules = COMMAND.findall(shown)
        missing += [f"{number}: {module}" for module in modules if importlib.util.find_spec(module) is None]
        if not named and not modules and BY_HAND not in shown:
            without.append(number)
    assert missing == []
    assert without == []


def test_there_are_at_most_forty_scenarios() -> None:
    scenarios = [name for file in (ROOT / "tests" / "browser").glob("test_*.py") for name in names_in(file)]
    assert 15 <= len(scenarios) <= 40


def test_a_scenario_fails_on_what_its_watch_has_seen() -> None:
    """Both fixtures that open a browser look at their watch when a scenario is over."""
    for name in ("conftest.py", "test_first_minute.py"):
        assert "assert watch.seen == []" in (ROOT / "tests" / "browser" / name).read_text(encoding="utf-8")


def test_the_doctor_is_shown_more_than_fifteen_faults() -> None:
    """A planted fault is a test that looks for its one finding."""
    tree = ast.parse((ROOT / "tests" / "cli" / "test_doctor.py").read_text(encoding="utf-8"))
    looks = [
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_") and "found(" in ast.unparse(each)
    ]
    assert len(looks) >= FAULTS
