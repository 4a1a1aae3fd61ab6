"""Run handlers on a Dask cluster, each in a process of its own beside the Dask worker that has the task.

Dask cannot stop a task that runs in a thread; a process can be killed. What is published on the scheduler outlives the
client that submitted it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from horae.errors import ConfigurationError, ExecutorUnavailable
from horae.executors.names import need_module
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteStatus

CONNECT = 10.0  # seconds
LOOK = 0.5  # seconds for the scheduler to tell the state of a task
STOP = 20.0  # seconds for a process to end
CHECK = 0.5  # seconds between two looks at whether a task has begun


class DaskExecutor:
    """Run calls as tasks of Dask.

    *address* is that of the scheduler; else ``DASK_SCHEDULER_ADDRESS``. *resources* are those that a Dask worker must
    have, and *security* is handed to Dask's client.
    """

    name = "dask"

    def __init__(
        self, address: str | None = None, *, resources: Mapping[str, float] | None = None, security: Any = None
    ) -> None:
        self._address = address
        self._resources = dict(resources or {})
        self._security = security
        self._client: Any = None
        self._connecting = threading.Lock()

    def check(self) -> None:
        """Refuse to go on where Dask is not installed or the scheduler is not named."""
        need_module("distributed", "dask")
        self._scheduler()

    def submit(self, call: RemoteCall) -> Handle:
        from horae.executors.dask_task import run_on_dask

        with self._connected() as client:
            if call.name not in client.list_datasets():
                task = client.submit(
                    run_on_dask, call.document, call.name, key=call.name, pure=False, retries=0,
                    resources=self._resources or None,
                )  # fmt: skip
                with suppress(KeyError):  # another worker has published it meanwhile
                    client.publish_dataset(task, name=call.name)
        return {"name": call.name}

    def look(self, handle: Handle) -> RemoteStatus:
        return self.wait(handle, timedelta(seconds=LOOK))

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        with self._connected() as client:
            task = _published(client, handle["name"])
            if task is None:
                return RemoteStatus("gone")
            _wait(task, limit.total_seconds())
            report = _variable(client, handle["name"], "report") or {}
            if task.status in ("finished", "error"):
                return RemoteStatus("ended", progress=report.get("progress"))
            if task.status in ("cancelled", "lost"):
                return RemoteStatus("gone", detail=f"Dask says that the task is {task.status}")
            began = _variable(client, handle["name"], "began") is not None
            return RemoteStatus("running" if began else "waiting", progress=report.get("progress"))

    def cancel(self, handle: Handle) -> None:
        from distributed import Event

        name = handle["name"]
        with self._connected() as client:
            task = _published(client, name)
            if task is None:
                return
            stop = Event(f"{name}-stop", client=client)
            if not task.done():
                stop.set()
                began = _variable(client, name, "began", CHECK) is not None
                if not began:
                    task.cancel()  # it has not begun, and now it will not
                    began = _variable(client, name, "began", CHECK) is not None
                if began and not _wait(task, STOP):
                    raise ExecutorUnavailable("executor_not_stopping", executor=self.name, name=name)
            client.unpublish_dataset(name)
            task.cancel()
            for kind in ("began", "report"):
                _delete(client, name, kind)
            stop.clear()

    def collect(self, handle: Handle) -> RemoteEnding:
        with self._connected() as client:
            task = _published(client, handle["name"])
            if task is None:
                return RemoteEnding(None, error="Dask does not know the task (any more)")
            if not _wait(task, LOOK) or task.status != "finished":
                report = _variable(client, handle["name"], "report") or {}
                error = "" if task.status == "pending" else f"{task.status}: {task.exception(timeout=CONNECT)}"
                return RemoteEnding(None, error=error, lines=_pairs(report.get("lines", ())))
            found = task.result(timeout=CONNECT)
            return RemoteEnding(found["ending"], found["error"], found["exit_code"], _pairs(found["lines"]))

    def close(self) -> None:
        """Leave the cluster; what runs there goes on."""
        with self._connecting:
            client, self._client = self._client, None
        if client is not None:
            client.close(timeout=CONNECT)

    def _scheduler(self) -> str:
        address = self._address or os.environ.get("DASK_SCHEDULER_ADDRESS")
        if not address:
            raise ConfigurationError("dask_address_missing")
        return address

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Lend a client that is connected; turn Dask's ways of being away into one."""
        from distributed import Client

        try:
            with self._connecting:
                if self._client is None or self._client.status not in ("running", "connecting"):
                    self._client = Client(
                        self._scheduler(), timeout=CONNECT, set_as_default=False, security=self._security
                    )
                client = self._client
            with client.as_current():  # in this thread alone
                yield client
        except (OSError, TimeoutError) as problem:
            raise ExecutorUnavailable(
                "executor_away", executor=self.name, problem=str(problem) or "no answer"
            ) from None
        except RuntimeError as problem:  # a client that was closed while it was asked
            if self._client is not None and self._client.status == "running":
                raise
            raise ExecutorUnavailable("executor_away", executor=self.name, problem=str(problem)) from None


def _published(client: Any, name: str) -> Any:
    try:
        return client.get_dataset(name)
    except KeyError:
        return None


def _wait(task: Any, seconds: float) -> bool:
    """Wait for a task; return whether it has ended."""
    from distributed import wait

    with suppress(TimeoutError):
        wait([task], timeout=seconds)
    return bool(task.status in ("finished", "error", "cancelled", "lost"))


def _variable(client: Any, name: str, kind: str, seconds: float = 0.1) -> Any:
    from distributed import Variable

    with suppress(TimeoutError):
        return Variable(f"{name}-{kind}", client=client).get(timeout=seconds)
    return None


def _delete(client: Any, name: str, kind: str) -> None:
    from distributed import Variable

    Variable(f"{name}-{kind}", client=client).delete()


def _pairs(lines: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(level), str(text)) for level, text in lines)
