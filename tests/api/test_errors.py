"""An error is the same near and far: its class, its reason, its facts and its sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from horae.errors import InvalidInput, InvalidName, KeyConflict, LeaseLost, NotAllowed, NotFound
from tests.api.conftest import Sent
from tests.support.refusals import refused

LATER = datetime(2040, 1, 1, tzinfo=UTC)
UNKNOWN = "There is no job job_987654321. It may have been cleaned up; `horae job list` shows what there is."


def test_what_is_not_there_is_told_alike(rooms: Sent) -> None:
    with refused(NotFound, "job_unknown") as caught:
        rooms.house.jobs.get("job_987654321")

    assert (str(caught.value), caught.value.facts) == (UNKNOWN, {"id": "job_987654321"})
    assert repr(caught.value) == "NotFound('job_unknown', id='job_987654321')"


def test_a_transition_that_is_not_drawn_is_told_alike(rooms: Sent) -> None:
    made = rooms.house.jobs.enqueue("a", queue=f"q{uuid4().hex}")
    rooms.house.jobs.cancel(made.id)

    with refused(NotAllowed, "already_ended", thing="job", state="cancelled"):
        rooms.house.jobs.revive(made.id)


def test_what_a_class_knows_is_also_a_fact(rooms: Sent) -> None:
    queue = f"q{uuid4().hex}"
    made = rooms.house.jobs.enqueue("a", queue=queue, key=queue)

    with refused(KeyConflict, "key_taken", key=queue, job_id=made.id) as taken:
        rooms.house.jobs.enqueue("b", queue=queue, key=queue)
    with refused(LeaseLost, "lease_lost", job_id=made.id, token=7) as lost:
        rooms.house.jobs.ack(made.id, 7)

    assert (taken.value.key, taken.value.job_id) == (queue, made.id)
    assert (lost.value.job_id, lost.value.token) == (made.id, 7)


@pytest.mark.parametrize(
    ("kind", "reason", "facts", "wrong"),
    [
        (InvalidName, "name_unreadable", {"what": "handler", "value": "'no spaces'"}, {"handler": "no spaces"}),
        (InvalidInput, "run_at_and_delay", {}, {"handler": "a", "delay": 1, "run_at": LATER}),
    ],
)
def test_an_input_is_refused_alike(
    rooms: Sent, kind: type[InvalidInput], reason: str, facts: dict[str, Any], wrong: dict[str, Any]
) -> None:
    with refused(kind, reason, **facts):
        rooms.house.jobs.enqueue(**wrong)
