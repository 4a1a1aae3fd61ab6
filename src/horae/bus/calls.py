"""What workers call over the bus: the operations of a worker's side, in the name of the house, fenced by the verbs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from horae.actions.jobs.held_jobs import Ending, Hold, Settled, recognise
from horae.api.jobs.held import Heartbeat
from horae.api.problems import to_problem
from horae.api.values import Unreadable, from_json, to_json
from horae.bus.enqueues import enqueue
from horae.bus.rooms import Rooms
from horae.core.dispatch import ENQUEUES, BusCall
from horae.errors import HandlerFailed, HoraeError, InvalidInput, StoreError
from horae.runtime.worker.tracebacks import error_line

log = logging.getLogger("horae.bus")
MOST_ENDINGS = 500  # in one transaction
# Arguments that are values of their own; what is not named here is JSON as it is.
VALUES: Mapping[str, Any] = {"endings": tuple[Ending, ...], "holds": tuple[Hold, ...], "worker": Heartbeat}
PLAIN: Mapping[str, type] = {"job_id": str, "token": int, "name": str, "worker_id": str, "node_id": str, "cost": dict}
Answer = dict[str, Any]  # "value" or "problem"


def perform(rooms: Rooms, calls: Sequence[BusCall]) -> list[Answer | None]:
    """Perform calls; answer each, None for one that has to be tried again because the store did not answer.

    Endings of several workers are written in one transaction. An error of one call stops no other.
    """
    settling = [each for each in calls if each.name == "settle"]
    together = _settle_together(rooms, settling) if len(settling) > 1 else {}
    return [together.get(id(each)) or _answer(rooms, each) for each in calls]


def _answer(rooms: Rooms, call: BusCall) -> Answer | None:
    try:
        return {"value": to_json(_perform(rooms, call))}
    except StoreError as problem:
        log.warning("a call of the bus waits for the store: %s", problem)
        return None if call.name == "settle" else {"problem": to_problem(problem)}
    except HoraeError as problem:
        return {"problem": to_problem(problem)}
    except Exception as problem:  # one worker's message must not stop the relay
        log.exception("the call %s of %s failed", call.name, call.to)
        return {"problem": to_problem(HandlerFailed("bus_call_failed", problem=error_line(problem)))}


def _perform(rooms: Rooms, call: BusCall) -> Any:
    if call.name in ENQUEUES:
        return enqueue(rooms, call)
    arguments = read_arguments(rooms, call)
    if call.name == "settle":
        return _settle(rooms, arguments["endings"])
    return _operation(rooms, call.name)(**arguments)


def _operation(rooms: Rooms, name: str) -> Any:
    room = {"store_definitions": rooms.admin, "peek": rooms.looks}.get(name, rooms.jobs)
    return getattr(room, name)


def read_arguments(rooms: Rooms, call: BusCall) -> dict[str, Any]:
    """Return the arguments of a call as its operation takes them; refuse what does not fit."""
    try:
        inspect.signature(_operation(rooms, call.name)).bind(rooms, **call.arguments)  # with its self
        read = {name: from_json(VALUES[name], raw) if name in VALUES else raw for name, raw in call.arguments.items()}
    except HoraeError:
        raise
    except (TypeError, ValueError, AttributeError, Unreadable) as problem:
        raise InvalidInput("bus_arguments_unreadable", call=call.name, problem=str(problem)) from None
    holds = [*read.get("endings", ()), *read.get("holds", ())]
    named = [*((name, read[name], PLAIN[name]) for name in PLAIN if read.get(name) is not None)]
    named += [each for hold in holds for each in (("job_id", hold.job_id, str), ("token", hold.token, int))]
    for name, value, kind in named:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InvalidInput("bus_message_unreadable", field=name)
    return read


def _settle(rooms: Rooms, endings: Sequence[Ending]) -> list[Settled]:
    """End attempts. An ending that the store has already, because its message came twice, is answered as it was."""
    settled = rooms.jobs.settle(endings)
    return recognise(rooms.world, endings, settled)


def _settle_together(rooms: Rooms, calls: Sequence[BusCall]) -> dict[int, Answer]:
    """Write the endings of several calls in one transaction; what does not fit is left to be answered by itself."""
    read: dict[int, Sequence[Ending]] = {}
    seen: set[str] = set()
    count = 0
    for call in calls:
        try:
            endings = read_arguments(rooms, call)["endings"]
        except HoraeError:
            continue
        jobs = {each.job_id for each in endings}
        if not jobs or jobs & seen or count + len(endings) > MOST_ENDINGS:
            continue
        read[id(call)], count = endings, count + len(endings)
        seen |= jobs
    try:
        settled = iter(_settle(rooms, [each for endings in read.values() for each in endings]) if read else ())
    except (HoraeError, ValueError, TypeError):  # one of them cannot be written; each is answered by itself
        return {}
    return {at: {"value": to_json([next(settled) for _ in endings])} for at, endings in read.items()}
