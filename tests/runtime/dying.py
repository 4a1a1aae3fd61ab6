"""A worker process for tests that kill it: ``python -m tests.runtime.dying``.

``HORAE_DATABASE_URL`` says where its jobs are, ``HORAE_FAULT`` where it dies; it ends in order on SIGTERM.
"""

import asyncio
import os
import signal
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, text

from horae import Context, Horae, Retry
from horae.runtime.worker.worker import WorkerSettings

app = Horae()
AT_ONCE = Retry.fixed(0, attempts=3)
LEASE = timedelta(seconds=0.6)


@app.job("charge", retry=AT_ONCE)
def charge(ctx: Context) -> Any:
    def effect(connection: Connection) -> str:
        connection.execute(text("INSERT INTO charges (job_id) VALUES (:job)"), {"job": ctx.job_id})
        return f"charged in run {ctx.token}"

    before = ctx.last_checkpoint
    ctx.checkpoint({"run": ctx.token})
    return [before, ctx.once("charge", effect)]


@app.job("poison", retry=Retry.fixed(0, attempts=1))
def poison() -> None:
    os._exit(9)


@app.job("harmless", retry=AT_ONCE)
async def harmless() -> str:
    return "done"


async def main() -> None:
    worker = app.worker(WorkerSettings(lease=LEASE))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
