"""Which verbs the audit is written with: found in the sources, wherever a function takes a `verb`."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.reading import Module, modules

FLOORS = ("actions", "core", "runtime")
ENTRY = {"Entry": 2}  # which argument of an entry is its verb


def audit_verbs(source: Path) -> dict[str, str]:
    """Return each verb that is written into the audit, with the place where it is."""
    read = list(modules(source))
    below = [module for module in read if module.floor in FLOORS]
    takers = ENTRY | {name: at for module in below for name, at in _takers(module)}
    found = [each for module in below for each in _given(module, takers)]
    # Above, a verb may be a word for the terminal; what is written into the audit there is an entry.
    found += [each for module in read if module.floor == "cli" for each in _entries(module)]
    return dict(found)


def _takers(module: Module) -> Iterator[tuple[str, int]]:
    """Find functions with a parameter `verb` that is text."""
    for node in module.every(ast.FunctionDef):
        for at, each in enumerate(node.args.args):
            if each.arg == "verb" and each.annotation is not None and ast.unparse(each.annotation) == "str":
                yield node.name, at


def _entries(module: Module) -> Iterator[tuple[str, str]]:
    for node in module.every(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "Entry":
            for each in node.args[2:3]:
                if isinstance(each, ast.Constant):
                    yield str(each.value), f"{module.place}:{node.lineno}"


def _given(module: Module, takers: dict[str, int]) -> Iterator[tuple[str, str]]:
    found: list[ast.expr] = []
    for node in module.every(ast.Call):
        found += [each.value for each in node.keywords if each.arg == "verb"]
        at = takers.get(_last_name(node.func))
        found += [] if at is None else node.args[at : at + 1]
    for assignment in module.every(ast.Assign):
        if [_last_name(each) for each in assignment.targets] == ["verb"]:
            found.append(assignment.value)
    for value in found:
        for each in ast.walk(value):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value, f"{module.place}:{each.lineno}"


def _last_name(node: ast.expr) -> str:
    """Return `c` of `a.b.c`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
