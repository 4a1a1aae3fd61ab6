"""Numbers of rows, and ids of tasks, as callers write them."""

from __future__ import annotations

from typing import TypeGuard

from horae.errors import NotFound

STARTS_WITH = "t"
MAX_NUMBER = 2**63 - 1


def task_number(task_id: str) -> int:
    """Return the number in a task id: 12 for ``t12``."""
    digits = task_id.removeprefix(STARTS_WITH) if isinstance(task_id, str) else ""
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits[:20]) <= MAX_NUMBER) or digits == task_id:
        raise NotFound("task_id_unreadable", id=task_id)
    return int(digits)


def is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER
