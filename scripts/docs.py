"""Writes the reference pages that are generated from the code: `make docs`.

A page is a function that returns its text; add it to PAGES. `tests/docs` fails when a page on disk is not what the code
says.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import horae.core
from horae import errors
from horae.core.machine import Machine

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "<!-- Generated from the code by `make docs`; do not edit. -->"


def machines() -> Iterator[Machine]:
    """Every state machine of the core, in the order of its modules."""
    for module in pkgutil.iter_modules(horae.core.__path__, "horae.core."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Machine):
                yield value


def states_page() -> str:
    sections = [NOTE, "# States", "What is not drawn is refused."]
    for machine in {machine.name: machine for machine in machines()}.values():
        rows = [f"| {before} | {event} | {after} |" for (before, event), after in machine.arrows.items()]
        sections += [
            f"## {machine.name.capitalize()}",
            f"```mermaid\n{machine.diagram()}\n```",
            "\n".join(["| From | Event | To |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(sections) + "\n"


def errors_page() -> str:
    family = [
        error
        for error in vars(errors).values()
        if inspect.isclass(error) and issubclass(error, errors.HoraeError) and error.__module__ == errors.__name__
    ]
    rows = [f"| `{error.__name__}` | `{error.code}` | {first_sentence(error)} |" for error in family]
    tree = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2].partition("\n\nEvery")[0]
    table = "\n".join(["| Error | Code | Meaning |", "|---|---|---|", *rows])
    promise = "Every error has a stable code; every message says what happened and what to do next."
    return "\n\n".join([NOTE, "# Errors", promise, f"```text\n{inspect.cleandoc(tree)}\n```", table]) + "\n"


def first_sentence(error: type) -> str:
    return " ".join(inspect.cleandoc(error.__doc__ or "").partition("\n\n")[0].split())


PAGES: dict[str, Callable[[], str]] = {"errors.md": errors_page, "states.md": states_page}


def main() -> int:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
