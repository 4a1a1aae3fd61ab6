"""Numbers of rows, and ids of tasks, as callers write them."""

from __future__ import annotations

from typing import TypeGuard

from horae.core.cluster.numbers import read_number, write_id
from horae.errors import NotFound

STARTS_WITH = "t"
MAX_NUMBER = 2**63 - 1


def task_number(task_id: str) -> int:
    """Return the number in a task id: 12 for ``t12``; in a cluster it carries the shard that the id names."""
    text = task_id.removeprefix(STARTS_WITH) if isinstance(task_id, str) else ""
    number = None if text == task_id else read_number(text)
    if not number:
        raise NotFound("task_id_unreadable", id=task_id)
    return number


def task_name(number: int) -> str:
    """Return the id of a task: ``t12``, or in a cluster ``t17x…``."""
    return write_id(STARTS_WITH, number)


def wait_name(number: int) -> str:
    """Return an id by which the shard of a wait is found; callers know a wait by its number."""
    return write_id("w", number)


def is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_NUMBER
