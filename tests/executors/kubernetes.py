"""Kubernetes without machines: kmock keeps the Jobs, and what a controller and a kubelet do is done here.

A Job becomes a process on this machine. Its pod, the pod's log and how the container ended are answered as Kubernetes
answers; a deleted Job stays until its process has ended, as with ``propagationPolicy: Foreground``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import kmock

from tests.support.waiting import pass_time_in_thread, wait_until

ROOT = Path(__file__).parents[2]
FINALIZER = "foregroundDeletion"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TICK = 0.05


class Pod:
    """A container that runs, or has run."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        [container] = job["spec"]["template"]["spec"]["containers"]
        self.job = job["metadata"]["name"]
        self.name = f"{self.job}-x2x4q"
        self.log, self._message = folder / f"{self.name}.log", folder / f"{self.name}.ending"
        given = {each["name"]: each["value"] for each in container["env"]}
        given["HORAE_ENDING_FILE"] = str(self._message)  # the path in the container is one of this machine, too
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *container["command"][1:]], stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "PYTHONPATH": paths, **given},
            )  # fmt: skip

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)

    @property
    def exit_code(self) -> int | None:
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def as_json(self) -> dict[str, Any]:
        state: dict[str, Any] = {"running": {}}
        if self.exit_code is not None:
            message = self._message.read_text() if self._message.exists() else ""
            reason = "Completed" if self.exit_code == 0 else "Error"
            state = {"terminated": {"exitCode": self.exit_code, "reason": reason, "message": message}}
        labels = {"job-name": self.job}
        return {
            "metadata": {"name": self.name, "labels": labels, "creationTimestamp": "2030-01-01T00:00:00Z"},
            "status": {"containerStatuses": [{"name": "handler", "state": state}]},
        }


class Kubernetes:
    """The API at *url*, and the pods."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pods: dict[str, Pod] = {}
        self.url = ""
        self.refuses = False  # answer nothing but 503
        self._settled: set[str] = set()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._serve, self._reconcile)]

    def start(self) -> None:
        self._threads[0].start()
        wait_until(lambda: self.url, "the API of Kubernetes")
        self._threads[1].start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)
        for pod in self.pods.values():
            pod.kill()

    def _serve(self) -> None:
        async def serve() -> None:
            async with kmock.KubernetesEmulator() as api, kmock.Server(api) as server:
                api.resources["batch/v1/jobs"] = kmock.ResourceInfo(kind="Job", namespaced=True)
                api.resources["v1/pods"] = kmock.ResourceInfo(kind="Pod", namespaced=True)
                api["get", kmock.subresource("log")] << self._log
                api["list", kmock.resource("v1/pods")] << self._list
                self.url = str(server.url).rstrip("/")
                await asyncio.to_thread(self._stopping.wait)

        asyncio.run(serve())

    def _log(self, request: kmock.Request) -> bytes:
        found = [pod for pod in self.pods.values() if pod.name == request.name]
        return found[0].log.read_bytes() if found else b""

    def _list(self, request: kmock.Request) -> dict[str, Any]:
        job = request.params["labelSelector"].partition("=")[2]
        return {"items": [pod.as_json() for pod in self.pods.values() if pod.job == job]}

    def _reconcile(self) -> None:
        with httpx.Client(base_url=self.url) as api:
            while not self._stopping.is_set():
                for job in api.get(JOBS).json()["items"]:
                    self._look_after(api, job)
                pass_time_in_thread(TICK)

    def _look_after(self, api: httpx.Client, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        pod = self.pods.get(name)
        if pod is None:
            self.pods[name] = Pod(job, self._folder)
            api.patch(f"{JOBS}/{name}", json={"metadata": {"finalizers": [FINALIZER]}, "status": {"ready": 1}})
        elif job["metadata"].get("deletionTimestamp"):
            pod.kill()
            del self.pods[name]
            api.patch(f"{JOBS}/{name}", json={"metadata": {"finalizers": []}})
        elif pod.exit_code is not None and name not in self._settled:
            self._settled.add(name)
            condition = {"type": "Complete" if pod.exit_code == 0 else "Failed", "status": "True"}
            if pod.exit_code:
                condition |= {
                    "reason": "BackoffLimitExceeded",
                    "message": "the specified limit is reached",
                }
            api.patch(f"{JOBS}/{name}", json={"status": {"ready": 0, "conditions": [condition]}})


@contextmanager
def kubernetes_cluster(folder: Path) -> Iterator[Kubernetes]:
    cluster = Kubernetes(folder)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
