"""The application of the journeys, and the process that runs a worker for it.

    python -m tests.journeys.program '{"lease": 1, "queues": {"default": 4}, …}'

``HORAE_DATABASE_URL`` names the database, ``JOURNEY_HOME`` a folder where handlers write down what they do and where
they look for the gates that a test opens.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, text

import horae.clock
from horae import Context, Horae, Retry
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.errors import LeaseLost
from horae.runtime.worker.worker import WorkerSettings
from tests.support.history import Effect
from tests.support.waiting import eventually, wait_until

PATIENCE = 60.0
CALLERS = 10  # in one process


def home() -> Path:
    return Path(os.environ["JOURNEY_HOME"])


def write_down(what: str, ctx: Context | None = None, detail: Any = None) -> None:
    """One line, in one write, so that several processes can share the file and a killed one leaves whole lines."""
    job, token, attempt = (0, 0, 0) if ctx is None else (ctx.lease.job_number, ctx.token, ctx.attempt)
    line = json.dumps(asdict(Effect(what, job, token, os.getpid(), time.time(), attempt, detail))) + "\n"
    file = os.open(home() / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def build(url: str | None = None) -> Horae:
    """The application; handlers are declared anew, so that a test and its processes can have one each."""
    app = Horae(url)

    @app.job("brief", retry=Retry.none())
    def brief(ctx: Context, number: int = 0) -> int:
        write_down("ran", ctx, number)
        return number

    @app.job("gated", retry=Retry.none())
    async def gated(ctx: Context, gate: str) -> int:
        """Waits for its gate to open; gives up when it is told to."""
        write_down("started", ctx)
        await eventually((home() / gate).exists)
        write_down("passed", ctx)
        return os.getpid()

    @app.job("careful", retry=Retry.none())
    async def careful(ctx: Context, gate: str) -> int:
        """The first attempt ends at once; whoever comes after it waits for the gate."""
        write_down("started", ctx)
        if ctx.attempt > 1:
            await eventually((home() / gate).exists)
        return os.getpid()

    @app.job("stubborn", retry=Retry.none())
    def stubborn(ctx: Context, gate: str) -> int:
        """Waits in a thread for its gate, whatever it is told, and then insists on saving its progress."""
        write_down("started", ctx)
        wait_until((home() / gate).exists)
        try:
            ctx.checkpoint(os.getpid())
        except LeaseLost as refused:
            write_down("refused", ctx, str(refused))
        write_down("passed", ctx)
        return os.getpid()

    @app.job("ledgered", retry=Retry.none())
    def ledgered(ctx: Context, gate: str) -> int:
        """Waits for its gate inside the transaction of its ledger."""

        def wait(connection: Connection) -> int:
            connection.execute(text("SELECT 1"))
            write_down("inside", ctx)
            wait_until((home() / gate).exists)
            return os.getpid()

        return ctx.once("wait", wait)

    @app.job("costly", retry=Retry.none(), budget="llm", cost={"tokens": 100})
    def costly(ctx: Context) -> None:
        """Writes down what it really spends, after it was granted and before it reports it."""
        for step in range(2):
            key = ctx.spend({"tokens": 60}, key=f"step-{step}")
            write_down("spent", ctx, 50)
            ctx.spent({"tokens": 50}, key=key)

    return app


app = build()


class SkewedDatetime(datetime):
    """The wrong time, as a host with a bad clock would tell it; a test may set it while the process runs."""

    skew = timedelta(0)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        step = home() / "clock-step"
        stepped = timedelta(seconds=float(step.read_text())) if step.exists() else timedelta(0)
        return cls.fromtimestamp(time.time(), tz) + cls.skew + stepped


async def serve(settings: WorkerSettings) -> None:
    worker = app.worker(settings)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    write_down("ready")
    try:
        await worker.run()
    finally:
        write_down("ended", detail=dict(worker.counts))


def call_all_at_once() -> None:
    """Several callers in one process, all with the same key, let go by a gate that opens for all processes."""
    answers: list[tuple[str, bool]] = []

    def call(_: int) -> None:
        placed = verbs.enqueue(app.world, Request("brief", {"number": 7}, key="order:7"))
        answers.append((placed.id, placed.deduplicated))

    with app, ThreadPoolExecutor(CALLERS) as callers:
        _ = app.world
        write_down("ready")
        wait_until((home() / "go").exists, every=0.001)
        list(callers.map(call, range(CALLERS)))
    write_down("answered", detail=answers)


def main(text: str) -> None:
    if text == "callers":
        call_all_at_once()
        return
    answer = json.loads(text)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if "skew" in answer:
        SkewedDatetime.skew = timedelta(seconds=answer["skew"])
        horae.clock.datetime = SkewedDatetime  # type: ignore[attr-defined]  # the host's clock, as seen by our port
    default = WorkerSettings()
    settings = WorkerSettings(
        queues=answer.get("queues", {"default": 4}),
        lease=timedelta(seconds=answer["lease"]),
        grace=timedelta(seconds=answer["grace"]),
        look_every=timedelta(seconds=answer["look_every"]) if "look_every" in answer else default.look_every,
    )
    if "url" in answer:  # over HTTP, without a database
        app.use_service(answer["url"], os.environ["HORAE_TOKEN"])
    with app:
        asyncio.run(serve(settings))


if __name__ == "__main__":
    main(sys.argv[1])
