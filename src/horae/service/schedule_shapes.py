"""Schedules as they cross the wire: spans in seconds, instants in ISO-8601."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from horae.core.audit import Entry
from horae.core.fires import Fire, Schedule
from horae.core.instants import iso
from horae.core.retry import Retry
from horae.core.standing import Standing, described, standing
from horae.ports import Tally
from horae.service.addresses import addressable
from horae.service.fields import Body, Instant, Seconds
from horae.service.inputs import Because, Line, seconds_text

RULES = ("cron", "every", "once", "after")
SPANS = ("initial_delay", "spread", "grace", "jitter", "timeout", "lock_ttl", "stale_timeout")
NOT_NULL = ("handler", "zone", "payload", "queue", "priority", "day_match", "gap", "fold", "lenient", "anchor",
            "initial_delay", "misfire", "catch_up", "spread", "grace", "overlap", "jitter", "retry", "mode", "enabled",
            "cron", "every", "once", "after")  # fmt: skip
Keys = Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=50)]
Interval = Annotated[float, Field(ge=0.001, le=10 * 366 * 86400, allow_inf_nan=False)]


class RetryRule(Body):
    """How often a fire's job is tried; once, unless told otherwise."""

    kind: Literal["none", "fixed", "exponential", "external"] = "fixed"
    attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    delay: Seconds = 300
    factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 2.0
    cap: Seconds = 3600
    jitter: bool = True
    deadline: Seconds = 30
    gives_up: bool = False

    def policy(self) -> Retry:
        if self.kind == "none":
            return Retry.none()
        told = self.model_dump(exclude={"kind", "attempts"})
        return Retry.from_json({"kind": self.kind, **told}, self.attempts)


class Timing(Because):
    """What makes a schedule fire, and how. Spans are seconds."""

    cron: Annotated[str, Field(max_length=255)] | None = Field(default=None, examples=["0 9 * * 1-5"])
    every: Interval | None = Field(default=None, description="Seconds from fire to fire.")
    once: Instant | None = None
    after: Keys | None = Field(default=None, description="Fire when all of these have succeeded.")
    handler: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    zone: Annotated[str, Field(max_length=64)] | None = Field(default=None, examples=["Europe/Berlin"])
    title: Line | None = None
    group: Annotated[str, Field(max_length=100)] | None = None
    payload: dict[str, Any] | None = Field(default=None, description="The arguments of the handler.")
    queue: Annotated[str, Field(max_length=100)] | None = None
    priority: Literal["high", "medium", "low"] | None = None
    day_match: Literal["and", "or"] | None = None
    gap: Literal["after", "skip"] | None = None
    fold: Literal["first", "both"] | None = None
    lenient: bool | None = None
    anchor: Literal["start", "finish"] | None = None
    initial_delay: Seconds | None = None
    misfire: Literal["fire_once", "skip", "catch_up"] | None = None
    catch_up: Annotated[int, Field(ge=1, le=1000)] | None = None
    spread: Seconds | None = None
    grace: Seconds | None = None
    overlap: Literal["skip", "queue_one", "allow"] | None = None
    jitter: Seconds | None = None
    retry: RetryRule | None = None
    timeout: Interval | None = None
    mode: Literal["SINGLE_NODE", "ALL_NODES"] | None = None
    lock_ttl: Interval | None = None
    stale_timeout: Interval | None = None
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    max_fires: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    enabled: bool | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        given = self.model_fields_set
        if sum(rule in given for rule in RULES) > 1:
            raise ValueError("give one of cron, every, once and after, not several")
        empty = sorted(name for name in given if name in NOT_NULL and getattr(self, name) is None)
        if empty:
            raise ValueError(f"{empty[0]} cannot be null; leave it out to keep it as it is")
        return self

    def values(self) -> dict[str, Any]:
        """What was said, as the fields of a schedule."""
        given = self.model_fields_set - {"reason", "key"}
        told = {name: getattr(self, name) for name in given if name not in RULES}
        for name in told:
            if name in SPANS and told[name] is not None:
                told[name] = timedelta(seconds=told[name])
        if self.retry is not None:
            told["retry"] = self.retry.policy()
        return told | self._rule()

    def _rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {}
        if self.cron is not None:
            rule = {"kind": "cron", "expression": self.cron}
        elif self.every is not None:
            rule = {"kind": "every", "expression": seconds_text(self.every)}
        elif self.once is not None:
            rule = {"kind": "once", "expression": iso(self.once)}
        elif self.after is not None:
            return {"kind": "after", "expression": "", "after": tuple(dict.fromkeys(self.after))}
        return {**rule, "after": ()} if rule else {}


class NewSchedule(Timing):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"key": "nightly", "handler": "report", "cron": "0 3 * * *", "zone": "Europe/Berlin"}]
        }
    )

    key: Annotated[
        str,
        Field(
            min_length=1, max_length=200, description="Slashes are fine, unless a path with it means something else."
        ),
        AfterValidator(addressable),
    ]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not any(rule in self.model_fields_set for rule in RULES):
            raise ValueError("say when: give one of cron, every, once and after")
        return self

    def schedule(self, owner: str) -> Schedule:
        told = {"handler": self.key, **self.values()}
        return Schedule(key=self.key, owner=owner, **told)


class ChangedSchedule(Timing):
    """Only what is named changes; null lifts what may be absent."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cron": "0 4 * * *", "reason": "the night got short"}]})


class ScheduleShape(BaseModel):
    """A schedule and how it stands."""

    key: str = Field(examples=["nightly"])
    owner: str
    handler: str
    title: str | None
    standing: Standing
    words: str = Field(examples=["at 03:00, every day (Europe/Berlin)"])
    kind: Literal["cron", "every", "once", "after"]
    expression: str
    zone: str
    after: list[str]
    next_fire_at: Instant | None
    next_due_at: Instant | None
    last_fire_at: Instant | None
    fire_count: int
    max_fires: int | None
    starts_at: Instant | None
    ends_at: Instant | None
    payload: dict[str, Any]
    queue: str
    priority: str
    group: str | None
    day_match: str
    gap: str
    fold: str
    lenient: bool
    anchor: str
    initial_delay: float
    misfire: str
    catch_up: int
    spread: float
    grace: float
    overlap: str
    jitter: float
    retry: dict[str, Any]
    timeout: float | None
    mode: str
    lock_ttl: float | None
    stale_timeout: float | None
    enabled: bool
    toggled: bool | None = Field(description="A toggle that the next start forgets; it wins over `enabled`.")
    inactive: str | None
    paused_at: Instant | None
    paused_by: str | None
    pause_reason: str | None
    declared: bool
    sources: dict[str, str] = Field(description="Where each value comes from: code, file, api …")
    tzdata: str = Field(description="The edition of the zone database that its next fire was computed with.")
    version: int = Field(description="Also the ETag.")
    created_at: Instant | None
    updated_at: Instant | None

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        own = {"standing", "words", "after", "retry", "sources", *SPANS}
        same = {name: getattr(schedule, name) for name in ScheduleShape.model_fields if name not in own}
        spans = {name: _seconds(getattr(schedule, name)) for name in SPANS}
        return cls(
            standing=standing(schedule),
            words=described(schedule),
            after=list(schedule.after),
            retry={**schedule.retry.as_json(), "attempts": schedule.retry.attempts},
            sources=dict(schedule.sources),
            **spans,
            **same,
        )


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


class SchedulePage(BaseModel):
    schedules: list[ScheduleShape]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


class TallyShape(BaseModel):
    run_count: int
    fail_count: int
    last_outcome: str | None
    last_started_at: Instant | None
    last_finished_at: Instant | None
    last_error: str | None

    @classmethod
    def of(cls, tally: Tally) -> Self:
        return cls(**{name: getattr(tally, name) for name in cls.model_fields})


class ScheduleDetail(ScheduleShape):
    runs: TallyShape | None = None


class FireShape(BaseModel):
    """What became of one due fire, or of several missed in a row."""

    fire_at: Instant
    kind: Literal["schedule", "manual", "backfill"]
    verdict: Literal["ran", "skipped", "merged", "failed"]
    reason: str | None
    due_at: Instant | None
    last_at: Instant | None
    count: int
    merged_into: Instant | None
    job_id: str | None = Field(examples=["job_12"])

    @classmethod
    def of(cls, fire: Fire, job_id: str | None) -> Self:
        same = {name: getattr(fire, name) for name in cls.model_fields if name not in ("merged_into", "job_id")}
        return cls(merged_into=fire.into, job_id=job_id, **same)


class FirePage(BaseModel):
    fires: list[FireShape]
    next_cursor: str | None


class Version(BaseModel):
    at: Instant
    actor: str = Field(examples=["token/6f1c2a"])
    verb: str = Field(examples=["change"])
    reason: str | None
    before: dict[str, Any]
    after: dict[str, Any]

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(
            at=entry.at,
            actor=entry.actor,
            verb=entry.verb,
            reason=entry.reason,
            before=dict(entry.before),
            after=dict(entry.after),
        )


class Versions(BaseModel):
    versions: list[Version]


class TriggerSchedule(Because):
    parameters: dict[str, Any] | None = Field(default=None, description="They win over the stored payload.")


class TriggeredSchedule(BaseModel):
    key: str
    triggered: bool
    job_id: str | None = Field(examples=["job_12"])
    reason: str | None = Field(description="Why not.", examples=["running"])


class Preview(BaseModel):
    key: str
    fires: list[Instant]


class BackfillRange(Because):
    """Which missed fires to make up for. Counts first: only `dry_run: false` enqueues anything."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"start": "2030-01-01T00:00:00Z", "end": "2030-01-07T00:00:00Z"}]}
    )

    start: Instant
    end: Instant
    spread: Seconds = Field(default=0, description="Seconds over which the jobs are spread.")
    dry_run: bool = True


class Backfilled(BaseModel):
    fires: list[Instant] = Field(description="The first thousand.")
    missing: int
    present: int = Field(description="Fires of the range that became a job before.")
    job_ids: list[str]
    dry_run: bool


class Group(BaseModel):
    group: str = Field(examples=["etl"])
    changed: list[str] = Field(description="The keys of the schedules that were not so before.")
