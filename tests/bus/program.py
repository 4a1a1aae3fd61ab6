"""The application of the processes that are killed: ``horae worker tests.bus.program:app``.

An effect is checked by its key, as one on the outside would be: the second of the same job changes nothing.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from horae import Context, Horae, Retry
from tests.support.waiting import pass_time

app = Horae()


def effects() -> Path:
    return Path(os.environ["BUS_EFFECTS"])


def write_down(key: str) -> None:
    """Do the effect of a job: once for its key; every try is counted."""
    with closing(sqlite3.connect(effects(), timeout=30, isolation_level=None)) as database:
        database.execute("INSERT INTO tries VALUES (?)", (key,))
        database.execute("INSERT OR IGNORE INTO effects VALUES (?)", (key,))


def prepare(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE tries (k TEXT); CREATE TABLE effects (k TEXT PRIMARY KEY)"
        )


def counts(file: Path) -> tuple[int, int]:
    """Return the effects, and how often one was tried."""
    with closing(sqlite3.connect(file)) as database:
        (done,) = database.execute("SELECT count(*) FROM effects").fetchone()
        (tried,) = database.execute("SELECT count(*) FROM tries").fetchone()
        return int(done), int(tried)


@app.job("effect", queue="bus", retry=Retry.fixed(0, attempts=20))
async def effect(ctx: Context) -> str:
    await ctx.step_async("effect", lambda: write_down(ctx.idempotency_key))
    return "done"


@app.job("slow", queue="bus", retry=Retry.fixed(0, attempts=20))
async def slow(ctx: Context) -> str:
    await ctx.progress_async({"begun": True})
    await pass_time(1.5)
    await ctx.step_async("effect", lambda: write_down(ctx.idempotency_key))
    return "done"
