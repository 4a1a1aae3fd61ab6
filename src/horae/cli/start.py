"""Where the ``horae`` command begins: before anything is imported.

A command that lists jobs spends its time on imports, and a good part of that on garbage collections that find nothing
and on asyncio, which SQLAlchemy imports and a list does not use. So in commands that end soon collections are rare and
asyncio is imported when it is used. A worker makes hundreds of objects for each job, few of them in cycles: by Python's
own rhythm, every 700 objects, collecting took a quarter of its processor time.
"""

from __future__ import annotations

import gc
import importlib
import sys
from inspect import iscoroutine
from types import ModuleType
from typing import Any

LIVES_LONG = {"worker", "server", "up", "mcp", "demo", "attention"}
RARELY = 100_000  # new objects between two collections
SELDOM = 10_000  # the same for processes that live long: what is held by a cycle must not pile up there


class LateAsyncio(ModuleType):
    """Stand for asyncio until one of its names is used, and import it then."""

    iscoroutine = staticmethod(iscoroutine)  # the one name that SQLAlchemy takes while it is imported

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get("asyncio") is self:
            del sys.modules["asyncio"]
        return getattr(importlib.import_module("asyncio"), name)


def main() -> int:
    """Run the command that was typed and return its exit code."""
    ends_soon = LIVES_LONG.isdisjoint(sys.argv[1:2])
    gc.set_threshold(RARELY if ends_soon else SELDOM)
    if ends_soon:
        sys.modules.setdefault("asyncio", LateAsyncio("asyncio"))
    from horae.cli.main import main

    return main()
