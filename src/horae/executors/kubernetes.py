"""Run handlers as Kubernetes Jobs, each in a pod with the application's image.

The API is asked over HTTP: from inside the cluster with the pod's service account, from outside by a URL and a token,
or by ``kubectl proxy``. The service account may create, get and delete Jobs, list pods and read their logs.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horae.clock import SystemClock
from horae.core.time.spans import Span, span
from horae.errors import ConfigurationError, ExecutorUnavailable
from horae.executors.container import ENDING_FILE, Output, exit_text, is_whole
from horae.executors.names import need_module
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteStatus
from horae.runtime.loop import sleep_in_thread
from horae.settings import one_setting

if TYPE_CHECKING:
    import httpx

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
KEEP = timedelta(hours=1)
ANSWER = 10.0  # seconds for one request
FIRST_PAUSE, PAUSE = 0.1, 1.0  # seconds between two looks
STOP = 25.0  # seconds for the pods of a Job to end
GRACE = 10  # seconds between SIGTERM and SIGKILL
MARGIN = 60  # seconds that a cluster waits beyond the time limit, which the worker keeps
LONGEST_CALL = 100_000  # bytes: one variable of a process may have 128 KiB
TAIL = 400  # lines of a pod's log
ENDING_PATH = "/dev/termination-log"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
PODS = "/api/v1/namespaces/{}/pods"


class KubernetesExecutor:
    """Run calls as Jobs of Kubernetes.

    *image* has the application and Horae installed; else ``HORAE_KUBERNETES_IMAGE``. *url* is that of the API; else
    ``HORAE_KUBERNETES_URL``, else the cluster in which this process runs. *container* and *pod* are merged into the
    specification of the container (resources, environment) and of the pod (service account, node selector). Kubernetes
    deletes a Job that has ended, and that no worker has collected, after *keep*.
    """

    name = "kubernetes"

    def __init__(
        self,
        image: str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        namespace: str | None = None,
        command: Sequence[str] = ("python", "-m", "horae.executors"),
        container: Mapping[str, Any] | None = None,
        pod: Mapping[str, Any] | None = None,
        keep: Span = KEEP,
    ) -> None:
        self._image = image
        self._url = url
        self._token = token
        self._ca = ca
        self._namespace = namespace
        self._command = list(command)
        self._container = dict(container or {})
        self._pod = dict(pod or {})
        self._keep = span(keep)
        self._clock = SystemClock()
        self._opening = threading.Lock()

    def check(self) -> None:
        """Refuse to go on without httpx, an image or a cluster."""
        need_module("httpx", "kubernetes")
        self._server()
        if not self._image_name():
            raise ConfigurationError("kubernetes_image_missing", variable="HORAE_KUBERNETES_IMAGE")

    # -- the five verbs ------------------------------------------------------------------------------------------

    def submit(self, call: RemoteCall) -> Handle:
        namespace = self._namespace or _account("namespace") or "default"
        size = len(call.document.encode())
        if size > LONGEST_CALL:
            raise ConfigurationError("kubernetes_call_too_long", size=size, most=LONGEST_CALL)
        self._request("POST", JOBS.format(namespace), {409}, json=self._job(call))  # 409: it was submitted before
        return {"name": call.name, "namespace": namespace}

    def look(self, handle: Handle) -> RemoteStatus:
        job = self._get(handle)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return RemoteStatus("gone", detail="the Job was deleted" if job else "")
        status = job.get("status") or {}
        if _condition(status) is not None:
            return RemoteStatus("ended")
        if not status.get("ready"):
            return RemoteStatus("waiting")
        pod = self._pod_of(handle)
        return RemoteStatus("running", progress=None if pod is None else self._log(handle, pod).progress)

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        ends_by, pause = self._clock.monotonic() + limit.total_seconds(), FIRST_PAUSE
        while True:
            status = self.look(handle)
            left = ends_by - self._clock.monotonic()
            if status.state in ("ended", "gone") or left <= 0:
                return status
            sleep_in_thread(min(pause, left))
            pause = min(PAUSE, pause * 2)

    def cancel(self, handle: Handle) -> None:
        path = f"{JOBS.format(handle['namespace'])}/{handle['name']}"
        self._request("DELETE", path, {404}, json={"propagationPolicy": "Foreground"})  # it goes after its pods
        ends_by = self._clock.monotonic() + STOP
        while self._get(handle) is not None:
            if self._clock.monotonic() > ends_by:
                raise ExecutorUnavailable("executor_not_stopping", executor=self.name, name=handle["name"])
            sleep_in_thread(FIRST_PAUSE * 2)

    def collect(self, handle: Handle) -> RemoteEnding:
        job, pod = self._get(handle), self._pod_of(handle)
        condition = _condition((job or {}).get("status") or {}) or {}
        why = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
        if pod is None:
            return RemoteEnding(None, error=why or "Kubernetes has no pod of this Job (any more)")
        output = self._log(handle, pod)
        lines, ended = tuple(output.lines), _terminated(pod)
        if ended is None:
            return RemoteEnding(None, error=why, lines=lines)
        ending, code = _ending(ended, output), ended.get("exitCode")
        if ending is not None and (code == 0 or json.loads(ending)["how"] == "raised"):
            return RemoteEnding(ending, exit_code=code, lines=lines)
        why = why or ended.get("reason", "")
        return RemoteEnding(None, f"its process {exit_text(code)}{why and f'; {why}'}", code, lines)

    # -- the Job -------------------------------------------------------------------------------------------------

    def _job(self, call: RemoteCall) -> dict[str, Any]:
        labels = {"app.kubernetes.io/managed-by": "horae"}
        container = {"name": "handler", "image": self._image_name(), "command": self._command, **self._container}
        container["terminationMessagePath"] = ENDING_PATH
        own = [{"name": "HORAE_CALL", "value": call.document}, {"name": ENDING_FILE, "value": ENDING_PATH}]
        container["env"] = [*self._container.get("env", ()), *own]
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE, **self._pod, "containers": [container]}
        spec: dict[str, Any] = {
            "backoffLimit": 0,  # Horae decides whether a job is tried again
            "completions": 1,
            "parallelism": 1,
            "ttlSecondsAfterFinished": math.ceil(self._keep.total_seconds()),
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        if call.timeout is not None:
            spec["activeDeadlineSeconds"] = max(1, math.ceil(call.timeout.total_seconds())) + MARGIN
        notes = {"horae/job": call.job_id, "horae/attempt": str(call.attempt)}
        metadata = {"name": call.name, "labels": labels, "annotations": notes}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}

    def _get(self, handle: Handle) -> dict[str, Any] | None:
        answer = self._request("GET", f"{JOBS.format(handle['namespace'])}/{handle['name']}", {404})
        return None if answer.status_code == 404 else answer.json()

    def _pod_of(self, handle: Handle) -> dict[str, Any] | None:
        """Return the newest pod of a Job."""
        query = {"labelSelector": f"job-name={handle['name']}"}
        found = self._request("GET", PODS.format(handle["namespace"]), params=query).json().get("items", [])
        return max(found, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)

    def _log(self, handle: Handle, pod: Mapping[str, Any]) -> Output:
        path = f"{PODS.format(handle['namespace'])}/{pod['metadata']['name']}/log"
        answer = self._request("GET", path, {400, 404}, params={"tailLines": TAIL})  # 400: it has not started yet
        return Output().read(answer.text.splitlines() if answer.status_code == 200 else ())

    # -- the API -------------------------------------------------------------------------------------------------

    def _image_name(self) -> str:
        return self._image or one_setting(os.environ, "kubernetes_image") or ""

    def _server(self) -> str:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        found = self._url or one_setting(os.environ, "kubernetes_url") or (f"https://{host}:{port}" if host else "")
        if not found:
            raise ConfigurationError("kubernetes_url_missing", variable="HORAE_KUBERNETES_URL")
        return found

    @cached_property
    def _client(self) -> httpx.Client:
        import ssl

        import httpx

        own = self._ca or (str(ACCOUNT / "ca.crt") if (ACCOUNT / "ca.crt").is_file() else None)
        trust = ssl.create_default_context(cafile=own)
        return httpx.Client(base_url=self._server(), verify=trust, timeout=ANSWER)

    def _request(self, method: str, path: str, allowed: set[int] | None = None, **options: Any) -> httpx.Response:
        """Ask the API; return what it answers if that is a success or *allowed*."""
        import httpx

        token = self._token or _account("token")  # read each time: Kubernetes replaces it
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with self._opening:
            client = self._client
        try:
            answer = client.request(method, path, headers=headers, **options)
        except httpx.TransportError as problem:
            raise ExecutorUnavailable(
                "executor_away", executor=self.name, problem=str(problem) or repr(problem)
            ) from None
        if answer.is_success or answer.status_code in (allowed or ()):
            return answer
        text = f"{answer.status_code} {answer.text[:500]}"
        if answer.status_code == 429 or answer.status_code >= 500:
            raise ExecutorUnavailable("executor_away", executor=self.name, problem=text)
        raise RuntimeError(f"Kubernetes refuses to {method} {path}: {text}")

    def close(self) -> None:
        """Close the connections; what runs there goes on."""
        self._client.close()
        del self._client


def _account(name: str) -> str:
    """Return a file of the pod's service account; empty outside a pod."""
    file = ACCOUNT / name
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _condition(status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how a Job ended; None while it has not."""
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return dict(condition)
    return None


def _terminated(pod: Mapping[str, Any]) -> dict[str, Any] | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        found = (container.get("state") or {}).get("terminated")
        if found is not None:
            return dict(found)
    return None


def _ending(terminated: Mapping[str, Any], output: Output) -> str | None:
    """Return the ending from the log, which has all of it, else from the termination message."""
    message = str(terminated.get("message") or "")
    if output.ending is not None or not message.startswith("{"):
        return output.ending
    try:
        if is_whole(message):
            return message
    except ValueError:
        return None
    known = json.loads(message)
    if known["how"] != "returned":
        return message
    return json.dumps({**known, "result": "null", "error": "the log of its pod is gone, and with it the result"})
