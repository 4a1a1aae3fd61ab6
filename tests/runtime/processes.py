"""Handlers that run in child processes; ``HORAE_DATABASE_URL`` says where their jobs are."""

import asyncio
import ctypes
import functools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from horae import Cancel, Context, Horae, ObjectToVerify, Retry, Snooze, Verdict
from tests.support.waiting import pass_time_in_thread, wait_until

pass_time_in_thread(float(os.environ.get("SLOW_IMPORT", "0")))  # a child that is long in starting
app = Horae()
AT_ONCE = Retry.fixed(0, attempts=2)
NEVER = Retry.none()


@app.job("add", executor="process", retry=NEVER)
def add(a: int, b: int) -> dict[str, Any]:
    print("a line on standard output that nobody may mistake for an answer", flush=True)
    return {"sum": a + b, "pid": os.getpid()}


@app.verifier("memory", executor="process", timeout=2)
def check_memory(memory: ObjectToVerify) -> Verdict:
    if memory.subject == "for ever":
        pass_time_in_thread(60)
    return Verdict.confirmed(evidence=[f"process:{os.getpid()}"])


@app.job("add-async", executor="process", retry=NEVER)
async def add_async(ctx: Context, a: int, b: int) -> int:
    await ctx.progress_async({"at": "half"})
    return a + b


@app.job("report", executor="process", retry=NEVER, tenants=True)
def report(ctx: Context) -> list[Any]:
    ctx.progress({"percent": 50})
    ctx.logger.warning("half way with %s", ctx.job_id)
    return [ctx.attempt, ctx.token, ctx.owner, ctx.planned_at.isoformat(), list(ctx.job.tags), ctx.job.max_attempts]


@app.job("fail", executor="process", retry=NEVER)
def fail() -> None:
    raise KeyError("the thing we needed")


@app.job("fail-for-good", executor="process", retry=Retry.fixed(0, attempts=5, on=ValueError))
def fail_for_good() -> None:
    raise KeyError("no value error")


@app.job("sum-up", executor="process", retry=NEVER)
def sum_up(ctx: Context) -> list[Any]:
    return [each.result["sum"] for each in ctx.parents()]


@app.job("leave", executor="process", retry=NEVER)
def leave() -> None:
    sys.exit(3)


@app.job("put-off", executor="process", retry=NEVER)
def snooze_unknown_handler() -> None:
    raise Snooze(3600, "the bank is closed")


@app.job("call-off", executor="process", retry=NEVER)
def call_off() -> None:
    raise Cancel("nobody wants it any more")


@app.job("vanish", executor="process", retry=AT_ONCE)
def vanish(how: str) -> None:
    match how:
        case "exit":
            os._exit(7)
        case "crash":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@app.job("crash-after-checkpoint", executor="process", retry=AT_ONCE)
def crash_after_checkpoint(ctx: Context) -> Any:
    if ctx.last_checkpoint is None:
        ctx.checkpoint({"page": 7})
        os._exit(1)
    return ctx.last_checkpoint


@app.job("charge", executor="process", retry=AT_ONCE)
def charge(ctx: Context) -> Any:
    def effect(connection: Connection) -> str:
        connection.execute(text("INSERT INTO charges (job) VALUES (:job)"), {"job": ctx.job_id})
        return "charged"

    receipt = ctx.once("charge", effect)
    if ctx.attempt == 1:
        os._exit(1)
    return receipt


@app.job("steps", executor="process", retry=AT_ONCE)
async def steps(ctx: Context) -> Any:
    first = ctx.step("who", os.getpid)
    second = await ctx.step_async("again", lambda: ctx.attempt)
    if ctx.attempt == 1:
        os._exit(1)
    return [first != os.getpid(), second]


@app.job("sleep", executor="process", retry=NEVER)
def sleep(seconds: float, note: str = "") -> str:
    try:
        if note:
            Path(note).write_text(str(os.getpid()))
        pass_time_in_thread(seconds)
    finally:
        if note:
            Path(note).with_suffix(".cleaned").touch()
    return "slept"


@app.job("sleep-async", executor="process", retry=NEVER)
async def sleep_async(ctx: Context, note: str) -> None:
    try:
        Path(note).write_text(str(os.getpid()))
        await asyncio.Event().wait()
    finally:
        Path(note).with_suffix(".cleaned").touch()


@app.job("stubborn", executor="process", retry=NEVER)
def stubborn(note: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(note).write_text(f"{os.getpid()} {grandchild.pid}")
    pass_time_in_thread(60)


@app.job("polite", executor="process", retry=NEVER)
def polite(ctx: Context, note: str) -> str:
    Path(note).write_text(str(os.getpid()))
    wait_until(lambda: ctx.cancelled)
    Path(note).with_suffix(".cleaned").touch()
    return "stopped"


@app.job("set", executor="process", retry=NEVER)
def not_json() -> Any:
    return {1, 2, 3}


@app.job("log", executor="process", retry=NEVER)
def log() -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logging.getLogger("some.library").exception("it went wrong", extra={"shelf": 4})


@app.job("write-badly", executor="process", retry=NEVER)
def write_badly(ctx: Context) -> None:
    ctx.progress({1, 2})


def _plain(a: int) -> int:
    return a * 2


double = app.job("double", executor="process", retry=NEVER)(_plain)


def _plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@app.job("decorated", executor="process", retry=NEVER)
@_plainly
async def decorated(ctx: Context, note: str = "") -> str:
    if note:
        try:
            Path(note).write_text(str(os.getpid()))
            await asyncio.Event().wait()
        finally:
            Path(note).with_suffix(".cleaned").touch()
    return "worked"


@app.job("produce", executor="process", retry=NEVER)
def produce() -> Any:
    return (number for number in range(3))


@app.job("spend", executor="process", retry=NEVER, budget="llm", cost={"tokens": 100})
def spend(ctx: Context) -> list[str]:
    ctx.checkpoint("begun")
    keys = []
    while True:
        keys.append(ctx.spend({"tokens": 80}))
        ctx.spent({"tokens": 70}, key=keys[-1])


@app.job("misspend", executor="process", retry=NEVER)
def misspend(ctx: Context) -> None:
    ctx.spend({"tokens": 80})
