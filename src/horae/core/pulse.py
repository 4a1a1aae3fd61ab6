"""The pulse of an installation: which parts have changed since a reader looked last.

A part has a mark, a short text that differs whenever something in the part may have changed. Marks are compared and
never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Part = Literal["jobs", "schedules", "workers", "errors", "attention", "statistics", "acts", "audit"]
PARTS: tuple[Part, ...] = get_args(Part)
TENANT_PARTS: tuple[Part, ...] = ("jobs", "schedules", "attention")  # what a tenant has pages about
LONGEST = 300  # characters of all marks as one text
Marks = Mapping[str, str]


def mark(values: Iterable[object]) -> str:
    """Return a mark of values, the same in every process."""
    return hashlib.sha256(repr(tuple(values)).encode()).hexdigest()[:8]


def changed_parts(before: Marks, after: Marks) -> tuple[Part, ...]:
    """Return the parts whose marks differ, in their order; one without a mark before counts as changed."""
    return tuple(part for part in PARTS if part in after and before.get(part) != after[part])


def marks_text(marks: Marks) -> str:
    """Return marks as one line, for a reader that comes back with it."""
    return ",".join(f"{part}={value}" for part, value in marks.items())


def marks_from(text: str | None) -> Marks | None:
    """Read marks back; None where the text is not one of ours, so that the reader begins anew."""
    if not text or len(text) > LONGEST:
        return None
    pairs = [each.partition("=") for each in text.strip().split(",")]
    return {part: value for part, _, value in pairs} if all(part in PARTS for part, _, _ in pairs) else None
