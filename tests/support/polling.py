"""Polling for what happens in another task, thread or process."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

LIMIT = 60.0  # seconds; only what never happens takes so long


async def eventually(predicate: Callable[[], Any | Awaitable[Any]]) -> None:
    """Wait until the predicate, sync or async, holds; fail the test when it does not in good time."""
    ends = time.monotonic() + LIMIT
    while time.monotonic() < ends:
        answer = predicate()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"it did not happen within {LIMIT:g} s")


async def pass_time(seconds: float) -> None:
    """Wait until so much real time has passed, where the passing of time is what the test is about."""
    ends = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= ends)
