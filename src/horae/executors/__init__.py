"""Run handlers outside the worker: on Ray, on Dask, as Kubernetes Jobs, or by an executor of your own."""

from typing import TYPE_CHECKING, Any

from horae.errors import ExecutorUnavailable
from horae.ports.executors import Handle, RemoteCall, RemoteEnding, RemoteExecutor, RemoteStatus

if TYPE_CHECKING:
    from horae.executors.container import Output
    from horae.executors.dask import DaskExecutor
    from horae.executors.kubernetes import KubernetesExecutor
    from horae.executors.ray import RayExecutor
    from horae.executors.remote_side import run_call

_LATER = {
    "DaskExecutor": "dask",
    "KubernetesExecutor": "kubernetes",
    "Output": "container",
    "RayExecutor": "ray",
    "run_call": "remote_side",
}

__all__ = [
    "DaskExecutor", "ExecutorUnavailable", "Handle", "KubernetesExecutor", "Output", "RayExecutor", "RemoteCall",
    "RemoteEnding", "RemoteExecutor", "RemoteStatus", "run_call",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what runs elsewhere on first use: most processes need none of it."""
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"horae.executors.{_LATER[name]}"), name)
