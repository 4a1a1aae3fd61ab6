"""The application of the processes that are killed: ``horae worker tests.bus.program:app``.

Each time a handler does its effect is written down, with its job.
"""

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from horae import Context, Horae, Retry
from tests.support.waiting import pass_time

app = Horae()


def effects() -> Path:
    return Path(os.environ["BUS_EFFECTS"])


def write_down(job: str) -> None:
    with closing(sqlite3.connect(effects(), timeout=30, isolation_level=None)) as database:
        database.execute("INSERT INTO effects VALUES (?)", (job,))


def prepare(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript("PRAGMA journal_mode = WAL; CREATE TABLE effects (job TEXT)")


def times_done(file: Path) -> Counter[str]:
    """Return how often the effect of each job was done."""
    with closing(sqlite3.connect(file)) as database:
        return Counter(job for (job,) in database.execute("SELECT job FROM effects"))


@app.job("effect", queue="bus", retry=Retry.fixed(0, attempts=20))
async def effect(ctx: Context) -> str:
    await ctx.step_async("effect", lambda: write_down(ctx.job.id))
    return "done"


@app.job("slow", queue="bus", retry=Retry.fixed(0, attempts=20))
async def slow(ctx: Context) -> str:
    await ctx.progress_async({"begun": True})
    await pass_time(1.5)
    await ctx.step_async("effect", lambda: write_down(ctx.job.id))
    return "done"
