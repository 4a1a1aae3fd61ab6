"""An error has a class, a reason and facts; its sentence is made when it is asked for."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from horae.errors import (
    Conflict,
    HandlerFailed,
    HoraeError,
    InvalidInput,
    LeaseLost,
    MissingExtra,
    NotFound,
    QuotaExceeded,
    StoreUnavailable,
    TooManyRequests,
)
from horae.words.sentences import ENGLISH, sentence


def test_the_sentence_is_made_of_reason_and_facts() -> None:
    error = NotFound("job_unknown", id="job_7")

    assert (error.code, error.reason, error.facts) == ("not_found", "job_unknown", {"id": "job_7"})
    assert str(error).startswith("There is no job job_7.")
    assert repr(error) == "NotFound('job_unknown', id='job_7')"


@pytest.mark.parametrize("text", ["The printer is on fire.", "boom", "job_unknown", ""])
def test_any_other_text_is_the_sentence_itself(text: str) -> None:
    """Also one that happens to be a reason of ours, without the facts that belong to it."""
    error = HandlerFailed(text)

    assert (str(error), error.reason, dict(error.facts), error.as_json()) == (text, "", {}, {})


def test_an_error_of_a_users_own_may_have_a_reason_of_its_own() -> None:
    class Refused(Conflict):
        def __init__(self, reason: str) -> None:
            Exception.__init__(self, "Refused, because of", reason)
            self.reason = reason

    assert Refused("rain").reason == "rain"
    assert str(Refused("rain")) == "('Refused, because of', 'rain')"
    assert dict(Refused("rain").facts) == {}


@pytest.mark.parametrize(
    "error",
    [
        NotFound("job_unknown", id="job_7"),
        LeaseLost("job_7", 3),
        QuotaExceeded("jobs", 3, "too_many_jobs", owner="alice", unfinished=3),
        TooManyRequests("Too often.", 2.5, "calls"),
        StoreUnavailable("redis_unreachable", outcome_unknown=True, problem="gone"),
        MissingExtra("redis_client_missing"),
        Conflict.received("A sentence from elsewhere.", "of_a_newer_service", {"id": 1}),
    ],
    ids=repr,
)
def test_an_error_survives_the_way_between_processes(error: HoraeError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), repr(again)) == (type(error), str(error), repr(error))
    assert (again.reason, again.facts) == (error.reason, error.facts)
    assert {**vars(again), "reason": ""} == {**vars(error), "reason": ""}


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), float("inf"), b"x", ("a", {1}), None, True, 3])
def test_facts_can_always_be_told_as_json(value: Any) -> None:
    error = InvalidInput("type_wrong", name="limit", value=value, expected="a number")

    answer = json.loads(json.dumps(error.as_json(), allow_nan=False))

    assert (answer["reason"], answer["facts"]["name"]) == ("type_wrong", "limit")
    assert "limit" in str(error)


@pytest.mark.parametrize("value", ["text", 3, 2.5, 1e300, None, ["a", "b"], []], ids=repr)
def test_every_sentence_can_be_made_whatever_its_facts_are(value: Any) -> None:
    class Anything(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            return value

    assert [reason for reason in ENGLISH if not sentence(reason, Anything())] == []
    assert [reason for reason in ENGLISH if not sentence(reason, Anything(), "zh")] == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"name": "wait", "value": 90, "most_days": 3}, "wait=0:01:30 is too long to be kept; 3 days fit."),
        ({"name": "wait", "value": 1e30, "most_days": 3}, "wait=1e+30 is too long to be kept; 3 days fit."),
        ({"name": "wait", "value": 90, "most_days": 12345}, "wait=0:01:30 is too long to be kept; 12,345 days fit."),
    ],
)
def test_numbers_are_read_by_people(facts: dict[str, Any], said: str) -> None:
    assert str(InvalidInput("span_too_long", **facts)) == said


def test_a_list_is_read_with_commas() -> None:
    error = InvalidInput("choice_unknown", name="order", value="odd", choices=["run_at", "priority"])

    assert str(error) == "order='odd' is not known; choose one of run_at, priority."


def test_an_error_is_not_put_into_words_until_it_is_read() -> None:
    class Loud(str):
        def __format__(self, spec: str) -> str:
            raise AssertionError("formatted too early")

    error = NotFound("job_unknown", id=Loud("job_7"))

    assert error.facts["id"] == "job_7"
