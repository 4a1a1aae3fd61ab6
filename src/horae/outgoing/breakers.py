"""The circuit breakers of this process: one for each owner and target, the least used forgotten first.

Each owner has circuits of their own, so that no owner can close a target to others by making it fail.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

from horae.core.outgoing.circuits import Circuit, Patience, after_failure, after_nothing, after_success, request_call

MOST_CIRCUITS = 10_000


class Breakers:
    """Remembers how targets fared. Used from one event loop; nothing here waits."""

    def __init__(self, patience: Patience | None = None, most: int = MOST_CIRCUITS) -> None:
        self._patience, self._most = patience or Patience(), most
        self._circuits: OrderedDict[tuple[str, str], Circuit] = OrderedDict()

    def ask(self, key: tuple[str, str], now: datetime) -> timedelta | None:
        """Return None when the target may be called, else how long to leave it alone."""
        circuit, wait = request_call(self._get(key), self._patience, now=now)
        self._put(key, circuit)
        return wait

    def succeeded(self, key: tuple[str, str]) -> None:
        self._put(key, after_success(self._get(key)))

    def failed(self, key: tuple[str, str], now: datetime) -> None:
        self._put(key, after_failure(self._get(key), self._patience, now=now))

    def broken_off(self, key: tuple[str, str], now: datetime) -> None:
        """Record a call that was let through and says nothing about the target."""
        self._put(key, after_nothing(self._get(key), now=now))

    def state(self, key: tuple[str, str]) -> str:
        return self._get(key).state

    def _get(self, key: tuple[str, str]) -> Circuit:
        return self._circuits.get(key, Circuit())

    def _put(self, key: tuple[str, str], circuit: Circuit) -> None:
        self._circuits.pop(key, None)
        if circuit != Circuit():  # a healthy target needs no memory
            self._circuits[key] = circuit
        while len(self._circuits) > self._most:
            self._circuits.popitem(last=False)
