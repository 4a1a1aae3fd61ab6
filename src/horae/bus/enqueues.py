"""Jobs that workers on the bus enqueue: read as the HTTP API reads them, stored in the same room.

A message may come twice, because a stream sends again what was not acknowledged, and because its caller repeats a call
whose answer did not come. So a call carries a key, its caller's or one of its own: the second time finds the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from horae.actions.jobs.requests import Request, keyed_by_call
from horae.api.jobs.room import NOT_SENT, options_of
from horae.api.values import Unreadable, from_json
from horae.bus.rooms import Rooms
from horae.core.dispatch import BusCall
from horae.core.jobs.payloads import label
from horae.errors import HoraeError, InvalidInput

MOST = 1000  # jobs in one call
TEXTS = (
    "handler", "queue", "priority", "key", "unique", "concurrency_key", "trace_id", "object_type", "object_id",
    "action", "on_parent_dead", "expect", "budget", "shard_key",
)  # fmt: skip
LISTS = ("tags", "after")


def enqueue(rooms: Rooms, call: BusCall) -> Any:
    """Store one job, or several: all of them, or, when one is refused, none."""
    given = call.arguments
    if call.name == "enqueue":
        return rooms.jobs.enqueue(**options_of(_request(call, given)))
    asked = given.get("jobs")
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST:
        raise InvalidInput("bus_message_unreadable", field="jobs")
    requests, key = [_request(call, each) for each in asked], given.get("key")
    return rooms.jobs.enqueue_many(requests if key is None else keyed_by_call(requests, label(key, "key")))


def _request(call: BusCall, raw: Any) -> Request:
    """Read a request as it travels; refuse what does not fit, and what a caller does not decide."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("handler"), str):
        raise InvalidInput("bus_message_unreadable", field="handler")
    for name in raw:
        if name in NOT_SENT:
            raise InvalidInput("bus_message_unreadable", field=name)
    for name in TEXTS:
        if raw.get(name) is not None and not isinstance(raw[name], str):
            raise InvalidInput("bus_message_unreadable", field=name)
    for name in LISTS:
        if not isinstance(raw.get(name, []), list) or not all(isinstance(each, str) for each in raw.get(name, [])):
            raise InvalidInput("bus_message_unreadable", field=name)
    try:
        read: Request = from_json(Request, raw)
    except HoraeError:
        raise
    except (TypeError, ValueError, AttributeError, Unreadable) as problem:
        raise InvalidInput("bus_arguments_unreadable", call=call.name, problem=str(problem)) from None
    return read
