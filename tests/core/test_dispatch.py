"""What travels between workers and a relay, and how long each waits for the other."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.dispatch import CALLS, Ask, BusCall, Subjects, hold_for, patience, read_ask, read_call
from horae.core.jobs.job import renewal_pause
from horae.errors import InvalidInput

LEASE = timedelta(seconds=30)
ASK = Ask("a", "host-1-x", "host:1:x", "mail", 3, LEASE)


@given(st.timedeltas(timedelta(seconds=1), timedelta(days=30)))
def test_a_job_that_is_taken_at_the_last_moment_is_renewed_before_its_lease_ends(lease: timedelta) -> None:
    assert hold_for(lease) < patience(lease)
    assert patience(lease) + renewal_pause(lease) < lease


def test_an_ask_and_a_call_are_read_as_they_were_sent() -> None:
    call = BusCall("c", "host-1-x", "settle", {"endings": []})

    assert read_ask(ASK.as_json()) == ASK
    assert read_call("settle", call.as_json()) == call


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""}, {"id": "x" * 201}, {"id": None}, {"to": "a.b"}, {"to": ">"}, {"to": ""}, {"worker": 7},
        {"slots": -1}, {"slots": 1001}, {"slots": True}, {"slots": 1.5}, {"lease": "30"}, {"lease": float("nan")},
        {"queue": ["mail"]},
    ],
)  # fmt: skip
def test_an_ask_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        read_ask({**ASK.as_json(), **wrong})


@pytest.mark.parametrize("raw", [None, [], "x", {}, {"id": "a", "to": "b", "arguments": []}])
def test_a_call_that_makes_no_sense_is_refused(raw: Any) -> None:
    with pytest.raises(InvalidInput):
        read_call("settle", raw)


@pytest.mark.parametrize("name", ["claim", "cancel", "revive", "store", ""])
def test_only_calls_of_a_workers_side_are_carried(name: str) -> None:
    assert name not in CALLS
    with pytest.raises(InvalidInput):
        read_call(name, {"id": "a", "to": "b", "arguments": {}})


def test_no_subject_of_dispatch_is_kept_by_the_stream_of_events() -> None:
    subjects = Subjects("shop.horae")

    for each in (subjects.ask, subjects.call("settle"), subjects.calls, subjects.to("x"), subjects.deliveries):
        assert not each.startswith("shop.horae.")
