"""After a failure: how often, how long (C-11)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.jobs.retry import LONGEST, MAX_ATTEMPTS, Retry, time_limit
from horae.errors import DefinitionError, InvalidInput
from tests.support.refusals import refused


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


policies = st.one_of(
    st.just(Retry.none()),
    st.builds(Retry.fixed, st.integers(0, 10**6), st.integers(1, 50)),
    st.builds(
        Retry.exponential,
        first=st.floats(0, 1e4),
        attempts=st.integers(1, 100),
        factor=st.floats(1, 100),
        cap=st.floats(0, 1e7),
        jitter=st.booleans(),
    ),
    st.builds(Retry.external, st.integers(1, 9), st.integers(0, 99), st.none() | st.integers(0, 99)),
)


def test_by_default_three_attempts_five_minutes_apart() -> None:
    assert (Retry().attempts, Retry().wait(1, 0.3)) == (3, seconds(300))


def test_none_is_one_attempt() -> None:
    assert Retry.none().attempts == 1


@pytest.mark.parametrize("failures", [1, 2, 9])
def test_a_fixed_wait_is_always_the_same(failures: int) -> None:
    assert Retry.fixed(60).wait(failures, 0.9) == seconds(60)


@pytest.mark.parametrize(("failures", "wait"), [(1, 3), (2, 6), (3, 12), (4, 20), (63, 20), (64, 20), (10**6, 20)])
def test_an_exponential_wait_doubles_up_to_its_cap(failures: int, wait: int) -> None:
    assert Retry.exponential(3, cap=20, jitter=False).wait(failures, 0.5) == seconds(wait)


@pytest.mark.parametrize(("roll", "wait"), [(0.0, 0.0), (0.5, 4.0), (0.25, 2.0)])
def test_full_jitter_draws_evenly_from_zero_to_the_bound(roll: float, wait: float) -> None:
    assert Retry.exponential(4).wait(2, roll) == seconds(wait)


def test_a_number_is_seconds_and_a_span_is_itself() -> None:
    assert Retry.fixed(1.5) == Retry.fixed(timedelta(milliseconds=1500))


def test_external_without_a_default_gives_up() -> None:
    assert (Retry.external().gives_up, Retry.external(default=5).gives_up) == (True, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"delay": timedelta(seconds=-1)},
        {"cap": timedelta(seconds=-1)},
        {"factor": 0.5},
        {"kind": "often"},
    ],
    ids=str,
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Retry(**wrong)


@given(policies)
def test_a_policy_survives_its_journey_through_json(policy: Retry) -> None:
    assert Retry.from_json(policy.as_json(), policy.attempts).as_json() == policy.as_json()


@given(policies, st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_negative_and_never_above_the_cap(policy: Retry, failures: int, roll: float) -> None:
    wait = policy.wait(failures, roll)

    assert timedelta(0) <= wait <= (policy.cap if policy.kind == "exponential" else policy.delay)


@pytest.mark.parametrize("attempts", [0, -1, 2.5, True, "3", None, MAX_ATTEMPTS + 1, 10**12])
def test_a_count_of_attempts_that_no_store_could_keep_is_refused_in_words(attempts: Any) -> None:
    with refused(DefinitionError, ("attempts_not_whole", "attempts_too_few", "attempts_too_many")):
        Retry.fixed(1, attempts=attempts)


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 0.5])
def test_a_factor_that_leads_nowhere_is_refused(factor: float) -> None:
    with refused(DefinitionError, "retry_factor_too_low"):
        Retry.exponential(1, factor=factor)


def test_a_wait_beyond_any_calendar_is_refused() -> None:
    with refused(DefinitionError, "retry_delay_too_long"):
        Retry.fixed(timedelta.max)


def test_a_policy_that_an_older_version_stored_can_still_be_read() -> None:
    answer = Retry.from_json({"kind": "fixed", "delay": timedelta.max.total_seconds()}, attempts=10**12)

    assert (answer.attempts, answer.delay) == (MAX_ATTEMPTS, LONGEST)


@pytest.mark.parametrize("limit", [0, -1, timedelta(0), timedelta.max, float("nan"), "soon"])
def test_a_time_limit_that_leaves_no_time_or_never_ends_is_refused_in_words(limit: Any) -> None:
    with refused(InvalidInput, ("no_time_left", "span_too_long", "duration_unreadable", "span_unreadable")):
        time_limit(limit)


def test_no_time_limit_is_none() -> None:
    assert (time_limit(None), time_limit(1.5)) == (None, timedelta(seconds=1.5))


def test_no_retry_is_one_attempt_however_it_is_written() -> None:
    assert Retry("none", attempts=5) == Retry.none()


class Mine(ConnectionError):
    """An exception of an application."""


def test_exceptions_are_named_by_class_or_by_text() -> None:
    policy = Retry.fixed(1, on=(ConnectionError, Mine, "requests.Timeout"), never="KeyError")

    assert policy.on == ("ConnectionError", f"{__name__}.Mine", "requests.Timeout")
    assert policy.never == ("KeyError",)
    assert Retry.from_json(policy.as_json(), policy.attempts) == policy
    assert "on" not in Retry.fixed(1).as_json()


@pytest.mark.parametrize(
    ("on", "never", "raised", "given_up"),
    [
        ((), (), [{"OSError"}], False),
        ("OSError", (), [{"TimeoutError", "OSError"}], False),
        ("OSError", (), [{"KeyError"}], True),
        ((), "OSError", [{"TimeoutError", "OSError"}], True),
        ((), "OSError", [{"KeyError"}], False),
        ("OSError", "TimeoutError", [{"TimeoutError", "OSError"}], True),
        ("OSError", (), [{"OSError"}, {"KeyError"}], True),
        ("OSError", (), [{"OSError"}, {"OSError"}], False),
        ((), "KeyError", [{"OSError"}, {"KeyError"}], True),
    ],
)
def test_never_wins_over_on_and_each_exception_of_a_group_counts(
    on: Any, never: Any, raised: Any, given_up: bool
) -> None:
    assert Retry.fixed(1, on=on, never=never).rules_out(raised) is given_up


@pytest.mark.parametrize("given", [int, 5, "not a name", "a..b", "", [None], "x" * 300, ["ValueError"] * 51])
def test_what_names_no_exception_is_refused(given: Any) -> None:
    with refused(DefinitionError, ("retry_type_unreadable", "retry_types_too_many")):
        Retry.fixed(1, on=given)


def test_an_exception_in_both_lists_is_refused() -> None:
    with refused(DefinitionError, "retry_type_twice", name="ValueError"):
        Retry.fixed(1, on=[ValueError, KeyError], never="ValueError")
