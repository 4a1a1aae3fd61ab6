"""Tools for schedules that put a goal into the agent's backlog each time they fire.

Each fire costs a model's turn, so there are few of them, they fire rarely, and each has an end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, StrictBool

from horae.api.schedules.values import Schedule, Timing, schedule_fields
from horae.core.attention.task import NORMAL
from horae.core.jobs.job import request_hash
from horae.core.jobs.payloads import label
from horae.core.scheduled_tasks.task import BY_KEY
from horae.core.schedules import schedule as core
from horae.core.schedules.decisions import upcoming_fires
from horae.core.time.cron import Cron
from horae.core.time.instants import from_iso, iso
from horae.errors import Conflict, InvalidInput, InvalidInterval, KeyConflict, NotFound, PastDue
from horae.mcp.arguments import Goal, Key, Moment, Priority, ScheduleId
from horae.mcp.here import AGENTS, MOST_TASKS, Here, Who
from horae.mcp.shapes import ScheduleChanged, ScheduleList, ScheduleMade, schedule_shape
from horae.mcp.tasks import KIND

ATTEND = "attend"
MOST = 20
SHORTEST = timedelta(seconds=300)
LONGEST = timedelta(days=366)
REVIEW = timedelta(days=90)  # the end of a schedule whose caller names none, so that its use is reviewed
CHECKED_FIRES = 500  # of a cron expression, for the shortest distance between two
FIRES = "It fires while a worker of this database runs"
NO_WORKER = (
    "No worker of this database runs now, so it does not fire before one does: tell the person that you work for. What "
    "it misses meanwhile is recorded, and treated as misfire says."
)


class ScheduleTools:
    """Schedules of the agent's owner."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def schedule_create(
        self,
        name: Annotated[str, Field(min_length=1, max_length=200, description="What people call it.")],
        kind: Annotated[Literal["cron", "interval", "once"], Field(description="How expr is read.")],
        expr: Annotated[
            str,
            Field(
                min_length=1,
                max_length=255,
                description="cron: five fields, `0 9 * * 1-5`; interval: seconds, 300 or more; once: an ISO time.",
            ),
        ],
        goal: Goal,
        idempotency_key: Key,
        timezone: Annotated[
            str | None,
            Field(
                pattern=r"^[A-Za-z0-9_+\-/]{1,64}$", description="IANA name such as Europe/Berlin. Required for cron."
            ),
        ] = None,
        priority: Priority = NORMAL,
        misfire: Annotated[
            Literal["fire_once", "skip"], Field(description="What was missed: run once for all of it, or not at all.")
        ] = "fire_once",
        overlap: Annotated[
            Literal["skip", "queue_one", "allow"], Field(description="What if the run before has not begun yet.")
        ] = "skip",
        ends_at: Moment = None,
        max_runs: Annotated[int | None, Field(ge=1, le=100_000, description="Or: how often it fires at most.")] = None,
    ) -> ScheduleMade:
        """Give yourself a goal again and again, or once at a later time. Without an end it ends after 90 days; create
        it anew if it is still wanted.
        """
        here, who = self._here, self._here.who()
        request: dict[str, Any] = {
            "name": name, "kind": kind, "expr": expr, "goal": goal, "timezone": timezone, "priority": priority,
            "misfire": misfire, "overlap": overlap, "ends_at": ends_at, "max_runs": max_runs,
        }  # fmt: skip
        key = self._key_for(label(idempotency_key, "idempotency key", 200), who)
        schedule, is_new = self._get_or_create(key, who, request)
        if schedule.sources.get(BY_KEY) != request_hash(request):
            raise KeyConflict(idempotency_key, key)
        works = here.has_worker
        return ScheduleMade(
            schedule_id=key,
            created=is_new,
            next_times=[in_words(each, schedule.zone) for each in self._next_fires(key, who)],
            timezone=schedule.zone,
            ends_at=None if schedule.ends_at is None else iso(schedule.ends_at),
            max_runs=schedule.max_fires,
            durable=True,
            durability=f"{here.durability}. {FIRES}, which is {'so' if works else 'not so'} now.",
            warning=None if works else NO_WORKER,
        )

    def schedule_list(self) -> ScheduleList:
        """See your schedules, and when each fires next."""
        here, who = self._here, self._here.who()
        owned = here.schedules().list(owner=who.owner, handler=ATTEND)
        of_lane = [schedule_shape(each) for each in owned if each.payload.get("lane") == here.lane]
        return ScheduleList(schedules=of_lane, most=MOST)

    def schedule_pause(self, schedule_id: ScheduleId, paused: StrictBool = True) -> ScheduleChanged:
        """Stop a schedule for a while; paused=false lets it go on. What it missed meanwhile is not made up for."""
        here, who = self._here, self._here.who()
        schedule = self._get(schedule_id, who)
        if (schedule.paused_at is not None) != paused:
            room = here.schedules()
            schedule = (room.pause if paused else room.resume)(schedule_id, owner=who.owner)
        return ScheduleChanged(
            schedule_id=schedule_id,
            state="paused" if paused else "active",
            next_run_at=None if schedule.next_fire_at is None else iso(schedule.next_fire_at),
            timezone=schedule.zone,
            durability=here.durability,
        )

    def schedule_delete(self, schedule_id: ScheduleId) -> ScheduleChanged:
        """Forget a schedule. Tasks that it has made stay. It cannot be undone."""
        here, who = self._here, self._here.who()
        zone = self._get(schedule_id, who).zone
        here.schedules().delete(schedule_id, owner=who.owner)
        return ScheduleChanged(schedule_id=schedule_id, state="deleted", timezone=zone, durability=here.durability)

    # -- the parts -----------------------------------------------------------------------------------------------

    def _key_for(self, key: str, who: Who) -> str:
        """Return the key of the schedule that an idempotency key stands for."""
        address = json.dumps([who.owner, self._here.lane, key])
        return f"agent_{hashlib.sha256(address.encode()).hexdigest()[:16]}"

    def _get_or_create(self, key: str, who: Who, request: dict[str, Any]) -> tuple[Schedule, bool]:
        """Return the schedule of that key, and whether this request made it."""
        try:
            return self._here.schedules().get(key, owner=who.owner), False
        except NotFound:
            pass
        timing = self._timing(**request)
        self._check_distance(key, timing)
        origin = replace(AGENTS, sources={BY_KEY: request_hash(request)}, most=MOST)
        try:
            return self._here.schedules(origin).create(key, owner=who.owner, **timing), True
        except Conflict as problem:  # perhaps the same request at the same time, through another connection
            try:
                return self._here.schedules().get(key, owner=who.owner), False
            except NotFound:
                raise problem from None

    def _next_fires(self, key: str, who: Who) -> Sequence[datetime]:
        return self._here.schedules().preview(key, count=3, owner=who.owner).fires

    def _get(self, schedule_id: str, who: Who) -> Schedule:
        """Return a schedule of this lane; refuse any other as unknown."""
        try:
            schedule = self._here.schedules().get(schedule_id, owner=who.owner)
        except (NotFound, InvalidInput):
            raise NotFound("agent_schedule_unknown", id=schedule_id) from None
        if schedule.handler != ATTEND or schedule.payload.get("lane") != self._here.lane:
            raise NotFound("agent_schedule_unknown", id=schedule_id)
        return schedule

    def _timing(
        self, *, name: str, kind: Literal["cron", "interval", "once"], expr: str, goal: str, timezone: str | None,
        priority: int, misfire: Any, overlap: Any, ends_at: datetime | None, max_runs: int | None,
    ) -> Timing:  # fmt: skip
        """Return a request in the words of the schedules room."""
        now = self._here.world.clock.now()
        if kind == "cron" and timezone is None:
            raise InvalidInput("cron_zone_missing")
        zone = "UTC" if timezone is None else Cron("0 0 * * *", timezone).zone
        if kind != "once" and ends_at is not None and not now < ends_at <= now + LONGEST:
            raise InvalidInput("agent_schedule_end_outside", most_days=LONGEST.days)
        payload = {
            "lane": self._here.lane, "kind": KIND, "payload": {"goal": goal}, "priority": priority, "most": MOST_TASKS
        }  # fmt: skip
        timing: Timing = {"handler": ATTEND, "payload": payload, "misfire": misfire, "overlap": overlap}
        if timezone is not None:
            timing["zone"] = zone
        match kind:
            case "once":
                timing["once"] = once_at(expr, zone, now)
            case "interval":
                timing["every"] = timing["initial_delay"] = _seconds(expr)
            case "cron":
                timing["cron"] = expr.strip()
        if kind != "once":
            timing["ends_at"] = now + REVIEW if ends_at is None and max_runs is None else ends_at
            timing["max_fires"] = max_runs
        timing["title"] = label(name, "name", 200)
        return timing

    def _check_distance(self, key: str, timing: Timing) -> None:
        """Refuse fires that follow each other too closely."""
        now = self._here.world.clock.now()
        draft = core.Schedule(key=key, created_at=now, **schedule_fields(timing, new=True))
        core.check(draft)
        count = CHECKED_FIRES if draft.kind == "cron" else 2
        if closest(list(islice(upcoming_fires(draft, now), min(count, draft.max_fires or count)))) < SHORTEST:
            raise InvalidInterval("agent_schedule_too_often", least=SHORTEST.total_seconds())


def closest(fires: Sequence[datetime]) -> timedelta:
    """Return the shortest distance between two fires."""
    return min((later - earlier for earlier, later in pairwise(fires)), default=timedelta.max)


def _seconds(expr: str) -> float:
    try:
        return timedelta(seconds=float(expr)).total_seconds()
    except (ValueError, OverflowError):
        raise InvalidInterval("interval_expr_unreadable", expr=expr) from None


def once_at(expr: str, zone: str, now: datetime) -> datetime:
    """Return the moment as written; where it names no zone, in the zone of the schedule."""
    try:
        written = datetime.fromisoformat(expr.strip())
        moment = from_iso(iso(written if written.tzinfo is not None else written.replace(tzinfo=ZoneInfo(zone))))
    except (ValueError, OverflowError):
        raise InvalidInput("once_expr_unreadable", expr=expr) from None
    if moment <= now:
        raise PastDue("once_expr_passed", at=iso(moment), now=iso(now))
    return moment


def in_words(moment: datetime, zone: str) -> str:
    return moment.astimezone(ZoneInfo(zone)).strftime(f"%A, %d %B %Y at %H:%M:%S {zone}")
