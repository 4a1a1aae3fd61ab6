"""The process that talks to Ray for a worker: it may end or hang, and is then started again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from horae.clock import SystemClock
from horae.executors.bridge import serve
from horae.executors.ray_actor import CallActor
from horae.runtime.loop import sleep_in_thread

ANSWER = 5.0  # seconds for an actor that runs; one that waits for room does not answer at all
PAUSE = 0.1  # seconds between two looks at an actor that ends
get: Any = ray.get  # its annotations say list where it returns what an actor's method returned
CONCURRENCY = 16  # questions that an actor answers at a time
GONE = {"state": "gone", "progress": None}


class Driver:
    """The five verbs, in the process that is connected to the cluster."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._configuration = configuration
        address = configuration["address"] or os.environ.get("RAY_ADDRESS") or "auto"
        ray.init(
            address=address, namespace=configuration["namespace"], log_to_driver=False, configure_logging=False
        )  # fmt: skip

    def submit(self, name: str, document: str) -> None:
        options = {**self._configuration["options"], "namespace": self._configuration["namespace"]}
        ray.remote(CallActor).options(
            name=name, lifetime="detached", get_if_exists=True, max_restarts=0, max_task_retries=0,
            max_concurrency=CONCURRENCY, **options,
        ).remote(document, self._configuration["keep"])  # fmt: skip

    def look(self, name: str, namespace: str) -> dict[str, Any]:
        return self._ask(name, namespace, lambda actor: actor.look.remote(), ANSWER)

    def wait(self, name: str, namespace: str, seconds: float) -> dict[str, Any]:
        return self._ask(name, namespace, lambda actor: actor.wait.remote(seconds), seconds + ANSWER)

    def _ask(self, name: str, namespace: str, verb: Callable[[Any], Any], limit: float) -> dict[str, Any]:
        try:
            found: dict[str, Any] = get(verb(ray.get_actor(name, namespace)), timeout=limit)
        except ValueError:  # no actor has that name
            return GONE
        except GetTimeoutError:
            return {"state": "waiting", "progress": None, "detail": "its actor does not answer; has the cluster room?"}
        except RayActorError as problem:
            return {**GONE, "detail": " ".join(str(problem).split())[:500]}
        return found

    def collect(self, name: str, namespace: str) -> dict[str, Any]:
        try:
            actor: Any = ray.get_actor(name, namespace)
            found: dict[str, Any] = get(actor.collect.remote(), timeout=ANSWER)
        except (ValueError, GetTimeoutError, RayActorError) as problem:
            return {"ending": None, "error": " ".join(str(problem).split())[:500], "lines": []}
        return found

    def cancel(self, name: str, namespace: str, seconds: float) -> None:
        try:
            actor = ray.get_actor(name, namespace)
        except ValueError:
            return
        # Ray reports a killed actor as dead before its process has ended; one that ends itself is dead once reported.
        with suppress(GetTimeoutError, RayActorError):
            get(actor.stop.remote(), timeout=ANSWER)
        ray.kill(actor, no_restart=True)  # one that waits for room, or whose handler lets no other thread run
        clock = SystemClock()
        ends_by = clock.monotonic() + seconds - ANSWER
        while _is_named(name, namespace):
            if clock.monotonic() > ends_by:
                raise TimeoutError(f"the actor {name} did not end in {seconds:g} seconds")
            sleep_in_thread(PAUSE)


def _is_named(name: str, namespace: str) -> bool:
    try:
        ray.get_actor(name, namespace)
    except ValueError:
        return False
    return True


def main(line: int, configuration: Mapping[str, Any]) -> None:
    """Serve the worker at the other end of the socket with file descriptor *line*."""
    made: list[Driver] = []
    problem = ""
    try:
        made.append(Driver(configuration))
    except Exception as raised:
        problem = f"{type(raised).__name__}: {raised}"

    def ask(verb: str) -> Callable[..., Any]:
        def answer(**arguments: Any) -> Any:
            if not made:
                raise ConnectionError(problem)
            return getattr(made[0], verb)(**arguments)

        return answer

    verbs = {verb: ask(verb) for verb in ("submit", "look", "wait", "cancel", "collect")}
    serve(line, verbs, lambda raised: isinstance(raised, ConnectionError | TimeoutError | ray.exceptions.RayError))
