"""Types of parameters that several rooms share: keys, tenants, reasons, versions. Text that no database can store is
refused here.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header, Path, Query
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from horae.errors import InvalidInput
from horae.service.fields import JOB_ID, ONE_LINE, Body, OperationBody

_ETAG = re.compile(r'(?:W/)?"([0-9]{1,9})"')


def check_one_line(value: str) -> str:
    if not value.isprintable():
        raise PydanticCustomError(ONE_LINE, "use printable characters on one line")
    return value


def check_storable(value: str) -> str:
    if "\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise InvalidInput("text_not_storable", name="text")
    return value


JobId = Annotated[
    str, Path(description="As in `job_12`.", examples=["job_12"], json_schema_extra={"pattern": JOB_ID.pattern})
]
Line = Annotated[str, Field(max_length=255), AfterValidator(check_one_line)]
AuditReason = Annotated[str, Field(max_length=2000, description="For the audit."), AfterValidator(check_storable)]
ReasonQuery = Annotated[str, Query(max_length=2000, description="For the audit."), AfterValidator(check_storable)]
ScheduleKey = Annotated[
    str,
    Path(min_length=1, max_length=200, description="The key of the schedule.", examples=["nightly"]),
    AfterValidator(check_one_line),
]
TextFilter = Annotated[str | None, Query(max_length=255), AfterValidator(lambda value: value and check_one_line(value))]
Tenant = Annotated[
    str | None,
    Query(max_length=255, description="The tenant; only an operator may name another than its own."),
    AfterValidator(lambda value: value and check_one_line(value)),
]
IfMatch = Annotated[
    str | None,
    Header(max_length=200, description='The `ETag` that was read, `"3"`: refuse when it is no longer the current one.'),
]


class ReasonBody(Body):
    """An act by hand, and why."""

    reason: AuditReason = ""


class OperationReason(OperationBody, ReasonBody):
    """An act by hand with more fields, whose bounds its operation checks."""


def seconds_text(seconds: float) -> str:
    """Return an interval as schedules store it."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def etag(version: int) -> str:
    return f'"{version}"'


def version_from(if_match: str | None) -> int | None:
    """Return the version in an If-Match header; None for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise InvalidInput("if_match_unreadable")
    return int(found[1])
