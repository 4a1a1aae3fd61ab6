"""Waiting for what happens elsewhere."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

LIMIT = 60.0  # seconds; only what never happens takes so long


async def eventually(predicate: Callable[[], Any | Awaitable[Any]]) -> None:
    """Until the predicate, sync or async, holds; a failure when it does not in good time."""
    ends = time.monotonic() + LIMIT
    while time.monotonic() < ends:
        answer = predicate()
        if await answer if isinstance(answer, Awaitable) else answer:
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"it did not happen within {LIMIT:g} s")
