"""List every public name with its signature, one line each: what a user's program may rely on.

`make docs` writes the list to docs/reference/public-names.txt. A line that changes needs a line of the changelog;
`scripts/announcements.py` says which.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from horae.errors import HoraeError

MODULES = (
    "horae",
    "horae.adapters.a2a",
    "horae.adapters.claude",
    "horae.adapters.cloudevents",
    "horae.adapters.langgraph",
    "horae.adapters.openai_agents",
    "horae.adapters.pydantic_ai",
    "horae.alembic",
    "horae.alerts",
    "horae.attention",
    "horae.bus",
    "horae.errors",
    "horae.executors",
    "horae.limits",
    "horae.telemetry",
    "horae.testing",
    "horae.webhooks",
)
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
QUOTED = re.compile(r"(: |-> )'([^']*)'")  # annotations are kept as text


def listing() -> str:
    """Return the whole list, sorted within each module."""
    lines = [line for name in MODULES for line in of_module(importlib.import_module(name))]
    return "\n".join(["# Generated from the code by `make docs`; do not edit.", *lines]) + "\n"


def of_module(module: ModuleType) -> Iterator[str]:
    for name in sorted(public_names(module)):
        yield from of_value(f"{module.__name__}.{name}", getattr(module, name))


def name_of(line: str) -> str:
    """``class horae.Horae(…)`` as ``horae.Horae``."""
    found = re.match(r"(?:class )?([\w.]+)", line)
    assert found is not None
    return found[1]


def public_names(module: ModuleType) -> list[str]:
    """Return what the module lists in ``__all__``, or else what it defines itself."""
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if name == "__version__" or not name.startswith("_")]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def of_value(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__bases__ if base is not object]
        maker = next(each for each in value.__mro__ if "__init__" in vars(each))
        made = "(…)" if is_of_family(value, maker) else signature(value)
        yield f"class {name}{made}" + (f" is {', '.join(bases)}" if bases else "")
        yield from of_members(name, value)
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def of_members(name: str, kind: type) -> Iterator[str]:
    """Methods and properties, also those inherited from our own private bases, and the fields of a dataclass."""
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            if not each.name.startswith("_"):
                yield f"{name}.{each.name}: {each.type if isinstance(each.type, str) else each.type.__name__}"
    for member in sorted(dir(kind)):
        value = inspect.getattr_static(kind, member)
        owner = next(each for each in kind.__mro__ if member in vars(each))
        if member.startswith("_") or not owner.__module__.startswith("horae") or is_of_family(kind, owner):
            continue
        if isinstance(value, property) or hasattr(value, "attrname"):  # a cached property has a name of its own
            yield f"{name}.{member}: property"
        elif isinstance(value, staticmethod | classmethod):
            yield f"{name}.{member}{signature(value.__func__)} ({type(value).__name__})"
        elif inspect.isfunction(value):
            yield f"{name}.{member}{signature(value)}"


def is_of_family(kind: type, owner: type) -> bool:
    """Return whether an error has something from an older one of the family, where it is listed."""
    return owner is not kind and issubclass(owner, HoraeError)


def signature(value: Any) -> str:
    try:
        return QUOTED.sub(r"\1\2", ADDRESS.sub("", str(inspect.signature(value))))
    except (TypeError, ValueError):  # some built-in classes tell none
        return "(…)"
