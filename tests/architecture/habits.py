"""The habits of tests. Each rule takes the folder of tests and returns complaints, one line each."""

import ast
from pathlib import Path

from tests.architecture.reading import Module, modules
from tests.architecture.rules import SLEEP, is_zero

TESTS = Path(__file__).parents[1]
MOST_ASSERTS = 12

# Sleeps that are left, by file. The numbers may only become smaller: wait for a signal, or poll with `tests.support`.
SLEEPS = {
    "journeys/conftest.py": 3,
    "journeys/embedded.py": 9,
    "journeys/locked.py": 1,
    "journeys/program.py": 5,
    "journeys/test_fleet.py": 2,
    "journeys/test_lanes.py": 1,
    "journeys/test_signals.py": 1,
    "runtime/processes.py": 6,
    "runtime/serving.py": 1,
    "runtime/test_crashes.py": 1,
    "runtime/test_executor.py": 5,
    "runtime/test_interrupts.py": 5,
    "runtime/test_leases.py": 5,
    "runtime/test_measuring.py": 1,
    "runtime/test_scheduler.py": 1,
    "runtime/test_unawaited.py": 3,
    "runtime/test_worker.py": 14,
}

# Why a test asserts more than twelve times.
MANY_ASSERTS = {
    "client/test_live.py::test_an_agent_is_given_work_told_things_and_looked_at": "one agent's whole day, in order",
    "core/test_fires_properties.py::test_every_due_fire_is_told_exactly_once": "the facts of one random case",
    "service/test_metrics.py::test_the_fleet_is_told_by_queue_and_handler": "one page of metrics, line by line",
}


def sleeps(module: Module) -> list[int]:
    """Return the lines on which a module sleeps; ``asyncio.sleep(0)`` only lets others run."""
    yields = {id(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call) and is_zero(node.args)}
    return [
        node.lineno
        for node, name in module.names_used()
        if name in SLEEP and isinstance(node.ctx, ast.Load) and id(node) not in yields  # type: ignore[attr-defined]
    ]


def sleeping_tests(tests: Path, allowed: dict[str, int] = SLEEPS) -> list[str]:
    complaints = []
    found = {module.place: sleeps(module) for module in modules(tests) if module.floor != "support"}
    for place, lines in found.items():
        if len(lines) > allowed.get(place, 0):
            complaints.append(f"{place}: sleeps on lines {lines}; wait for a signal, or poll with tests.support")
        elif 0 < len(lines) < allowed.get(place, 0):
            complaints.append(f"{place}: sleeps only {len(lines)} times by now; write that on the list")
    complaints += [f"{place}: sleeps no more; take it off the list" for place in allowed if not found.get(place)]
    return complaints


def overloaded_tests(tests: Path, allowed: dict[str, str] = MANY_ASSERTS) -> list[str]:
    counts = {
        f"{module.place}::{node.name}": sum(isinstance(each, ast.Assert) for each in ast.walk(node))
        for module in modules(tests)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    too_many = {name: count for name, count in counts.items() if count > MOST_ASSERTS}
    complaints = [
        f"{name}: {count} asserts; above {MOST_ASSERTS} split it, or give a reason in MANY_ASSERTS"
        for name, count in too_many.items()
        if name not in allowed
    ]
    return complaints + [f"{name}: needs no exception any more" for name in allowed if name not in too_many]
