"""Users' own scheduled tasks: document 001's words on one side, a schedule on the other.

A task is a schedule whose key begins with ``task_``. What a user asks for is a wish; a wish and the task as it was
make a plan: the schedule to store, its first fire, and what the user should know.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from horae.core.attention.lanes import lane_name
from horae.core.attention.task import NORMAL, base_priority
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM, WEBHOOK, Job, Run
from horae.core.jobs.payloads import label, name
from horae.core.jobs.reasons import UNKNOWN, Reason, explained
from horae.core.jobs.retry import Retry
from horae.core.outgoing.dispatch import Routing, drop_routing, question
from horae.core.outgoing.targets import Rules
from horae.core.outgoing.webhooks import check_webhook
from horae.core.scheduled_tasks.rules import (
    PREFIX,
    apply_shortest_interval,
    day_match_of,
    explain_interval,
    expression_of,
    is_task,
)
from horae.core.schedules.schedule import Kind, Schedule
from horae.core.time.instants import EPOCH, MICROSECOND, from_iso, iso
from horae.core.time.readings import instant_from, second_of
from horae.core.time.zones import zone_named
from horae.errors import Forbidden, InvalidInput, InvalidPayload

TaskType = Literal["cron", "interval", "once"]
DayMatch = Literal["and", "or"]
ID_LENGTH = 32
KINDS: dict[str, Kind] = {"cron": "cron", "interval": "every", "once": "once"}
TYPES: dict[str, TaskType] = {"cron": "cron", "every": "interval", "once": "once"}
NAME = "Scheduled Task"
LONGEST_NAME = 200
LONGEST_ZONE = 64
RETRY = Retry.fixed(60, attempts=5)  # S1-28, with the cap of C-11 and C-30
DISPATCH, ATTEND = "dispatch", "attend"
ATTENDED = ("lane", "kind", "payload", "priority")
RESERVED = ("ctx", "self")  # what a handler's own parameters are called
NO_HANDLER = "There is no handler"
BY_KEY = "request"  # the source of this "value" is the hash of the request that made the task
_ID = re.compile(rf"{PREFIX}[0-9a-f]{{{ID_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator decided about tasks."""

    shortest: timedelta = timedelta(seconds=10)  # S1-32
    max_enabled: int = 20  # S1-33; 0: as many as they like
    handler: str = DISPATCH
    handlers: tuple[str, ...] = (DISPATCH, WEBHOOK)
    known: Collection[str] | None = None  # the handlers that exist; None if unknown here
    queues: Mapping[str, str] = field(default_factory=dict)  # by handler, where that is not "default"
    only_queues: Collection[str] = ()  # what the caller's token is limited to; none named means any


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks for; None: as it was, or as is usual."""

    name: str | None = None
    enabled: bool | None = None
    schedule_type: str | None = None
    schedule_expr: str | int | None = None
    timezone: str | None = None
    payload: Mapping[str, Any] | None = None
    next_run_at: str | None = None
    handler: str | None = None
    day_match: str | None = None  # cron: whether day and weekday must both match (C-1)
    lenient: bool | None = None  # cron: whether names, 7 for Sunday and the like are read (C-2)


@dataclass(frozen=True, slots=True)
class Plan:
    """What follows from a wish."""

    schedule: Schedule
    first: datetime | None  # the next fire, where it does not follow from the rule alone
    arms: bool  # it was off and is on now, so it counts against the quota
    retimed: bool  # whatever waits for the old times must not run any more
    warnings: tuple[Reason, ...]
    about_payload: tuple[Reason, ...] = ()  # which of the warnings are about the payload, and say nothing of times


Timed = tuple[Schedule, datetime | None, bool]  # the schedule, its first fire where one was named, whether it moved


@dataclass(frozen=True, slots=True)
class Facts:
    """A task and what is known about its runs."""

    schedule: Schedule
    live: tuple[Job, ...] = ()  # waiting or running, the oldest first
    last: Run | None = None
    shortest: timedelta = timedelta(0)  # the least interval at which it may run

    @property
    def effective(self) -> Schedule:
        """The schedule at which it runs (S1-29)."""
        return apply_shortest_interval(self.schedule, self.shortest)

    @property
    def notices(self) -> tuple[Reason, ...]:
        """What its user should know whenever the task is shown."""
        text = explain_interval(self.schedule, self.shortest)
        return () if text is None else (text,)

    @property
    def running(self) -> Job | None:
        return next((job for job in self.live if job.state == "running"), None)

    @property
    def waiting(self) -> Job | None:
        return min((job for job in self.live if job.state == "queued"), key=lambda job: job.run_at, default=None)

    @property
    def is_over(self) -> bool:
        """Whether a once task has had its run, in whatever way that ended."""
        own = any(not by_hand(job) for job in self.live)
        return self.schedule.kind == "once" and self.schedule.is_spent and not own

    @property
    def enabled(self) -> bool:
        return self.schedule.is_on and not self.is_over

    @property
    def next_run_at(self) -> datetime | None:
        """When it runs next: a retry that waits, or the next fire."""
        waits = [] if self.waiting is None else [self.waiting.run_at]
        if self.schedule.kind != "once":
            return min(
                [*waits, *([] if self.schedule.next_fire_at is None else [self.schedule.next_fire_at])], default=None
            )
        if self.is_over:
            return min(waits, default=None)
        return from_iso(self.schedule.expression) if not self.schedule.is_spent else min(waits, default=None)

    @property
    def reason(self) -> Reason | None:
        """Why it does not run although its user may expect it to."""
        schedule = self.schedule
        if schedule.inactive is not None:
            return Reason("inactive", "task_inactive", {"because": schedule.inactive})
        if schedule.paused_at is not None:
            by, at = schedule.paused_by or UNKNOWN, iso(schedule.paused_at)
            return explained("paused", "task_paused", schedule.pause_reason, by=by, paused_at=at)
        if not self.is_over:
            return None
        if self.last is None or self.last.outcome == "succeeded":
            return Reason("over", "task_ran", {"expression": schedule.expression})
        error = self.last.error or self.last.outcome
        return Reason("over", "task_given_up", {"attempt": self.last.attempt, "error": error})


def named_first(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the first run of a task that its user has named and that lies ahead, whatever its rule says."""
    starts_at = schedule.starts_at
    return starts_at if is_task(schedule) and starts_at is not None and starts_at > now else None


def by_hand(job: Job) -> bool:
    """Return whether a run was triggered by hand: such a run is not retried, one by the clock is."""
    return job.max_attempts == 1


def is_task_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def id_for(owner: str, key: str) -> str:
    """Return the id of the task that a tenant's idempotency key makes: the same key, the same id."""
    digest = hashlib.sha256(json.dumps([owner, key]).encode()).hexdigest()
    return PREFIX + digest[:ID_LENGTH]


def blank(task_id: str, owner: str = SYSTEM) -> Schedule:
    """Return a task before anything was said about it."""
    return Schedule(task_id, "", "cron", "", owner=owner, title=NAME, retry=RETRY)


def plan(before: Facts, wish: Wish, terms: Terms, rules: Rules, now: datetime) -> Plan:
    """Return what a wish makes of a task; whatever cannot be granted is refused in words for its user."""
    was = before.schedule
    is_new = was.number == 0
    warnings: list[Reason] = []
    about_payload: Sequence[Reason] = ()
    handler = _handler(wish.handler or was.handler or terms.handler, terms)
    zone = was.zone if wish.timezone is None else _zone(wish.timezone)
    draft = replace(
        was,
        title=was.title if wish.name is None else _name(wish.name),
        handler=handler,
        queue=terms.queues.get(handler) or (was.queue if handler == was.handler else "default"),
        zone=zone,
        kind=was.kind if wish.schedule_type is None else _kind(wish.schedule_type),
        day_match=was.day_match if wish.day_match is None else cast(DayMatch, day_match_of(wish.day_match)),
        lenient=was.lenient if wish.lenient is None else wish.lenient,
        inactive=_inactive(was, handler, terms),
    )
    if wish.enabled is not None:
        draft = replace(draft, enabled=wish.enabled, toggled=None)
    elif before.is_over:
        draft = replace(draft, enabled=False, toggled=None)
    if is_new or wish.payload is not None or handler != was.handler:
        payload, about_payload = check_payload(handler, was.payload if wish.payload is None else wish.payload, rules)
        draft, warnings = replace(draft, payload=payload), [*about_payload]
    asked = None if wish.next_run_at is None else _asked(wish.next_run_at.strip(), zone, warnings)
    was_on = before.enabled and not is_new
    expr = _asked_rule(was, draft, wish)
    if expr is not None:
        draft = replace(draft, expression=expression_of(draft, expr, terms.shortest, warnings))
    if terms.only_queues and draft.queue not in terms.only_queues:
        raise Forbidden("task_queue_not_served", handler=handler, queue=draft.queue, queues=sorted(terms.only_queues))
    if draft.kind == "once":
        schedule, first, retimed = _once(was, draft, asked, was_on, now, warnings)
    else:
        schedule, first, retimed = _rhythm(was, draft, asked, was_on, now, warnings, terms.shortest)
    return Plan(schedule, first, schedule.is_on and not was_on, retimed, tuple(warnings), tuple(about_payload))


def _asked_rule(was: Schedule, draft: Schedule, wish: Wish) -> str | None:
    """Return the text of a rule that must be read anew; None where the stored one stays as it is.

    A task that is sent back as it was read stays as it is, also where the operator allows only longer intervals by now.
    """
    if draft.kind == "once":
        return None
    is_same_kind = was.number != 0 and draft.kind == was.kind
    expr = None if wish.schedule_expr is None else str(wish.schedule_expr).strip()
    if not is_same_kind:
        return expr or ""
    if draft.kind == "cron" and (draft.day_match, draft.lenient) != (was.day_match, was.lenient):
        return was.expression if expr is None else expr
    return None if expr == was.expression else expr


def _once(
    was: Schedule, draft: Schedule, asked: datetime | None, was_on: bool, now: datetime, warnings: list[Reason]
) -> Timed:
    """Return a single instant: the one that is asked for, or the one it had, as long as that lies ahead."""
    stored = from_iso(was.expression) if was.kind == "once" else None
    arms = draft.is_on and not was_on
    if asked is None and stored is None:
        raise InvalidInput("next_run_at_missing")
    if asked is None and arms and stored is not None and (was.is_spent or stored <= now):
        raise InvalidInput("next_run_at_passed", next_run_at=iso(stored))
    anew = asked is not None and (asked != stored or arms)
    at = asked or stored or now
    if anew and at <= now:
        warnings.append(Reason("late", "runs_at_once", {"next_run_at": iso(at)}))
        at = at if was.last_fire_at is None or at > was.last_fire_at else max(now, was.last_fire_at + MICROSECOND)
    timed = replace(draft, expression=iso(at), starts_at=None, max_fires=1, overlap="queue_one")
    if anew:
        timed = replace(timed, fire_count=0)
    retimed = anew or draft.is_on != was_on
    return timed, at if retimed and not timed.is_spent else None, retimed


def _rhythm(
    was: Schedule,
    draft: Schedule,
    asked: datetime | None,
    was_on: bool,
    now: datetime,
    warnings: list[Reason],
    shortest: timedelta,
) -> Timed:
    """Cron or interval: from the instant that is asked for, or by the rule from now on."""
    same_rule = was.number != 0 and (draft.kind, draft.expression) == (was.kind, was.expression)
    if draft.kind == "cron":
        own, old = ((each.zone, each.day_match, each.lenient) for each in (draft, was))
        same_rule = same_rule and own == old
    draft = replace(draft, max_fires=None, overlap="skip")
    if asked is None and same_rule and draft.is_on == was_on:
        return draft, None, False
    if asked is None and same_rule and was.starts_at is not None and was.starts_at > now:
        asked = was.starts_at  # its first run was named and has not come yet
    if asked is None and draft.kind == "every":
        asked = now + timedelta(
            seconds=int(apply_shortest_interval(draft, shortest).expression)
        )  # S1-29: after + seconds
    if asked is not None and asked <= now:
        warnings.append(Reason("late", "runs_at_once", {"next_run_at": iso(asked)}))
        asked = now if was.last_fire_at is None else max(now, was.last_fire_at + MICROSECOND)
    return replace(draft, starts_at=asked), asked, True


def check_payload(handler: str, payload: Mapping[str, Any], rules: Rules) -> tuple[dict[str, Any], Sequence[Reason]]:
    """Return the payload as it is stored, and what the user should know about it."""
    taken = next((key for key in RESERVED if key in payload), None)
    if taken is not None:
        raise InvalidPayload("payload_key_reserved", key=taken)
    if handler == WEBHOOK:
        check_webhook(payload, rules)
    if handler == ATTEND:
        check_attended(payload)
    if handler != DISPATCH:
        return dict(payload), ()
    kept, warnings = drop_routing(payload)
    try:
        question(kept, Routing(), {})
    except InvalidPayload as problem:
        warnings = [*warnings, Reason("payload", "runs_will_fail", {"problem": str(problem)})]
    return kept, warnings


def check_attended(payload: Mapping[str, Any]) -> None:
    """Return what an agent is to attend to: each run adds one such task to its lane."""
    unknown = next((key for key in payload if key not in ATTENDED), None)
    if unknown is not None:
        raise InvalidPayload("payload_key_unknown", handler=ATTEND, key=unknown, choices=list(ATTENDED))
    for key in ("lane", "kind"):
        if key not in payload:
            raise InvalidPayload("payload_key_missing", handler=ATTEND, key=key)
    lane_name(payload["lane"])
    name(payload["kind"], "kind of task")
    base_priority(payload.get("priority", NORMAL))


def _asked(text: str, zone: str, warnings: list[Reason]) -> datetime:
    """C-7: without an offset it is a time of the task's own zone."""
    moment = instant_from(text, zone, "next_run_at")
    second = second_of(text, zone)
    if second is not None:
        facts = {"text": text, "zone": zone, "first": iso(moment), "second": iso(second)}
        warnings.append(Reason("clock", "comes_twice", facts))
    if moment < EPOCH:
        raise InvalidInput("next_run_at_too_early", text=text)
    return moment


def _name(text: str) -> str:
    return label(text.strip() or NAME, "name", LONGEST_NAME)


def _zone(name: str) -> str:
    if len(name) > LONGEST_ZONE:
        raise InvalidInput("zone_name_too_long", length=len(name))
    zone_named(name)
    return name


def _kind(word: str) -> Kind:
    if word not in KINDS:
        raise InvalidInput("choice_unknown", name="schedule_type", value=word, choices=list(KINDS))
    return KINDS[word]


def _handler(name: str, terms: Terms) -> str:
    if name not in terms.handlers:
        raise InvalidInput("handler_not_for_tasks", handler=name, choices=list(terms.handlers))
    return name


def _inactive(was: Schedule, handler: str, terms: Terms) -> str | None:
    """C-15: a task that names a handler that is not there is kept, and says so."""
    if terms.known is not None and handler not in terms.known:
        return f"{NO_HANDLER} {handler!r} here; save the task again once there is."
    is_ours = was.inactive is not None and was.inactive.startswith(NO_HANDLER)
    return None if is_ours and terms.known is not None else was.inactive
