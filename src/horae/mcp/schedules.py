"""Tools for what repeats: a schedule that puts a goal into the agent's backlog each time it fires.

Each fire costs a model's turn, so there are few, they are not often, and each has an end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, StrictBool

from horae.actions.schedules import schedules
from horae.core.jobs.job import request_hash
from horae.core.jobs.payloads import label
from horae.core.scheduled_tasks.task import BY_KEY
from horae.core.schedules.schedule import Schedule
from horae.core.time.cron import Cron
from horae.core.time.instants import from_iso, iso
from horae.errors import Conflict, InvalidInput, InvalidInterval, KeyConflict, NotFound, PastDue, QuotaExceeded
from horae.mcp.arguments import Goal, Key, Moment, Priority, ScheduleId
from horae.mcp.here import Here, Who
from horae.mcp.shapes import ScheduleChanged, ScheduleList, ScheduleMade, schedule_shape
from horae.mcp.tasks import KIND
from horae.ports import ScheduleFilter, Tx

ATTEND = "attend"
MOST = 20
SHORTEST = timedelta(seconds=300)
LONGEST = timedelta(days=366)
REVIEW = timedelta(days=90)  # where nobody names an end, somebody shall look again
LOOKED_AT = 500  # how many fires of a cron text are looked at for the shortest distance
FIRES = "It fires while a worker of this database runs (horae worker)."


class ScheduleTools:
    """Schedules of the agent's owner."""

    def __init__(self, here: Here) -> None:
        self._here = here

    def schedule_create(
        self,
        name: Annotated[str, Field(min_length=1, max_length=200, description="What people call it.")],
        kind: Literal["cron", "interval", "once"],
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
        priority: Priority = 50,
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
        asked: dict[str, Any] = {
            "name": name, "kind": kind, "expr": expr, "goal": goal, "timezone": timezone, "priority": priority,
            "misfire": misfire, "overlap": overlap, "ends_at": ends_at, "max_runs": max_runs,
        }  # fmt: skip
        key = self._key_for(label(idempotency_key, "idempotency key", 200), who)
        made, is_new = self._made(key, who, asked)
        if made.sources.get(BY_KEY) != request_hash(asked):
            raise KeyConflict(idempotency_key, key)
        return ScheduleMade(
            schedule_id=key,
            created=is_new,
            next_times=[in_words(each, made.zone) for each in schedules.preview(here.world, made, 3)],
            timezone=made.zone,
            ends_at=None if made.ends_at is None else iso(made.ends_at),
            max_runs=made.max_fires,
            durable=True,
            durability=f"{here.durability}. {FIRES}",
        )

    def schedule_list(self) -> ScheduleList:
        """See your schedules, and when each fires next."""
        here, who = self._here, self._here.who()
        found = [each for each in self._all(who) if each.payload.get("lane") == here.lane]
        return ScheduleList(schedules=[schedule_shape(each) for each in found], most=MOST)

    def schedule_pause(self, schedule_id: ScheduleId, paused: StrictBool = True) -> ScheduleChanged:
        """Stop a schedule for a while; paused=false lets it go on. What it missed meanwhile is not made up for."""
        here, who = self._here, self._here.who()
        found = self._mine(schedule_id, who)
        if (found.paused_at is not None) != paused:
            verb = schedules.pause if paused else schedules.resume
            found = verb(here.world, found.key, owner=who.owner, actor=who.actor)
        return ScheduleChanged(
            schedule_id=found.key,
            state="paused" if paused else "active",
            next_run_at=None if found.next_fire_at is None else iso(found.next_fire_at),
            timezone=found.zone,
            durability=here.durability,
        )

    def schedule_delete(self, schedule_id: ScheduleId) -> ScheduleChanged:
        """Forget a schedule. Tasks that it has made stay. It cannot be undone."""
        here, who = self._here, self._here.who()
        found = self._mine(schedule_id, who)
        schedules.delete(here.world, found.key, owner=who.owner, actor=who.actor)
        return ScheduleChanged(schedule_id=found.key, state="deleted", timezone=found.zone, durability=here.durability)

    # -- the parts -----------------------------------------------------------------------------------------------

    def _key_for(self, key: str, who: Who) -> str:
        told = json.dumps([who.owner, self._here.lane, key])
        return f"agent_{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def _made(self, key: str, who: Who, asked: dict[str, Any]) -> tuple[Schedule, bool]:
        """The schedule of that key, and whether this request made it."""
        known = self._known(key, who)
        if known is not None:
            return known, False
        wanted = replace(self._wanted(key, who, **asked), sources={BY_KEY: request_hash(asked)})
        self._check_often(wanted)

        def admits(tx: Tx) -> None:
            self._admit(tx, wanted)

        try:
            return schedules.create(self._here.world, wanted, actor=who.actor, source="mcp", admits=admits), True
        except Conflict:  # perhaps the same request, at the same time, by another way
            known = self._known(key, who)
            if known is None:
                raise
            return known, False

    def _known(self, key: str, who: Who) -> Schedule | None:
        with suppress(NotFound):
            return schedules.get(self._here.world, key, owner=who.owner)
        return None

    def _all(self, who: Who) -> list[Schedule]:
        return list(schedules.every(self._here.world, ScheduleFilter(owner=who.owner, handler=ATTEND)))

    def _mine(self, schedule_id: str, who: Who) -> Schedule:
        found = self._known(schedule_id, who) if schedule_id.isprintable() else None
        if found is None or found.handler != ATTEND or found.payload.get("lane") != self._here.lane:
            raise NotFound(f"There is no schedule {schedule_id!r}; schedule_list shows those there are.")
        return found

    def _admit(self, tx: Tx, wanted: Schedule) -> None:
        """Behind the owner's lock, so that no two take the last place; and no late repetition brings back what was
        deleted.
        """
        tx.owners.lock(wanted.owner, self._here.world.clock.now())
        if tx.audit.find(
            object_id=schedules.object_id(wanted.key, wanted.owner), owner=wanted.owner, limit=1, before=None
        ):
            raise Conflict(f"That key made {wanted.key}, which has been deleted since. Choose another key.")
        there = tx.schedules.find(ScheduleFilter(owner=wanted.owner, handler=ATTEND), limit=MOST, after=None)
        if len(there) >= MOST:
            raise QuotaExceeded("schedules", MOST, f"There are {MOST} schedules, which is the most. Delete one first.")

    def _wanted(
        self, key: str, who: Who, *, name: str, kind: Literal["cron", "interval", "once"], expr: str, goal: str,
        timezone: str | None, priority: int, misfire: Any, overlap: Any, ends_at: datetime | None, max_runs: int | None,
    ) -> Schedule:  # fmt: skip
        now = self._here.world.clock.now()
        if kind == "cron" and timezone is None:
            raise InvalidInput(
                "A cron schedule needs a timezone, such as Europe/Berlin: nine o'clock is not everywhere."
            )
        zone = "UTC" if timezone is None else Cron("0 0 * * *", timezone).zone
        end = ends_at
        if kind != "once":
            if ends_at is None and max_runs is None:
                end = now + REVIEW
            elif ends_at is not None and not now < ends_at <= now + LONGEST:
                raise InvalidInput(
                    f"ends_at is outside the next {LONGEST.days} days; choose an end that somebody will see."
                )
        return Schedule(
            key,
            ATTEND,
            "every" if kind == "interval" else kind,
            once_at(expr, zone, now) if kind == "once" else expr.strip(),
            zone,
            owner=who.owner,
            payload={"lane": self._here.lane, "kind": KIND, "payload": {"goal": goal}, "priority": priority},
            initial_delay=_period(expr) if kind == "interval" else timedelta(0),
            misfire=misfire,
            overlap=overlap,
            ends_at=None if kind == "once" else end,
            max_fires=None if kind == "once" else max_runs,
            title=label(name, "name", 200),
        )

    def _check_often(self, wanted: Schedule) -> None:
        fires = schedules.preview(self._here.world, wanted, LOOKED_AT if wanted.kind == "cron" else 2)
        if closest(fires) < SHORTEST:
            raise InvalidInterval(
                f"Fires less than {SHORTEST.total_seconds():g} seconds apart are too often: each one costs a model's "
                "turn. Choose a longer interval."
            )


def closest(fires: Sequence[datetime]) -> timedelta:
    return min((later - earlier for earlier, later in pairwise(fires)), default=timedelta.max)


def _period(expr: str) -> timedelta:
    try:
        return timedelta(seconds=float(expr))
    except (ValueError, OverflowError):
        raise InvalidInterval(f"The expr of an interval is a number of seconds such as 3600, not {expr!r}.") from None


def once_at(expr: str, zone: str, now: datetime) -> str:
    """A moment as written; where it names no zone, in the zone of the schedule."""
    try:
        told = datetime.fromisoformat(expr.strip())
        moment = from_iso(iso(told if told.tzinfo is not None else told.replace(tzinfo=ZoneInfo(zone))))
    except (ValueError, OverflowError):
        raise InvalidInput(f"The expr of a single run is an ISO time such as 2026-11-16T09:00, not {expr!r}.") from None
    if moment <= now:
        raise PastDue(f"{iso(moment)} has passed already (it is {iso(now)}); choose a later time, or use task_add.")
    return iso(moment)


def in_words(moment: datetime, zone: str) -> str:
    return moment.astimezone(ZoneInfo(zone)).strftime(f"%A, %d %B %Y at %H:%M:%S {zone}")
