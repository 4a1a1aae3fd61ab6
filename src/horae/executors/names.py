"""Find an executor by the name that a job is declared with; the libraries of clusters are imported when they are used.

Jobs that say ``executor="ray"`` share one executor of this process, made from the environment. An executor with
other settings is declared as an object: ``executor=RayExecutor(num_gpus=1)``.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib import import_module
from typing import Any

from horae.errors import MissingExtra
from horae.ports.executors import RemoteExecutor

CLASSES = {
    "ray": ("horae.executors.ray", "RayExecutor"),
    "dask": ("horae.executors.dask", "DaskExecutor"),
    "kubernetes": ("horae.executors.kubernetes", "KubernetesExecutor"),
}


def executor_of(asked: Any) -> RemoteExecutor | None:
    """Return the executor of a name, or an executor as it is; None if it is neither."""
    if isinstance(asked, str):
        return _named(asked) if asked in CLASSES else None
    return asked if isinstance(asked, RemoteExecutor) else None


@cache
def _named(name: str) -> RemoteExecutor:
    module, kind = CLASSES[name]
    made: RemoteExecutor = getattr(import_module(module), kind)()
    return made


def need_module(module: str, extra: str) -> None:
    """Refuse to go on without a library that an extra brings, without importing it."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra("executor_extra_missing", executor=extra, module=module, extra=extra)
