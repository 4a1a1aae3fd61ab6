"""The log of runs, how long they are kept, and the definitions of what the house's workers can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from horae.actions import logs, retention
from horae.actions.jobs import definitions
from horae.actions.schedules import schedules
from horae.api import merges
from horae.api.everywhere import as_setting, over_all
from horae.api.examination import Examination
from horae.api.here import Here
from horae.api.jobs.room import Run
from horae.api.operation import GET, PAGES, POST, PUT, Call, Listing, Page, Room, S
from horae.api.values import Get, drop_none, enrich, to_json, to_public
from horae.core.checks import whole_number
from horae.core.cursors import cursor_from, read_cursor
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import job_budget
from horae.core.jobs.parameters import MOST, Parameter, parameter_from, parameter_json
from horae.core.time.instants import MICROSECOND
from horae.core.time.spans import Span, span
from horae.core.values import PYDANTIC
from horae.errors import Forbidden, InvalidInput, NotAllowed
from horae.ports.definitions import StoredDefinition
from horae.ports.logs import LogFilter, Logged

ADMIN = ("admin",)
GIVEN = ("name", "queue", "tenants", "sensitive", "parameters", "description", "budget", "cost")
SCHEDULER = "scheduler"  # the queue of handlers that are declared over HTTP and name none
Trigger = Literal["schedule", "manual", "backfill", "job"]
MOST_AT_ONCE = 1000  # definitions of one call


@dataclass(frozen=True, kw_only=True)
class LoggedRun(Run):
    """A run, what set it off, and the key of its schedule where it has one."""

    trigger: Trigger
    schedule: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunsCleaned:
    """The number of runs deleted, or in a dry run to be deleted; ``more`` when one call did not reach the end.

    ``incomplete`` names databases of a cluster that did not answer: their runs are still there.
    """

    __pydantic_config__ = PYDANTIC

    removed: int
    before: datetime
    dry_run: bool = False
    more: bool = False
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A handler that a worker of the house has stored; who stored it only an operator sees.

    ``parameters`` are what it takes, None where its worker does not say; ``sensitive`` names arguments that are masked.
    Tenants' jobs draw on its ``budget``.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "budget": lambda stored: None if stored.budget is None else stored.budget.reference,
        "cost": lambda stored: {} if stored.budget is None else dict(stored.budget.cost),
    }

    name: str
    queue: str
    tenants: bool = False
    app: str | None = None
    stored_at: datetime | None = None
    stored_by: str | None = None
    sensitive: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] | None = None
    description: str | None = None
    budget: str | None = None
    cost: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EffectiveSetting:
    """A setting of a running process: its value as text (None: not set, secrets are masked), and where it comes from.

    ``origin`` is ``default``, ``environment`` with the name of the variable, or ``given`` by an option or by code.
    """

    __pydantic_config__ = PYDANTIC

    name: str
    env: str
    value: str | None = None
    origin: str
    help: str


@dataclass(frozen=True, kw_only=True)
class RetentionRule:
    """How long runs of a queue, of an outcome, or of both together are kept; None means any."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "queue": lambda rule: rule.queue or None,
        "outcome": lambda rule: rule.outcome or None,
    }

    keep: timedelta
    queue: str | None = None
    outcome: str | None = None
    stored_at: datetime | None = None
    stored_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long finished runs are kept: the stored rules, and the setting of this process for all others."""

    __pydantic_config__ = PYDANTIC

    runs: timedelta
    fires: timedelta
    rules: tuple[RetentionRule, ...] = ()
    incomplete: tuple[str, ...] = ()
    databases: int | None = None


class Admin(Room[S]):
    """The log of runs, how long they are kept, and the definitions that workers of the house have stored."""

    @PAGES("/runs", *ADMIN)
    def runs(
        self,
        *,
        schedule: str | None = None,
        handler: str | None = None,
        outcome: str | Iterable[str] = (),
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        owner: str | None = None,
        limit: int | None = None,
    ) -> Listing[LoggedRun]:
        """List runs, the newest first: of one schedule, of one handler, or else of every schedule and tracked code."""
        outcomes = (outcome,) if isinstance(outcome, str) else tuple(outcome)

        def fetch(here: Here, cursor: str | None, size: int) -> tuple[list[LoggedRun], str | None]:
            wanted = _log_filter(here, schedule, handler, owner, outcomes, started_after, started_before)
            begin = read_cursor(cursor, int, int)
            before = None if begin is None else (begin[0], begin[1])
            found = logs.page(here.world, wanted, limit=size + 1, before=before)
            last = found[size - 1].run if len(found) > size else None
            further = None if last is None else cursor_from([last.job_number, last.token])
            return [_to_logged_run(each) for each in found[:size]], further

        query = drop_none(
            schedule=schedule, handler=handler, outcome=outcomes, started_after=started_after,
            started_before=started_before, owner=owner,
        )  # fmt: skip
        first = Call[Page[LoggedRun]](Page[LoggedRun], query=query, is_scattered=True)
        return Listing(first, limit, fetch, order=_begun, drained=True)

    @GET("/runs/{run_id}", *ADMIN)
    def run(self, run_id: str) -> Call[LoggedRun]:
        """Return one run, such as ``job_12.1``."""
        return Call(
            LoggedRun,
            lambda here: _to_logged_run(logs.get(here.world, run_id, owner=here.caller.sees)),
            at={"run_id": run_id},
        )

    @POST("/runs/clean", *ADMIN)
    def clean_runs(
        self,
        *,
        before: datetime | None = None,
        older_than: Span | None = None,
        schedule: str | None = None,
        handler: str | None = None,
        owner: str | None = None,
        dry_run: bool = True,
        reason: str = "",
    ) -> Call[RunsCleaned]:
        """Forget runs that ended *before* an instant, or are *older_than* so many seconds; a dry run only counts.

        At most 10,000 with one call; while ``more`` is true, call again. Runs of jobs that wait, run or are dead stay.
        """
        if (before is None) == (older_than is None):
            raise InvalidInput("run_age_missing")
        age = None if older_than is None else span(older_than)
        left = logs.MOST  # over all databases

        def act(here: Here) -> logs.Cleaned:
            nonlocal left
            edge = before or here.world.clock.now() - (age or timedelta(0))
            wanted = _log_filter(here, schedule, handler, owner)
            done = logs.clean(here.world, edge, wanted, dry_run=dry_run, most=left, actor=here.actor, reason=reason)
            left -= 0 if dry_run else done.removed
            return done

        body = drop_none(
            before=before, older_than=age, schedule=schedule, handler=handler, owner=owner, dry_run=dry_run,
            reason=reason or None,
        )  # fmt: skip
        return Call(RunsCleaned, act, body=body, gather=over_all(act, merges.merge_cleaned, drained=True))

    @GET("/admin/retention", *ADMIN)
    def retention(self) -> Call[Retention]:
        """Return how long runs and fire records are kept: stored rules, and settings for what no rule names."""

        def fetch(here: Here) -> Any:
            _require_house(here)
            return retention.show_retention(here.world)

        return Call(Retention, fetch, gather=over_all(fetch, merges.first_answer))

    @PUT("/admin/retention", *ADMIN)
    def set_retention(
        self,
        keep: Span | None,
        *,
        queue: str | None = None,
        outcome: str | None = None,
        reason: str = "",
    ) -> Call[Retention]:
        """Keep runs of a *queue*, of an *outcome*, of both together or all for *keep*; None forgets the rule.

        The most particular rule decides: queue and outcome, then queue, then outcome, then the rule for all.
        """
        kept = None if keep is None else span(keep)

        def act(here: Here) -> Any:
            _require_house(here)
            return retention.set_retention(
                here.world, kept, queue=queue, outcome=outcome, actor=here.actor, reason=reason
            )

        body = {"keep": to_json(kept), **drop_none(queue=queue, outcome=outcome, reason=reason or None)}
        value = {"keep": None if kept is None else kept // MICROSECOND, "queue": queue, "outcome": outcome}
        name = f"{queue or ''}:{outcome or ''}"
        gather = as_setting("retention", name, value, act, merges.first_answer, reason=reason)
        return Call(Retention, act, body=body, gather=gather)

    @GET("/admin/doctor", *ADMIN)
    def doctor(self) -> Call[Examination]:
        """Examine the installation from inside: machine, database and work, the work in one moment, within seconds.

        ``NotAllowed`` where the process does not offer that. A service keeps its answer for some seconds.
        """

        def fetch(here: Here) -> Any:
            here.caller.require("admin")  # also of those who may read
            if here.doctor is None:
                raise NotAllowed("doctor_not_offered")
            return here.doctor(here.world)

        return Call(Examination, fetch)

    @GET("/admin/settings", *ADMIN)
    def settings(self) -> Call[tuple[EffectiveSetting, ...]]:
        """List the settings that this process runs with, each with its origin; secrets are masked.

        ``NotAllowed`` where the process does not offer that.
        """

        def fetch(here: Here) -> Any:
            here.caller.require("admin")  # also of those who may read
            if here.settings is None:
                raise NotAllowed("settings_not_offered")
            return tuple(here.settings())

        return Call(tuple[EffectiveSetting, ...], fetch)

    @GET("/definitions", "tasks", "worker", by_queue=True)
    def definitions(self) -> Call[tuple[Definition, ...]]:
        """List what the house's workers can run, by name; a tenant sees what is open to tenants."""

        def fetch(here: Here) -> list[Definition]:
            caller, found = here.caller, definitions.find_definitions(here.world)
            visible = [each for each in found if caller.is_operator or each.tenants]
            seen = [each for each in visible if not caller.queues or each.queue in caller.queues]
            return [_definition(each, whole=caller.is_operator) for each in seen]

        return Call(tuple[Definition, ...], fetch)

    @PUT("/definitions", "worker", by_queue=True)
    def store_definitions(
        self, definitions: Iterable[Mapping[str, Any]], *, app: str = "", reason: str = ""
    ) -> Call[tuple[Definition, ...]]:
        """Say what a worker can run, when it starts: ``[{"name": "resize", "queue": "images", "tenants": True}]``.

        ``sensitive`` names arguments that readers do not see, ``parameters`` says what a form may ask for, each with a
        name, a kind, a default and choices; ``description`` is a sentence about it. Tenants' jobs are handed to workers
        of the house only for handlers stored with ``tenants``, and draw on ``budget``, at most ``cost`` an attempt.
        Needs a caller of the house; returns all that were named, as they are stored now.
        """
        wanted = [_new_definition(each) for each in definitions]
        whole_number(len(wanted), "the number of definitions", 1, MOST_AT_ONCE)
        body = {
            "definitions": [definition_body(each) for each in wanted],
            **drop_none(app=app or None, reason=reason or None),
        }
        return Call(tuple[Definition, ...], lambda here: _store(here, wanted, app, reason), body=body)


def _require_house(here: Here) -> None:
    """Refuse a tenant: how long runs are kept concerns all of them."""
    if not here.caller.is_operator:
        raise Forbidden("retention_for_house_only")


def _log_filter(
    here: Here,
    schedule: str | None,
    handler: str | None,
    owner: str | None,
    outcomes: tuple[str, ...] = (),
    started_after: datetime | None = None,
    started_before: datetime | None = None,
) -> LogFilter:
    """Return the filter for the log; a schedule that the caller cannot see is not found."""
    number = None
    if schedule is not None:
        owned_by = here.caller.resolve_owner(owner)  # runs may be where the schedule is not, or not any more
        number = schedules.get(here.everywhere or here.world, schedule, owner=owned_by).number
    return LogFilter(number, handler, here.caller.filter_owner(owner), outcomes, started_after, started_before)


def _to_logged_run(line: Logged) -> LoggedRun:
    run: LoggedRun = enrich(LoggedRun, line.run, trigger=line.trigger, schedule=line.key)
    return run


def _definition(stored: StoredDefinition, *, whole: bool) -> Definition:
    seen: Definition = to_public(Definition, stored)
    return seen if whole else replace(seen, app=None, stored_at=None, stored_by=None)


def _new_definition(raw: Mapping[str, Any]) -> StoredDefinition:
    unknown = sorted(set(raw) - set(GIVEN))
    if unknown:
        raise InvalidInput("definition_field_unknown", field=unknown[0], choices=list(GIVEN))
    if "name" not in raw:
        raise InvalidInput("definition_without_name")
    parameters = raw.get("parameters")
    return StoredDefinition(
        raw["name"],
        raw.get("queue", SCHEDULER),
        raw.get("tenants", False),
        sensitive=tuple(raw.get("sensitive") or ()),
        parameters=None if parameters is None else tuple(_parameter(each) for each in parameters[:MOST]),
        description=raw.get("description"),
        budget=job_budget(raw.get("budget"), raw.get("cost")),
    )


def _parameter(raw: Mapping[str, Any] | Parameter) -> Parameter:
    return raw if isinstance(raw, Parameter) else parameter_from(raw)


def definition_body(definition: StoredDefinition) -> dict[str, Any]:
    """Return a definition as :meth:`Admin.store_definitions` takes it."""
    needed = {"name": definition.name, "queue": definition.queue, "tenants": definition.tenants}
    parameters = None if definition.parameters is None else [parameter_json(each) for each in definition.parameters]
    return {
        **needed,
        **drop_none(
            sensitive=definition.sensitive or None,
            parameters=parameters,
            description=definition.description or None,
            budget=None if definition.budget is None else definition.budget.reference,
            cost=None if definition.budget is None else dict(definition.budget.cost),
        ),
    }


def _store(here: Here, wanted: list[StoredDefinition], app: str, reason: str) -> list[Definition]:
    """Store definitions; a tenant is refused, or it could open the house's handlers to itself."""
    if not here.caller.is_operator:
        raise Forbidden("definitions_for_house_only")
    named, queues = {each.name for each in wanted}, [each.queue for each in wanted]
    if here.caller.queues:
        queues += [each.queue for each in definitions.find_definitions(here.world) if each.name in named]
    for queue in queues:
        here.caller.require_queue(queue)
    definitions.store_definitions(here.world, wanted, app=app, actor=here.actor, reason=reason)
    found = definitions.find_definitions(here.world)
    return [_definition(each, whole=True) for each in found if each.name in named]


def _begun(run: LoggedRun) -> tuple[bool, datetime | None, str]:
    """Return by what runs are merged, the newest first."""
    return run.started_at is not None, run.started_at, run.id
