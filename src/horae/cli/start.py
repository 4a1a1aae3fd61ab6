"""Where the ``horae`` command begins: before anything is imported.

A command that lists jobs spends its time on imports, and a good part of that on garbage collections that find nothing.
So they are made rare in commands that end soon; processes that live long keep the usual rhythm.
"""

from __future__ import annotations

import gc
import sys

LIVES_LONG = {"worker", "server", "up", "mcp", "demo", "attention"}
RARELY = 100_000  # new objects between two collections


def main() -> int:
    """Run the command that was typed and return its exit code."""
    if LIVES_LONG.isdisjoint(sys.argv[1:2]):
        gc.set_threshold(RARELY)
    from horae.cli.main import main

    return main()
