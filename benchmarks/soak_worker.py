"""A worker of the soak, to be killed: ``python -m benchmarks.soak_worker URL``. Ends by itself when its parent does."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from benchmarks.soak_memories import declare_verifier
from horae import Context, Horae, Retry
from horae.runtime.worker.worker import WorkerSettings

LEASE = timedelta(seconds=5)
EFFECT = text("INSERT INTO soak_effects (job, early) VALUES (:job, :early)")


def declare(app: Horae) -> dict[str, Any]:
    """Declare the jobs of the soak. Each leaves exactly one effect in the ledger, however often it runs."""
    patient = Retry.fixed(0.5, attempts=50)

    def leave(ctx: Context) -> None:
        early = int(datetime.now(UTC) < ctx.due_at)
        ctx.once("effect", lambda connection: connection.execute(EFFECT, {"job": ctx.job_id, "early": early}).rowcount)

    @app.job("quick", retry=patient)
    async def quick(ctx: Context) -> None:
        await asyncio.to_thread(leave, ctx)

    @app.job("slow", retry=patient)
    def slow(ctx: Context) -> None:
        time.sleep(random.uniform(0.1, 3.0))
        leave(ctx)

    @app.job("flaky", retry=patient)
    def flaky(ctx: Context) -> None:
        leave(ctx)
        if ctx.attempt < 3:
            raise RuntimeError("not yet")

    declare_verifier(app)
    return {"quick": quick, "slow": slow, "flaky": flaky}


async def serve(url: str) -> None:
    app = Horae(url)
    declare(app)
    worker = app.worker(
        WorkerSettings(queues={"default": 20, "governance": 8}, lease=LEASE, grace=timedelta(seconds=5))
    )
    serving = asyncio.create_task(worker.run())
    parent = os.getppid()
    while not serving.done() and os.getppid() == parent:
        await asyncio.sleep(0.5)
    worker.stop()
    await serving


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
