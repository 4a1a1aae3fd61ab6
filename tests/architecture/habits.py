"""The habits of tests. Each rule takes the folder of tests and returns complaints, one line each."""

import ast
from pathlib import Path

from tests.architecture.errors import FAMILY
from tests.architecture.reading import Module, modules
from tests.architecture.rules import sleeps

TESTS = Path(__file__).parents[1]
MOST_ASSERTS = 12

# Why a test asserts more than twelve times.
MANY_ASSERTS = {
    "client/test_live.py::test_an_agent_is_given_work_told_things_and_looked_at": "one agent's whole day, in order",
    "core/test_fires_properties.py::test_every_due_fire_is_told_exactly_once": "the facts of one random case",
    "service/test_metrics.py::test_the_fleet_is_told_by_queue_and_handler": "one page of metrics, line by line",
}


def sleeping_tests(tests: Path) -> list[str]:
    found = {module.place: sleeps(module) for module in modules(tests) if module.floor != "support"}
    return [
        f"{place}: sleeps on lines {[line for line, _ in lines]}; wait for a signal, or poll with tests.support"
        for place, lines in found.items()
        if lines
    ]


def functions(module: Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    plain: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*module.every(ast.FunctionDef)]
    return [*plain, *module.every(ast.AsyncFunctionDef)]


def overloaded_tests(tests: Path, allowed: dict[str, str] = MANY_ASSERTS) -> list[str]:
    counts = {
        f"{module.place}::{node.name}": sum(isinstance(each, ast.Assert) for each in ast.walk(node))
        for module in modules(tests)
        if any(part.count("assert") > MOST_ASSERTS for part in module.text.split("def test_"))  # else do not parse it
        for node in functions(module)
        if node.name.startswith("test_")
    }
    too_many = {name: count for name, count in counts.items() if count > MOST_ASSERTS}
    complaints = [
        f"{name}: {count} asserts; above {MOST_ASSERTS} split it, or give a reason in MANY_ASSERTS"
        for name, count in too_many.items()
        if name not in allowed
    ]
    return complaints + [f"{name}: needs no exception any more" for name in allowed if name not in too_many]


def matched_sentences(tests: Path) -> list[str]:
    """Find ``pytest.raises(NotFound, match="…")`` with an error of ours: the sentence is free to change."""
    return [
        f"{module.place}:{call.lineno}: matches the sentence of an error of ours; use refused()"
        for module in modules(tests)
        if "match=" in module.text
        for call in module.every(ast.Call)
        if asks_for_sentence(module, call)
    ]


def asks_for_sentence(module: Module, call: ast.Call) -> bool:
    if module.full_name(call.func) != "pytest.raises" or not any(each.arg == "match" for each in call.keywords):
        return False
    package, _, kind = (module.full_name(call.args[0]) or "").rpartition(".")
    return package in ("horae", "horae.errors") and kind in FAMILY
