"""Plain names. Each rule takes a source tree and returns complaints, one line each."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.reading import Module, modules

# Modules that end in -ing. A module is named after what it holds; the list may only become shorter.
ING = {
    "actions/budgets/spending.py",
    "actions/jobs/masking.py",
    "actions/schedules/answering.py",
    "api/masking.py",
    "api/senders/noticing.py",
    "console/drawing.py",
    "console/rendering.py",
    "console/routing.py",
    "core/access/masking.py",
    "core/jobs/masking.py",
    "declare/opening.py",
    "declare/using.py",
    "outgoing/keyring.py",
    "service/paging.py",
    "stores/cluster/opening.py",
    "stores/cluster/visiting.py",
    "stores/migrations/versions/0027_serving.py",
    "stores/opening.py",
    "words/chinese/outgoing.py",
    "words/outgoing.py",
}
REFUSED = {"told", "Told", "Pen", "Desk", "Mind", "Seat", "Glance", "fate", "put_off"}
# Where such a word may stand as a name, and why; or until when.
KNOWN: dict[str, str] = {
    "core/schedules/expectations.py:told": "a column and a key of JSON; a migration is not worth it",
}


def modules_named_after_doing(source: Path, allowed: frozenset[str] | set[str] = frozenset(ING)) -> list[str]:
    found = {module.place for module in modules(source) if module.place.endswith("ing.py")}
    complaints = [f"{place}: name it after what it holds" for place in sorted(found - allowed)]
    return complaints + [f"{place}: is gone; take it off the list" for place in sorted(allowed - found)]


def refused_names(source: Path, known: Mapping[str, str] = KNOWN) -> list[str]:
    found = {f"{module.place}:{name}" for module in modules(source) for name in names_in(module) if name in REFUSED}
    complaints = [f"{each}: says nothing; say what it holds or does" for each in sorted(found - set(known))]
    return complaints + [f"{each}: is gone; take it off the list" for each in known if each not in found]


def names_in(module: Module) -> Iterator[str]:
    """Return the names that a module gives: its own, and those of functions, classes, fields and arguments."""
    yield Path(module.place).stem
    if not any(word in module.text for word in REFUSED):
        return
    yield from (node.name for node in module.every(ast.FunctionDef))
    yield from (node.name for node in module.every(ast.AsyncFunctionDef))
    yield from (node.name for node in module.every(ast.ClassDef))
    yield from (node.arg for node in module.every(ast.arg))
    yield from (node.target.id for node in module.every(ast.AnnAssign) if isinstance(node.target, ast.Name))
