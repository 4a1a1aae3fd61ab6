"""The judge itself: a clean history passes, and each kind of wrong is found."""

from dataclasses import replace

import pytest

from tests.support.history import Attempt, Effect, History, Live, complaints

LOST = Attempt(1, 1, "lost", None, 1, 1_000, 2_000)
DONE = Attempt(1, 3, "succeeded", "succeeded", 1, 2_500, 3_000, planned_at=1_000)
CLEAN = History(frozenset({1}), [LOST, DONE], effects=[Effect("ran", 1, 1, 99, 0.0), Effect("ran", 1, 3, 98, 0.0)])


def test_a_job_that_was_lost_once_and_then_succeeded_is_no_reason_to_complain() -> None:
    assert complaints(CLEAN) == []


def test_a_dead_job_has_ended_too() -> None:
    attempts = [replace(LOST, token=token, attempt=place + 1) for place, token in enumerate((1, 3, 5))]
    starts = [replace(each, started_at=each.token * 1_000, finished_at=each.token * 1_000 + 1) for each in attempts]

    assert complaints(History(frozenset({1}), starts, [Live(1, "dead", 6, 3)])) == []


@pytest.mark.parametrize(
    ("word", "history"),
    [
        ("lost", replace(CLEAN, acknowledged=frozenset({1, 2}))),
        ("unfinished", History(frozenset({1}), [], [Live(1, "queued", 0, 0)])),
        (
            "ended twice",
            replace(CLEAN, attempts=[replace(LOST, outcome="succeeded", state="succeeded", attempt=0), DONE]),
        ),
        ("ended and alive", replace(CLEAN, live=[Live(1, "running", 4, 1)])),
        ("stale ending", replace(CLEAN, attempts=[replace(DONE, token=1, attempt=0), replace(LOST, token=3)])),
        ("token twice", replace(CLEAN, attempts=[LOST, replace(DONE, token=1)], effects=())),
        ("token order", replace(CLEAN, attempts=[replace(LOST, finished_at=9_000), DONE])),
        ("overlap", replace(CLEAN, attempts=[LOST, replace(DONE, started_at=1_999)])),
        ("early", replace(CLEAN, attempts=[LOST, replace(DONE, planned_at=1_001)])),
        ("miscounted", replace(CLEAN, attempts=[LOST, replace(DONE, attempt=0)])),
        ("ghost", replace(CLEAN, effects=[Effect("ran", 1, 2, 99, 0.0)])),
    ],
)
def test_each_kind_of_wrong_is_named(word: str, history: History) -> None:
    answer = complaints(history)

    assert any(line.startswith(word) for line in answer), answer
