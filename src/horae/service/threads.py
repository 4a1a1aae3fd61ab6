"""The threads in which the service works with the database: one hop for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

T = TypeVar("T")
MOST = 40  # made as they are needed; as many as FastAPI's own
THREADS = ThreadPoolExecutor(MOST, "horae-service")


async def on_thread(work: Callable[..., T], /, *given: object) -> T:
    """Run *work* in a thread that sees the context of the request."""
    run = partial(copy_context().run, work, *given)
    return await asyncio.get_running_loop().run_in_executor(THREADS, run)
