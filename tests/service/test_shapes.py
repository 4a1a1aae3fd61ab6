"""What a body says is refused with a reason, also where pydantic reads it."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from horae.errors import InvalidInput
from horae.service.dialects.held_jobs import JobProgress
from horae.service.dialects.job_shapes import JobRequest, RescheduleJob


@pytest.mark.parametrize(
    ("shape", "body", "reason"),
    [
        (JobRequest, {"object_type": "memory"}, "object_parts_missing"),
        (JobRequest, {}, "object_or_handler_missing"),
        (JobRequest, {"handler": "a", "retry": {"kind": "none"}, "max_attempts": 2}, "retry_none_with_attempts"),
        (RescheduleJob, {}, "reschedule_empty"),
        (JobProgress, {"token": 1}, "progress_empty"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_a_reason(
    shape: type[BaseModel], body: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        shape.model_validate(body)

    (error,) = [each["ctx"]["error"] for each in caught.value.errors()]
    assert isinstance(error, InvalidInput)
    assert error.reason == reason
