"""Make the wake-ups that a session has asked for stored schedules, before its turn ends."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from horae.actions.adapters import documents
from horae.actions.schedules import schedules
from horae.app import Horae
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.core.time.cron import Cron
from horae.core.time.instants import iso
from horae.errors import Conflict, InvalidInput, NotFound
from horae.ports.schedules import ScheduleFilter

log = logging.getLogger("horae.claude")
HANDLER = "claude.wake"
REFUSED = "claude.refused"  # the kind of documents that say why a wake-up is not stored
CLIPPED_AT = 1000  # characters of a prompt that the hook brings
MARKER = re.compile(r"… \[\+\d+ chars\]$")  # what the SDK puts behind a prompt that it has clipped
MISSED = timedelta(days=1)  # so long after its instant a single wake-up that is still listed is due at once
FAR = timedelta(days=180)  # the next instant of a cron expression that means one instant, which has passed
AGAIN = Retry.fixed(60, attempts=3)
TRIES = 10  # of storing one wake-up while other hooks of its session do the same


@dataclass(frozen=True, slots=True)
class WakeUp:
    """One wake-up of a session."""

    session_id: str
    id: str
    schedule: str
    recurring: bool
    prompt: str
    clipped: bool = False
    key: str = ""  # of the schedule that stands for it; empty where it was refused
    reason: str = ""  # why it was refused

    @property
    def text(self) -> str:
        """What the session is told when it is resumed: the prompt, with the id of the wake-up."""
        cut = f" Only the first {CLIPPED_AT} characters of its prompt were kept." if self.clipped else ""
        return f"Wake-up {self.id} ({self.schedule}).{cut}\n\n{self.prompt}"


Resume = Callable[[WakeUp], Awaitable[Any]]


class WakeUps:
    """Stores wake-ups as schedules and resumes the session when one fires.

    ``WakeUps(app, resume, zone="Europe/Athens").on_stop`` is a hook for *Stop* and *SubagentStop*. *zone* is the time
    zone of the host, in which a session's cron expressions are meant. A session that cannot be resumed leaves a job
    that failed, with the reason. For hosts whose process does not live from turn to turn: in one that does, the session
    fires its own wake-ups too.
    """

    def __init__(self, app: Horae, resume: Resume, *, zone: str, owner: str = SYSTEM, queue: str = "default") -> None:
        self._app, self._resume, self._zone, self._owner, self._queue = app, resume, zone, owner, queue
        app.job(HANDLER, queue=queue, retry=AGAIN)(self._wake)

    async def on_stop(self, hook_input: Mapping[str, Any], _tool_use_id: Any = None, _context: Any = None) -> Any:
        """Store what the session's list says, before the hook answers; the answer names each row.

        The list is the whole truth: an id that is gone is removed, a known one is not doubled. Without a list nothing
        is changed.
        """
        if hook_input.get("session_crons") is None:
            return {}
        try:
            found = await asyncio.to_thread(self.store, hook_input["session_id"], hook_input["session_crons"])
        except Exception as problem:  # the SDK takes a hook that raises for one without an opinion, and goes on
            log.exception("the wake-ups of session %s are not stored", hook_input.get("session_id"))
            return _not_stored(hook_input, problem)
        return {"systemMessage": "\n".join(map(_line, found))} if found else {}

    def store(self, session_id: str, listed: Sequence[Mapping[str, Any]]) -> list[WakeUp]:
        """Make the stored wake-ups of a session those of the list; return them, also those that were refused."""
        wanted = [_read(session_id, each) for each in listed]
        found = [self._store(each) for each in wanted]
        known = {each.key for each in found}
        for schedule in self._stored(session_id):
            if schedule.key not in known:
                with suppress(NotFound):  # another hook of this session has removed it
                    schedules.delete(self._app.world, schedule.key, owner=self._owner, reason="gone from the session")
        self._keep_refusals(session_id, found)
        return found

    def of(self, session_id: str) -> list[WakeUp]:
        """Return the wake-ups of a session: those that are stored, and those that were refused with the reason."""
        stored = [WakeUp(**each.payload, key=each.key) for each in self._stored(session_id) if each.next_fire_at]
        refused = documents.find(self._app.world, self._owner, REFUSED, f"{safe_name(session_id)}:")
        return stored + [WakeUp(**each) for each in refused.values()]

    # -- the parts -----------------------------------------------------------------------------------------------

    async def _wake(
        self,
        session_id: str,
        id: str,  # noqa: A002 - a field of the payload
        schedule: str,
        recurring: bool,
        prompt: str,
        clipped: bool,
    ) -> dict[str, Any]:
        wake_up = WakeUp(session_id, id, schedule, recurring, prompt, clipped)
        answer = await self._resume(wake_up)
        return {"session_id": wake_up.session_id, "id": wake_up.id, "clipped": wake_up.clipped, "answer": answer}

    def _store(self, wanted: WakeUp) -> WakeUp:
        new = self._schedule(wanted)
        try:
            self._create_or_change(new)
        except InvalidInput as problem:
            return _with(wanted, reason=str(problem))
        return _with(wanted, key=new.key)

    def _create_or_change(self, new: Schedule) -> None:
        """Store a wake-up. The hook of a subagent that stops meanwhile may store or remove the same one: look again."""
        for _ in range(TRIES):
            with suppress(Conflict, NotFound):
                self._try_to_store(new)
                return
        self._try_to_store(new)

    def _try_to_store(self, new: Schedule) -> None:
        known = self._find(new.key)
        if known is None:
            schedules.create(self._app.world, self._at_once_where_missed(new))
        elif known.payload != new.payload:
            timed = self._at_once_where_missed(new)
            changes = {name: getattr(timed, name) for name in ("kind", "expression", "payload", "max_fires")}
            schedules.change(self._app.world, new.key, changes, owner=self._owner)

    def _at_once_where_missed(self, new: Schedule) -> Schedule:
        """Return a single wake-up whose instant has passed while its session was busy as one that is due now.

        By its cron expression it would come again in a year.
        """
        if new.max_fires is None:
            return new
        now = self._app.world.clock.now()
        rule = Cron(new.expression, self._zone, day_match="or", lenient=True)
        before, after = rule.next_after(now - MISSED), rule.next_after(now)
        if before is None or before > now or (after is not None and after - now < FAR):
            return new
        return replace(new, kind="once", expression=iso(now))

    def _find(self, key: str) -> Schedule | None:
        try:
            return schedules.get(self._app.world, key, owner=self._owner)
        except NotFound:
            return None

    def _schedule(self, wanted: WakeUp) -> Schedule:
        return Schedule(
            key=f"{_group(wanted.session_id)}:{safe_name(wanted.id)}",
            handler=HANDLER,
            kind="cron",
            expression=wanted.schedule,
            zone=self._zone,
            owner=self._owner,
            group=_group(wanted.session_id),
            payload={name: getattr(wanted, name) for name in KEPT},
            queue=self._queue,
            day_match="or",  # as in cron of old, which sessions write
            lenient=True,  # their Sunday may be 7
            max_fires=None if wanted.recurring else 1,
            retry=AGAIN,
            title=f"wake-up {wanted.id} of session {wanted.session_id}"[:200],
        )

    def _stored(self, session_id: str) -> list[Schedule]:
        wanted = ScheduleFilter(owner=self._owner, group=_group(session_id))
        return list(schedules.iterate(self._app.world, wanted))

    def _keep_refusals(self, session_id: str, found: Sequence[WakeUp]) -> None:
        prefix = f"{safe_name(session_id)}:"
        refused = {f"{prefix}{safe_name(each.id)}": each for each in found if each.reason}
        for name in documents.find(self._app.world, self._owner, REFUSED, prefix):
            if name not in refused:
                documents.remove(self._app.world, self._owner, REFUSED, name)
        for name, each in refused.items():
            body = {field: getattr(each, field) for field in (*KEPT, "reason")}
            documents.put(self._app.world, self._owner, REFUSED, name, body)


KEPT = ("session_id", "id", "schedule", "recurring", "prompt", "clipped")


def _read(session_id: str, listed: Mapping[str, Any]) -> WakeUp:
    prompt = str(listed.get("prompt") or "")
    clipped = len(prompt) > CLIPPED_AT or MARKER.search(prompt) is not None
    recurring = bool(listed.get("recurring", True))
    return WakeUp(session_id, str(listed["id"]), str(listed.get("schedule") or ""), recurring, prompt, clipped)


def _with(wake_up: WakeUp, **changes: str) -> WakeUp:
    return WakeUp(**{name: getattr(wake_up, name) for name in WakeUp.__slots__} | changes)


def safe_name(text: str) -> str:
    """Return the text where it can be part of a key, or else a digest of it."""
    fits = re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", text)
    return text if fits else hashlib.sha256(text.encode()).hexdigest()[:40]


def _group(session_id: str) -> str:
    return f"claude:{safe_name(session_id)}"


def _line(wake_up: WakeUp) -> str:
    if wake_up.reason:
        return f"Wake-up {wake_up.id} is NOT stored: {wake_up.reason}"
    cut = f"; only the first {CLIPPED_AT} characters of its prompt are kept" if wake_up.clipped else ""
    return f"Wake-up {wake_up.id} is stored as schedule {wake_up.key}{cut}."


def _not_stored(hook_input: Mapping[str, Any], problem: Exception) -> dict[str, Any]:
    """Say that nothing is stored: to the model once, so that it does not rely on it, and then to the user."""
    said = f"The wake-ups of this session are NOT stored and will be lost with this process: {problem}"
    if hook_input.get("stop_hook_active"):
        return {"systemMessage": said}
    return {"decision": "block", "reason": said}
