"""Waiting for what another task, thread or process does: by polling, never by a fixed sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

LIMIT = 60.0  # seconds; only what never happens takes so long


def wait_until(holds: Callable[[], object]) -> None:
    """Poll until a condition holds; fail the test when it does not in good time."""
    ends = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < ends, f"it did not happen within {LIMIT:g} s"
        time.sleep(0.01)


async def eventually(holds: Callable[[], Any | Awaitable[Any]]) -> None:
    """Do the same beside an event loop; the condition may be asynchronous."""
    ends = time.monotonic() + LIMIT
    while time.monotonic() < ends:
        answer = holds()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"it did not happen within {LIMIT:g} s")


async def pass_time(seconds: float) -> None:
    """Wait until so much real time has passed, where the passing of time is what the test is about."""
    ends = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() >= ends)
