"""Files that commands write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from horae.errors import InvalidInput

STDOUT = Path("-")


@contextmanager
def open_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name only when it is whole, and that only its owner may read."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def open_lines(file: Path, *, force: bool) -> Iterator[Callable[[dict[str, Any]], object]]:
    """Yield what writes a line of an export; the file gets its name only when it is whole, and is its owner's alone."""
    from horae.core.audit.exports import write_line

    if file == STDOUT:
        yield lambda line: print(write_line(line), end="")
        sys.stdout.flush()
        return
    if file.exists() and not force:
        raise InvalidInput("export_exists", path=str(file))
    try:
        with open_whole(file) as output:
            yield lambda line: output.write(write_line(line).encode())
    except OSError as problem:
        raise InvalidInput("export_unwritable", path=str(file), problem=str(problem.strerror)) from problem
