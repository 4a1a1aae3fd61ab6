"""A process that works on governed objects and is killed where a test wants it.

    python -m tests.journeys.governed '{"do": "work", "kill": "UPDATE horae_objects", "nth": 2}'

``kill`` is a part of an SQL statement: the process kills itself, as ``kill -9`` would, right after the nth of them.
``at`` kills it in the verifier: at its start or its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta
from itertools import count
from typing import Any

from sqlalchemy import Engine, event

from horae import Horae, ObjectToVerify, Verdict
from horae.actions.audit import seal_all
from horae.runtime.worker.worker import WorkerSettings
from tests.journeys.program import write_down


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def build(url: str | None = None, at: str = "") -> Horae:
    """An application whose verifier confirms every memory; its look costs 10 tokens at most and 4 in fact."""
    app = Horae(url, name="governed")

    @app.verifier("memory", cost={"tokens": 10})
    def look(memory: ObjectToVerify) -> Verdict:
        write_down("started")
        if at == "start":
            die()
        verdict = Verdict.confirmed(evidence=["web:1"], cost={"tokens": 4})
        write_down("verified", detail=memory.id)
        if at == "end":
            die()
        return verdict

    return app


def kill_after(engine: Engine, part: str, nth: int) -> None:
    seen = count(1)

    @event.listens_for(engine, "after_cursor_execute")
    def look(_: Any, __: Any, statement: str, *___: Any) -> None:
        if part in " ".join(statement.split()) and next(seen) == nth:
            die()


async def work(app: Horae, lease: float) -> None:
    """Serve the jobs of objects until SIGTERM."""
    settings = WorkerSettings(queues={"governance": 4}, lease=timedelta(seconds=lease), grace=timedelta(seconds=1))
    worker = app.worker(settings)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    write_down("ready")
    await worker.run()
    write_down("ended", detail=dict(worker.counts))


def main(given: dict[str, Any]) -> None:
    with build(at=given.get("at", "")) as app:
        if "kill" in given:
            kill_after(app.engine, given["kill"], given.get("nth", 1))
        if given["do"] == "work":
            asyncio.run(work(app, given.get("lease", 1.0)))
        elif given["do"] == "reject":
            app.acting_as("user/carol").objects.reject(given["id"], reason="it is forged")
        else:
            seal_all(app.world)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
