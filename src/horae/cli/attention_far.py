"""``horae attention`` behind a service: each verb asks it, and answers with the values that the near verb would.

The service knows by the token who acts, so *actor* is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from horae.cli.attention_showing import Shape
from horae.cli.attention_verbs import Told
from horae.client.client import Client
from horae.clock import SystemClock

TABLES = {"task": "tasks", "wait": "waits", "event": "events", "fact": "facts"}


class FarLanes:
    """Lanes of a service."""

    def __init__(self, client: Client) -> None:
        self._attention = client.attention
        self._clock = SystemClock()

    def now(self) -> datetime:
        return self._clock.now()

    def lanes(self, owner: str | None, limit: int | None) -> list[Shape]:
        return [each.raw for each in self._attention.lanes(owner=owner, limit=limit)]

    def view(self, lane: str, owner: str | None) -> Shape:
        view = self._attention.get(lane, owner=owner).raw
        waits = [wait for each in view["waiting"] for wait in each["waits"]]
        if any(wait["kind"] == "confirm" for wait in waits):
            asked = self._asked(lane, owner)
            for wait in waits:
                wait.update(asked.get(wait["id"], {}))
        return view

    def task(self, lane: str, owner: str | None, task_id: str) -> Shape:
        task = self._attention.task(lane, task_id, owner=owner).raw
        asked = self._asked(lane, owner) if task["state"] == "waiting" else {}
        waits = self._attention.waits(lane, owner=owner, limit=1000) if task["state"] == "waiting" else ()
        return task | {"waits": [each.raw | asked.get(each.id, {}) for each in waits if each.task == task_id]}

    def _asked(self, lane: str, owner: str | None) -> dict[int, Shape]:
        return {each.id: each.raw for each in self._attention.confirmations(lane, owner=owner, limit=1000)}

    def add(self, lane: str, owner: str | None, kind: str, payload: Any, **options: Any) -> Shape:
        told = {name: value for name, value in options.items() if name not in ("actor", "key", "delay")}
        made = self._attention.add(
            lane, kind, payload, owner=owner, idempotency_key=options["key"], delay_sec=options["delay"], **told
        )
        return {"task": made.raw, "created": None if options["key"] else True}

    def post(
        self, lane: str, owner: str | None, key: str, data: Mapping[str, Any], *, event_id: str | None, actor: str
    ) -> Shape:
        posted = self._attention.post(lane, key, data, event_id=event_id, owner=owner)
        return {"event": posted.raw, "is_new": None if event_id else True}

    def cancel(self, lane: str, owner: str | None, task_id: str, *, reason: str, graceful: bool, actor: str) -> Shape:
        return self._attention.cancel(lane, task_id, reason=reason, graceful=graceful, owner=owner).raw

    def confirm(self, lane: str, owner: str | None, wait: int, approve: bool, *, reason: str, actor: str) -> Shape:
        return self._attention.confirm(lane, wait, approve, reason=reason, owner=owner).raw

    def journal(self, lane: str, owner: str | None, *, since: int, limit: int, task_id: str | None) -> list[Shape]:
        found = self._attention.journal(lane, since=since, limit=limit, task=task_id, owner=owner)
        return [each.raw for each in found.lines]

    def at(self, lane: str, owner: str | None, seq: int) -> Told:
        then = self._attention.at(lane, seq, owner=owner).raw
        return {
            table: {int(number.removeprefix("t")): row for number, row in then[name].items()}
            for table, name in TABLES.items()
        }

    def verify(self, lane: str, owner: str | None) -> Shape:
        return self._attention.verify(lane, owner=owner).raw

    def on_hints(self, listener: Callable[[], None]) -> Callable[[], None]:
        """A service is asked every second; it has no hints for a terminal."""
        return lambda: None
