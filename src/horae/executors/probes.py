"""Handlers that the suite for executors runs elsewhere; few imports, so that a process for each starts quickly."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from horae.core.jobs.outcomes import Cancel, Snooze
from horae.runtime.loop import sleep_in_thread
from horae.runtime.worker.context import Context

TICK = 0.05  # seconds


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    return a + b


def describe(ctx: Context) -> dict[str, Any]:
    return {"job_id": ctx.job_id, "attempt": ctx.attempt, "key": ctx.idempotency_key, "owner": ctx.owner}


def fail(text: str) -> None:
    raise ValueError(text)


def snooze() -> None:
    raise Snooze(90, "later")


def cancel() -> None:
    raise Cancel("not wanted")


def repeat(text: str, times: int) -> str:
    return text * times


def return_no_json() -> Any:
    return object()


def save(ctx: Context) -> None:
    ctx.checkpoint({"page": 2})


def die(code: int) -> None:
    os._exit(code)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def report(ctx: Context, folder: str) -> None:
    """Log and report progress, then wait to be let go."""
    ctx.logger.info("half of it is done")
    ctx.progress({"done": 0.5})
    hold(folder)


def hold(folder: str) -> str:
    """Note that it began, show that it lives, and return when a file ``go`` is there."""
    place = Path(folder)
    with (place / "began").open("a") as file:
        file.write(f"{os.getpid()}\n")
    while not (place / "go").exists():
        with (place / "alive").open("a") as file:
            file.write(".")
        sleep_in_thread(TICK)
    return "let go"
