"""Check the timeouts of an engine that the application made itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from sqlalchemy import Engine

from horae.doctor.findings import Finding, ok, warning
from horae.stores.opening import missing_limits

PATIENCE = 5.0  # seconds for the engine to show us a connection
MEND = 'Horae("postgresql://…") instead of Horae(engine), or give its connections limits'


def limits(engine: Engine, name: str, patience: float = PATIENCE) -> Iterator[Finding]:
    """Inspect one connection of the engine, in a thread, because connecting may hang."""
    answer: list[list[str] | Exception] = []

    def inspect() -> None:
        try:
            answer.append(missing_limits(engine))
        except Exception as trouble:
            answer.append(trouble)

    thread = threading.Thread(target=inspect, name="horae-doctor", daemon=True)
    thread.start()
    thread.join(patience)
    match answer:
        case []:
            yield warning("timeouts", "engine_gave_nothing", MEND, app=name, patience=patience)
        case [Exception() as trouble]:
            yield warning("timeouts", "engine_refused", app=name, problem=type(trouble).__name__)
        case [[]]:
            yield ok("timeouts", "engine_well", app=name)
        case [[*missing]]:
            yield warning("timeouts", "engine_without_limits", MEND, app=name, missing=missing)
