"""An application with one SINGLE_NODE job, and the process that runs a worker for it.

python -m tests.journeys.locked '{"lease": 1, "lock_ttl": 600, "locks": "database"}'
"""

import asyncio
import json
import logging
import os
import sys
from datetime import timedelta
from typing import Any

from horae import Context, Horae
from horae.runtime.worker.worker import WorkerSettings
from tests.journeys.program import home, write_down
from tests.support.waiting import eventually


def build(url: str | None = None, *, locks: str = "database", lock_ttl: float = 600) -> Horae:
    app = Horae(url, name="locked")
    app.locks = locks

    @app.job("steady", every=1, lock_ttl=lock_ttl)
    async def steady(ctx: Context) -> None:
        """Waits for the gate; once that is open, passes at once."""
        write_down("started", ctx)
        await eventually((home() / "gate").exists)
        write_down("passed", ctx)

    return app


async def serve(answer: dict[str, Any]) -> None:
    with build(os.environ["HORAE_DATABASE_URL"], locks=answer["locks"], lock_ttl=answer["lock_ttl"]) as app:
        worker = app.worker(WorkerSettings(lease=timedelta(seconds=answer["lease"]), grace=timedelta(seconds=1)))
        await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(serve(json.loads(sys.argv[1])))
