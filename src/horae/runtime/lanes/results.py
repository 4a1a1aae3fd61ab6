"""Wait for the end of a task, from outside its lane."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from horae.actions import hints
from horae.core.attention.lanes import Task
from horae.core.attention.task import FINAL
from horae.core.jobs.payloads import decode
from horae.errors import Conflict
from horae.ports.world import World

LOOK_EVERY = 0.5  # seconds, where no hint arrives


def wait_for_end(world: World, read: Callable[[str], Task], task: Task, timeout: timedelta) -> Task:
    """Return a task when it has ended, or as it is when the time is up."""
    news = threading.Event()
    ends = world.clock.monotonic() + timeout.total_seconds()
    unsubscribe = hints.subscribe(world, lambda _: news.set())
    try:
        while task.state not in FINAL and (left := ends - world.clock.monotonic()) > 0:
            news.wait(min(LOOK_EVERY, left))
            news.clear()
            task = read(task.id)
    finally:
        unsubscribe()
    return task


def outcome(task: Task) -> Any:
    """Return the result of a completed task; any other is a Conflict."""
    if task.state == "completed":
        return None if task.result is None else decode(task.result)
    if task.state in FINAL:
        raise Conflict("task_without_result", id=task.id, state=task.state, reason=task.reason or "no reason was given")
    raise Conflict("task_not_ended", id=task.id, state=task.state)
