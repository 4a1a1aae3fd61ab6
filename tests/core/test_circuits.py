"""When a target is left alone, and when it is asked again."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.outgoing.circuits import (
    CIRCUIT,
    Circuit,
    Patience,
    after_failure,
    after_nothing,
    after_success,
    request_call,
)
from horae.errors import NotAllowed

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
PATIENCE = Patience(failures=3, rest=timedelta(seconds=30), longest_rest=timedelta(minutes=2))


def failed(times: int, circuit: Circuit | None = None, now: datetime = NOON) -> Circuit:
    circuit = circuit or Circuit()
    for _ in range(times):
        circuit = after_failure(circuit, PATIENCE, now=now)
    return circuit


@pytest.mark.parametrize(("state", "event"), sorted(set(product(CIRCUIT.states, CIRCUIT.events)) - set(CIRCUIT.arrows)))
def test_an_arrow_that_is_not_drawn_is_refused(state: str, event: str) -> None:
    with pytest.raises(NotAllowed):
        CIRCUIT.after(state, event)


def test_a_target_is_called_while_it_fails_less_often_than_patience_allows() -> None:
    assert request_call(failed(2), PATIENCE, now=NOON) == (failed(2), None)


def test_a_success_in_between_begins_the_count_anew() -> None:
    assert failed(2, after_success(failed(2))).state == "closed"


def test_a_target_that_failed_too_often_is_left_alone_for_its_rest() -> None:
    _, wait = request_call(failed(3), PATIENCE, now=NOON + timedelta(seconds=10))

    assert wait == timedelta(seconds=20)


def test_after_the_rest_one_probe_is_let_through_and_no_second() -> None:
    later = NOON + timedelta(seconds=30)

    probing, first = request_call(failed(3), PATIENCE, now=later)
    _, second = request_call(probing, PATIENCE, now=later)

    assert (probing.state, first, second) == ("half-open", None, PATIENCE.probe)


def test_a_probe_that_succeeds_lets_all_follow() -> None:
    probing, _ = request_call(failed(3), PATIENCE, now=NOON + timedelta(seconds=30))

    assert after_success(probing) == Circuit()


def test_each_probe_that_fails_doubles_the_rest_up_to_the_longest() -> None:
    circuit, now, rests = failed(3), NOON, []
    for _ in range(4):
        _, wait = request_call(circuit, PATIENCE, now=now)
        assert wait is not None
        rests.append(wait.total_seconds())
        now += wait
        probing, _ = request_call(circuit, PATIENCE, now=now)
        circuit = after_failure(probing, PATIENCE, now=now)

    assert rests == [30, 60, 120, 120]


def test_a_probe_whose_caller_never_came_back_does_not_close_the_target_for_ever() -> None:
    later = NOON + timedelta(seconds=30)
    probing, _ = request_call(failed(3), PATIENCE, now=later)

    assert request_call(probing, PATIENCE, now=later + PATIENCE.probe)[1] is None


def test_a_probe_that_was_broken_off_lets_the_next_one_through() -> None:
    later = NOON + timedelta(seconds=30)
    probing, _ = request_call(failed(3), PATIENCE, now=later)

    assert request_call(after_nothing(probing, now=later), PATIENCE, now=later)[1] is None


@given(st.lists(st.sampled_from(["ask", "succeed", "fail", "nothing", "wait"]), max_size=60))
def test_whatever_happens_a_wait_is_bounded_and_ends(events: list[str]) -> None:
    circuit, now = Circuit(), NOON
    for event in events:
        match event:
            case "ask":
                circuit, _ = request_call(circuit, PATIENCE, now=now)
            case "succeed":
                circuit = after_success(circuit)
            case "fail":
                circuit = after_failure(circuit, PATIENCE, now=now)
            case "nothing":
                circuit = after_nothing(circuit, now=now)
            case _:
                now += timedelta(seconds=17)
        _, wait = request_call(circuit, PATIENCE, now=now)
        assert wait is None or timedelta(0) < wait <= max(PATIENCE.longest_rest, PATIENCE.probe)
        assert wait is None or request_call(circuit, PATIENCE, now=now + wait)[1] is None
