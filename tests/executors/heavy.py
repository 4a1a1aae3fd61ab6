"""Jobs that run elsewhere, and a worker for them in a process of its own:

    python -m tests.executors.heavy '{"database": "sqlite:///…", "executor": "detached", "at": "…", "dies_after": ""}'

``dies_after`` names a verb of the executor after which the process is killed, before the worker hears the answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from horae import Context, Horae, Retry
from horae.errors import ExecutorUnavailable
from horae.executors import DaskExecutor, RayExecutor, probes
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteExecutor, RemoteStatus
from horae.runtime.worker.worker import WorkerSettings
from tests.executors.own import example

T = TypeVar("T")
LEASE = timedelta(seconds=2)
app = Horae("sqlite://", name="heavy")


class Chosen:
    """The executor of these jobs: a real one that a test chooses, which it can take away."""

    name = "chosen"

    def __init__(self) -> None:
        self.real: RemoteExecutor | None = None
        self.dies_after = ""
        self.is_away = False
        self.asked: list[str] = []

    def _ask(self, verb: str, ask: Callable[[RemoteExecutor], T]) -> T:
        self.asked.append(verb)
        if self.is_away or self.real is None:
            raise ExecutorUnavailable("executor_away", executor=self.name, problem="a test has taken it away")
        if self.dies_after == f"not {verb}":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = ask(self.real)
        if self.dies_after == verb:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def submit(self, call: RemoteCall) -> Handle:
        return self._ask("submit", lambda real: real.submit(call))

    def look(self, handle: Handle) -> RemoteStatus:
        return self._ask("look", lambda real: real.look(handle))

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        return self._ask("wait", lambda real: real.wait(handle, min(limit, timedelta(seconds=0.5))))

    def cancel(self, handle: Handle) -> None:
        self._ask("cancel", lambda real: real.cancel(handle))

    def collect(self, handle: Handle) -> RemoteEnding:
        return self._ask("collect", lambda real: real.collect(handle))


chosen = Chosen()
AT_ONCE = Retry.fixed(0, attempts=3)


@app.job("hold", executor=chosen, retry=AT_ONCE)
def hold(folder: str) -> str:
    return probes.hold(folder)


@app.job("hold-for-an-hour", executor=chosen, retry=Retry.none(), timeout=3600)
def hold_for_an_hour(folder: str) -> str:
    return probes.hold(folder)


@app.job("report", executor=chosen, retry=Retry.none())
def report(ctx: Context, folder: str) -> list[Any]:
    probes.report(ctx, folder)
    return [ctx.job_id, ctx.attempt]


@app.job("fail", executor=chosen, retry=AT_ONCE)
def fail(text: str) -> None:
    raise ValueError(text)


@app.job("die", executor=chosen, retry=Retry.none())
def die(code: int) -> None:
    os._exit(code)


def choose(kind: str, place: str) -> RemoteExecutor:
    """Return an executor; *place* is its folder or address."""
    if kind == "dask":
        return DaskExecutor(place)
    if kind == "ray":
        return RayExecutor(place, num_cpus=0.1)
    made: RemoteExecutor = example().DetachedExecutor(Path(place))
    return made


async def serve() -> None:
    worker = app.worker(WorkerSettings(queues={"default": 4}, lease=LEASE, grace=timedelta(seconds=5)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    from tests.executors import heavy  # the module that a cluster imports, not this program

    given = json.loads(sys.argv[1])
    heavy.app.database = given["database"]
    heavy.chosen.real = heavy.choose(given["executor"], given["at"])
    heavy.chosen.dies_after = given.get("dies_after", "")
    asyncio.run(heavy.serve())
