"""A store that fails on purpose: everything else is the real one."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from horae import Horae
from horae.ports.world import World


class FickleStore:
    """Asks *trouble* before each call; what it returns is raised instead."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.trouble: dict[str, Callable[..., Exception | None]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if not callable(real):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.calls[name] += 1
            problem = self.trouble[name](*args) if name in self.trouble else None
            if problem is not None:
                raise problem
            return real(*args, **kwargs)

        return call


def fickle_world(app: Horae) -> tuple[World, FickleStore]:
    """The application's own world with a store that can be made to fail."""
    store = FickleStore(app.world.store)
    return replace(app.world, store=store), store
