"""Waiting for what another task, thread or process does: by polling, never by a fixed sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

LIMIT = 60.0  # seconds; only what never happens takes so long
SHORTEST, LONGEST = 0.01, 0.1  # seconds between two questions
REST = 8  # times as long as a question took: who asks a database all the time keeps a core from what it waits for


def rest_after(question: float) -> float:
    """Return how many seconds to wait before the next question, when one took so many."""
    return min(max(SHORTEST, REST * question), LONGEST)


def wait_until(holds: Callable[[], Any], what: str = "it", within: float = LIMIT, every: float | None = None) -> Any:
    """Poll until a condition holds, and return its answer; fail the test when it does not in good time.

    *every* is for a test that must see it at once: so many seconds between two questions, whatever they cost.
    """
    ends = (asked := time.monotonic()) + within
    while not (answer := holds()):
        answered = time.monotonic()
        assert answered < ends, f"{what} did not happen within {within:g} s"
        time.sleep(rest_after(answered - asked) if every is None else every)
        asked = time.monotonic()
    return answer


async def eventually(holds: Callable[[], Any | Awaitable[Any]], what: str = "it", within: float = LIMIT) -> Any:
    """Do the same beside an event loop; the condition may be asynchronous."""
    ends = (asked := time.monotonic()) + within
    while True:
        answer = holds()
        answer = await answer if isinstance(answer, Awaitable) else answer
        if answer:
            return answer
        answered = time.monotonic()
        assert answered < ends, f"{what} did not happen within {within:g} s"
        await asyncio.sleep(rest_after(answered - asked))
        asked = time.monotonic()


async def pass_time(seconds: float) -> None:
    """Wait until so much real time has passed, where the passing of time is what the test is about."""
    ends = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= ends, within=seconds + LIMIT)


def pass_time_in_thread(seconds: float) -> None:
    """Do the same in a thread without an event loop."""
    ends = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= ends, within=seconds + LIMIT, every=min(0.01, seconds / 2))
