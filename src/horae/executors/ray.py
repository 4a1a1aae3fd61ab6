"""Run handlers on a Ray cluster, each in an actor of its own that outlives the worker which made it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from horae.core.time.spans import Span, span
from horae.executors.bridge import Bridge
from horae.executors.names import need_module
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteStatus

KEEP = timedelta(hours=1)
ASK = 30.0  # seconds for an answer; the first one also loads Ray
STOP = 25.0  # seconds for an actor to end


class RayExecutor:
    """Run calls as detached actors of Ray.

    *address* is that of the cluster; else ``RAY_ADDRESS``, else the one of this host. What an actor reserves is said
    by *num_cpus*, *num_gpus* and *resources*, and *runtime_env* is handed to Ray. A call about which no worker has
    asked for *keep* ends and is forgotten.
    """

    name = "ray"

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: str = "horae",
        num_cpus: float | None = 1,
        num_gpus: float | None = None,
        resources: Mapping[str, float] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        keep: Span = KEEP,
    ) -> None:
        options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": resources, "runtime_env": runtime_env}
        self._namespace = namespace
        self._bridge = Bridge(
            self.name,
            "horae.executors.ray_driver",
            {
                "address": address,
                "namespace": namespace,
                "keep": span(keep).total_seconds(),
                "options": {name: value for name, value in options.items() if value is not None},
            },
        )

    def check(self) -> None:
        """Refuse to go on where Ray is not installed."""
        need_module("ray", "ray")

    def submit(self, call: RemoteCall) -> Handle:
        self._bridge.ask("submit", ASK, name=call.name, document=call.document)
        return {"name": call.name, "namespace": self._namespace}

    def look(self, handle: Handle) -> RemoteStatus:
        return RemoteStatus(**self._bridge.ask("look", ASK, name=handle["name"], namespace=handle["namespace"]))

    def wait(self, handle: Handle, limit: timedelta) -> RemoteStatus:
        seconds = limit.total_seconds()
        place = {"name": handle["name"], "namespace": handle["namespace"]}
        return RemoteStatus(**self._bridge.ask("wait", seconds + ASK, seconds=seconds, **place))

    def cancel(self, handle: Handle) -> None:
        self._bridge.ask("cancel", ASK, name=handle["name"], namespace=handle["namespace"], seconds=STOP)

    def collect(self, handle: Handle) -> RemoteEnding:
        found = self._bridge.ask("collect", ASK, name=handle["name"], namespace=handle["namespace"])
        lines = tuple((level, text) for level, text in found.pop("lines"))
        return RemoteEnding(**found, lines=lines)

    def close(self) -> None:
        """Leave the cluster; what runs there goes on."""
        self._bridge.close()
