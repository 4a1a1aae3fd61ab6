"""``/runs``, ``/admin/retention`` and ``/definitions``: the log of runs, how long they are kept, and what the house's
workers can run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi.responses import Response
from pydantic import AfterValidator, ConfigDict, Field

from horae.actions.jobs.definitions import MOST_NAMES
from horae.api.admin import (
    MOST_AT_ONCE,
    SCHEDULER,
    Admin,
    Definition,
    EffectiveSetting,
    LoggedRun,
    Retention,
    RunsCleaned,
)
from horae.api.examination import Examination
from horae.api.operation import Page
from horae.core.jobs.parameters import MOST as MOST_PARAMETERS
from horae.core.jobs.parameters import Parameter
from horae.service.fields import AS_TEXT_TOO, Instant, OperationBody, Path, Query, SpanField
from horae.service.inputs import Line, OperationReason, Tenant, TextFilter, check_storable
from horae.service.models import Model, model_of
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router()
Outcome = Literal[
    "running", "succeeded", "failed", "timed_out", "lost", "skipped", "cancelled", "snoozed", "released"
]  # fmt: skip
Ended = Literal["succeeded", "failed", "timed_out", "lost", "skipped", "cancelled", "snoozed", "released"]
Outcomes = Annotated[list[Outcome], Query(max_length=9)]
RunId = Annotated[str, Path(min_length=1, max_length=50, examples=["job_12.1"])]
if TYPE_CHECKING:
    ParameterBody = Model
else:
    ParameterBody = model_of(Parameter, "NewParameter")
LONGEST_KEPT = 36_500 * 86_400  # seconds


class CleanRuns(OperationReason):
    """The runs to delete: give `before` or `older_than`. By default they are only counted."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"older_than": 1209600}]})

    before: Instant | None = Field(default=None, description="Ended before.")
    older_than: SpanField | None = Field(default=None, description="Ended so many seconds ago.")
    schedule: Line | None = None
    handler: Line | None = None
    owner: Line | None = None
    dry_run: bool = True


class SetRetention(OperationReason):
    """How long runs are kept; without `queue` and `outcome` the rule holds for all of them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queue": "mail", "outcome": "succeeded", "keep": 604800}]}
    )

    keep: Annotated[float, Field(ge=3600, le=LONGEST_KEPT, allow_inf_nan=False), AS_TEXT_TOO] | None = Field(
        description="Seconds; null forgets the rule, and the next wider one decides."
    )
    queue: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    outcome: Ended | None = None


class NewDefinition(OperationBody):
    """A handler that a worker can run."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="What jobs call it.", examples=["resize"])]
    queue: Annotated[str, Field(min_length=1, max_length=100)] = SCHEDULER
    tenants: bool = Field(default=False, description="Whether tenants' jobs may run it.")
    sensitive: Annotated[list[Line], Field(max_length=MOST_NAMES)] = Field(
        default=[], description="Names of arguments whose values readers do not see."
    )
    parameters: Annotated[list[ParameterBody], Field(max_length=MOST_PARAMETERS)] | None = Field(
        default=None, description="What a form may ask for."
    )
    description: Annotated[str, Field(max_length=500), AfterValidator(check_storable)] | None = None
    budget: Annotated[str, Field(max_length=201)] | None = Field(
        default=None, description="What tenants' jobs draw on: `llm`, or `llm/agent`."
    )
    cost: Annotated[dict[str, int], Field(max_length=3)] | None = Field(
        default=None, description="The most that one attempt may cost; one call, unless given."
    )


class StoreDefinitions(OperationReason):
    """All that one worker can run, or a part of it; what is not named stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"app": "images", "definitions": [{"name": "resize", "tenants": True}]}]}
    )

    app: Line = Field(default="", description="Which program declares them.")
    definitions: Annotated[list[NewDefinition], Field(min_length=1, max_length=MOST_AT_ONCE)]


@router.get(
    "/runs", tags=["runs"], operation_id="list_runs", summary="The log of runs, the newest first",
    response_model=Page[LoggedRun], responses=refuses(404),
)  # fmt: skip
async def list_runs(
    schedule: TextFilter = None,
    handler: TextFilter = None,
    outcome: Outcomes = [],  # noqa: B006 - FastAPI copies it
    started_after: Annotated[Instant | None, Query(description="Started then or later.")] = None,
    started_before: Annotated[Instant | None, Query(description="Started before.")] = None,
    owner: Tenant = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Admin.runs),
) -> Response:
    """Of one schedule, of one handler, or else of every schedule and of code that is only tracked."""
    found = rooms.admin.runs(
        schedule=schedule, handler=handler, outcome=outcome, started_after=started_after,
        started_before=started_before, owner=owner,
    )  # fmt: skip
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/runs/{run_id}", tags=["runs"], operation_id="get_run", summary="One run", response_model=LoggedRun,
    responses=refuses(404),
)  # fmt: skip
async def get_run(run_id: RunId, rooms: CallerRooms = rooms_for(Admin.run)) -> Response:
    return answer(await rooms.admin.run(run_id))


@router.post(
    "/runs/clean", tags=["runs"], operation_id="clean_runs", summary="Forget old runs", response_model=RunsCleaned,
    responses=refuses(404),
)  # fmt: skip
async def clean_runs(body: CleanRuns, rooms: CallerRooms = rooms_for(Admin.clean_runs)) -> Response:
    """By age, of all jobs or of one, in small batches; at most 10,000 with one call. Runs of jobs that wait, run or are
    dead stay. Says how many would go; removes them only with `dry_run: false`.
    """
    return answer(await rooms.admin.clean_runs(**dict(body)))


@router.get(
    "/admin/retention", tags=["runs"], operation_id="get_retention", summary="How long runs are kept",
    response_model=Retention,
)  # fmt: skip
async def get_retention(rooms: CallerRooms = rooms_for(Admin.retention)) -> Response:
    """The stored rules, and the setting of this server for what no rule names."""
    return answer(await rooms.admin.retention())


@router.put(
    "/admin/retention", tags=["runs"], operation_id="set_retention", summary="Say how long runs are kept",
    response_model=Retention,
)  # fmt: skip
async def set_retention(body: SetRetention, rooms: CallerRooms = rooms_for(Admin.set_retention)) -> Response:
    """Of a queue, of an outcome, of both together, or all. The most particular rule decides; a stored rule wins over
    the setting `HORAE_KEEP_RUNS`. Answers with all rules.
    """
    return answer(await rooms.admin.set_retention(**dict(body)))


@router.get(
    "/admin/doctor", tags=["health"], operation_id="examine", summary="What the doctor finds",
    response_model=Examination, responses=refuses(409),
)  # fmt: skip
async def examine(rooms: CallerRooms = rooms_for(Admin.doctor)) -> Response:
    """The checks of `horae doctor` that a running server can make, within seconds. The answer is kept for some
    seconds. 409 where the server does not offer it.
    """
    return answer(await rooms.admin.doctor())


@router.get(
    "/admin/settings", tags=["health"], operation_id="list_settings", summary="The settings that are in force",
    response_model=Page[EffectiveSetting], responses=refuses(409),
)  # fmt: skip
async def list_settings(rooms: CallerRooms = rooms_for(Admin.settings)) -> Response:
    """Of the process that answers, each with its origin; secrets are masked. 409 where it does not offer that."""
    return answer(await rooms.admin.settings())


@router.get(
    "/definitions", tags=["definitions"], operation_id="list_definitions", summary="What the house's workers can run",
    response_model=Page[Definition],
)  # fmt: skip
async def list_definitions(rooms: CallerRooms = rooms_for(Admin.definitions)) -> Response:
    """Definitions are in order of names. A tenant sees those open to tenants, without who stored them."""
    return answer(await rooms.admin.definitions())


@router.put(
    "/definitions", tags=["definitions"], operation_id="store_definitions",
    summary="Say what a worker of the house can run", response_model=Page[Definition],
)  # fmt: skip
async def store_definitions(
    body: StoreDefinitions, rooms: CallerRooms = rooms_for(Admin.store_definitions)
) -> Response:
    """For workers over HTTP with a token of the house, when they start: tenants' jobs are handed to them only for
    handlers that are stored with `tenants: true`. The newest word rules; opening a handler releases what was held for
    it. Answers with all that were named, as they are stored now.
    """
    fields = body.model_dump(exclude_unset=True)
    return answer(await rooms.admin.store_definitions(fields["definitions"], app=body.app, reason=body.reason))
