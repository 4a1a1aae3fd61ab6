"""To which relay a call of a worker goes.

A call about a job goes to the relay of the database that sent the job, so that a database that is away or hangs holds
up no other's. Where that relay is silent it goes to the one that serves who names none, which follows the map. Without
a cluster every call names none.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from horae.core.dispatch import ANY
from horae.errors import BusUnavailable
from horae.runtime.sources.relays import Relays

KNOWN = 10_000  # jobs whose relay is known; calls about others name none
FALLBACK = 1.0  # seconds for an answer about a job whose own relay is silent
LOOK = 2.0  # seconds for the look at one of several databases
LISTS = {"renew": "holds", "settle": "endings"}  # calls about several jobs, and the argument that names them
Answer = dict[str, Any]


class Send(Protocol):
    async def __call__(
        self, name: str, arguments: Mapping[str, Any], relay: str | None, limit: float, *, waits: bool = True
    ) -> Answer:
        """Call a relay and return its answer; ``BusUnavailable`` when none came, or *waits* for none is false."""


class Routes:
    """The way of each call; for one thread."""

    def __init__(self, relays: Relays, send: Send) -> None:
        self._relays, self._send = relays, send
        self._relay_of: OrderedDict[str, str] = OrderedDict()

    def hold(self, job_id: str, relay: Any) -> None:
        """Note which relay has sent a job."""
        if isinstance(relay, str):
            self._relay_of[job_id] = relay
            self._relay_of.move_to_end(job_id)
            while len(self._relay_of) > KNOWN:
                self._relay_of.popitem(last=False)

    async def call(self, name: str, arguments: Mapping[str, Any], limit: float) -> Answer:
        """Call whom it concerns; ``BusUnavailable`` when no answer came within *limit* seconds."""
        if not self._relays.are_known:
            return await self._send(name, arguments, None, limit)
        if name == "peek":
            return await self._look_everywhere(arguments, limit)
        if name in LISTS and isinstance(arguments.get(LISTS[name]), Sequence):
            return await self._divide(name, arguments, limit)
        if "job_id" not in arguments:
            return await self._send(name, arguments, self._relays.next_live(), limit)
        relay = self._relay_of.get(str(arguments["job_id"]))
        live = relay if relay is not None and self._relays.is_live(relay) else None
        return await self._send(name, arguments, live, limit)

    # -- calls about several jobs ------------------------------------------------------------------------------------

    async def _divide(self, name: str, arguments: Mapping[str, Any], limit: float) -> Answer:
        """Call the relay of each job; those of one that does not answer are to be sent again."""
        items, indexes = arguments[LISTS[name]], dict[str | None, list[int]]()
        for index, item in enumerate(items):
            indexes.setdefault(self._relay_of.get(str(item.get("job_id"))), []).append(index)
        parts = [
            self._send_part(name, {**arguments, LISTS[name]: [items[index] for index in few]}, relay, limit)
            for relay, few in indexes.items()
        ]
        answers = await asyncio.gather(*parts, return_exceptions=True)
        values: dict[int, Any] = {}
        for few, answer in zip(indexes.values(), answers, strict=True):
            if isinstance(answer, BusUnavailable) and len(parts) > 1:
                answer = {"value": [_not_now(name, items[index]) for index in few]}
            if isinstance(answer, BaseException):
                raise answer
            if "value" not in answer:
                return answer
            values |= zip(few, answer["value"], strict=True)
        return {"value": [values[index] for index in range(len(items))]}

    async def _send_part(self, name: str, arguments: Mapping[str, Any], relay: str | None, limit: float) -> Answer:
        if relay is None or self._relays.is_live(relay):
            return await self._send(name, arguments, relay, limit)
        if self._relays.is_live(ANY):
            return await self._send(name, arguments, None, min(limit, FALLBACK))
        # The stream keeps it until its relay is back, and other jobs need not wait for that.
        return await self._send(name, arguments, relay, limit, waits=False)

    async def _look_everywhere(self, arguments: Mapping[str, Any], limit: float) -> Answer:
        """Look at every database whose relay is there: in each this worker is listed, and may be asked to stop jobs."""
        if not (live := self._relays.live()):
            return await self._send("peek", arguments, None, limit)
        looks = (self._send("peek", arguments, each, min(limit, LOOK)) for each in live)
        answers = await asyncio.gather(*looks, return_exceptions=True)
        found = [each["value"] for each in answers if isinstance(each, dict) and "value" in each]
        if found:
            return {"value": _merge(found)}
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return next(each for each in answers if isinstance(each, dict))


def _not_now(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer that asks for the same again."""
    if name == "settle":
        return {"job_id": item["job_id"], "accepted": False, "state": "running"}
    return {"job_id": item["job_id"], "held": False, "busy": True, "cancel_requested": False}


def _merge(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    due = [each["due_in"] for each in found if each.get("due_in") is not None]
    return {
        **found[0],
        "due_in": min(due, default=None),
        "cancelled": [job for each in found for job in each.get("cancelled", ())],
        "drain": next((each["drain"] for each in found if each.get("drain") is not None), None),
    }
