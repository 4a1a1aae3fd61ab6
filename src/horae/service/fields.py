"""Types of instants, spans and ids in requests and answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import fastapi
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema

from horae.core.access.callers import mask_tokens
from horae.core.time.instants import from_iso, iso
from horae.core.time.spans import span_from
from horae.errors import InvalidInput

LONGEST = 10 * 366 * 86400  # seconds: ten years
MOST = 2**63 - 1
LONGEST_SHOWN = 64  # characters of an instant


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or len(value) > LONGEST_SHOWN:
        raise InvalidInput("instant_unreadable", name="time", text=mask_tokens(str(value))[:LONGEST_SHOWN])
    return from_iso(value)


Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(iso, return_type=str, when_used="json"),  # a dumped body is handed to a room
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2030-01-07T06:00:00Z"]}),
]


def _seconds(value: Any) -> Any:
    """Read text such as 5m; anything else is checked as a number."""
    return span_from(value).total_seconds() if isinstance(value, str) else value


class SpanText:
    """Lets a number of seconds be written as text too, such as 5m."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_seconds, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text = {"type": "string", "pattern": "^[0-9][0-9.wdhms]*$", "maxLength": 40, "examples": ["5m"]}
        return {"anyOf": [handler(schema), text]}


AS_TEXT_TOO = SpanText()
Seconds = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
Lease = Annotated[float, Field(ge=1, le=30 * 86400, allow_inf_nan=False)]
SpanField = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False), AS_TEXT_TOO]
LeaseField = Annotated[Lease, AS_TEXT_TOO]
WaitField = Annotated[float, Field(ge=0, le=30, allow_inf_nan=False), AS_TEXT_TOO]
Token = Annotated[int, Field(ge=0, le=MOST, description="The `token` of the pull: who holds the job.")]


WHOLE = re.compile(r"-?[0-9]{1,30}")
JOB_ID = re.compile(r"^job_([0-9]{1,4}x)?[0-9]{1,19}$")
LONGEST_JOB_ID = 28  # characters


def check_job_id(text: str) -> str:
    if not JOB_ID.fullmatch(text):
        raise InvalidInput("dialect_job_id_unreadable", id=mask_tokens(text)[:LONGEST_JOB_ID])
    return text


JobId = Annotated[
    str,
    fastapi.Path(description="As in `job_12`.", examples=["job_12"], json_schema_extra={"pattern": JOB_ID.pattern}),
    AfterValidator(check_job_id),
]


# What a schema says about size and choice. The operation refuses it, as in the library: by class, reason and facts.
ONE_LINE = "one_line"
NUMERIC = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"})
BOUNDS = NUMERIC | {
    "literal_error", "string_pattern_mismatch", "string_too_long", "string_too_short", "too_long", "too_short",
    ONE_LINE,
}  # fmt: skip


def leave_bounds(value: Any, check: Callable[[Any], Any]) -> Any:
    """Leave a value that is only out of bounds to the operation; one of another shape is refused here."""
    try:
        return check(value)
    except ValidationError as problem:
        kinds = {each["type"] for each in problem.errors(include_url=False, include_input=False)}
        parts = value if isinstance(value, list) else [value]
        if not kinds <= BOUNDS or not all(isinstance(each, str | int | float) for each in parts):
            raise
        return _number(value) if isinstance(value, str) and kinds <= NUMERIC else value


def _number(text: str) -> int | float:
    """Read a number, or a span, that was written as text."""
    return int(text) if WHOLE.fullmatch(text) else span_from(text).total_seconds()


def Query(*arguments: Any, **options: Any) -> Any:
    """Declare a parameter whose bounds its operation checks."""
    return _leaving_bounds(fastapi.Query(*arguments, **options))


def Path(*arguments: Any, **options: Any) -> Any:
    """Declare a part of a path whose bounds its operation checks."""
    return _leaving_bounds(fastapi.Path(*arguments, **options))


def _leaving_bounds(declared: Any) -> Any:
    declared.metadata.append(WrapValidator(leave_bounds))
    return declared


class Body(BaseModel):
    """A request body. An unknown name is refused, because it may be a misspelt one; so is a value of another JSON type,
    because `false` seconds are no seconds.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


class OperationBody(Body):
    """A body of our own doors, whose bounds an operation checks."""

    _leave_bounds = field_validator("*", mode="wrap")(leave_bounds)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the fields without a warning about values that were left to the operation, which refuses them."""
        return super().model_dump(**{"warnings": False, **options})
