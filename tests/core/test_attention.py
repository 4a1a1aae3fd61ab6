"""Who gets the focus: a function of rows, clock and control, and of nothing else (document 002)."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.attention.lanes import Task, change
from horae.core.attention.task import (
    CLOSED,
    FINAL,
    TASK,
    Choice,
    Control,
    Policy,
    Rule,
    SafePoint,
    Weighed,
    at_safe_point,
    base_priority,
    choose,
    in_order,
    may_interrupt,
    top_of,
    wait_span,
    weight,
)
from horae.errors import InvalidInput, NotAllowed
from horae.testing.clock import NOON
from tests.support.refusals import refused

POLICY, FREE = Policy(), Control()
HOUR = timedelta(hours=1)


def ready(number: int, base: int, waited: timedelta = timedelta(0), **answer: Any) -> Weighed:
    return Weighed(number, "ready", base, ready_since=NOON - waited, **answer)


def suspended(number: int, base: int, stack_index: int) -> Weighed:
    return Weighed(number, "suspended", base, stack_index=stack_index)


def running(number: int, base: int, **answer: Any) -> Weighed:
    return Weighed(number, "running", base, **answer)


# -- the machine: S2-15, S2-16, section 3.2 ------------------------------------------------------------------------


def test_the_table_draws_the_fourteen_arrows_between_states_and_no_others() -> None:
    """T2 to T15; T1 is the entry."""
    assert len(TASK.arrows) == 14
    assert set(TASK.states) - {before for before, _ in TASK.arrows} == set(FINAL)


@pytest.mark.parametrize(("before", "after"), [("waiting", "running"), ("suspended", "running"), ("ready", "suspended"),
                                               ("waiting", "suspended"), ("running", "created")])  # fmt: skip
def test_no_event_leads_from_waiting_or_suspended_straight_to_the_focus(before: str, after: str) -> None:
    assert after not in {TASK.arrows[arrow] for arrow in TASK.arrows if arrow[0] == before}


@pytest.mark.parametrize(("state", "event"), list(product(FINAL, TASK.events)))
def test_nothing_leads_out_of_a_final_state(state: str, event: str) -> None:
    with pytest.raises(NotAllowed):
        TASK.after(state, event)


# -- order of the backlog: 3.5 ---------------------------------------------------------------------------------------


def test_the_backlog_is_served_by_weight_then_deadline_then_age_then_number() -> None:
    soon, old, young = ready(4, 40, due_by=NOON + HOUR), ready(9, 40, timedelta(minutes=2)), ready(1, 40)
    strong = ready(7, 41)

    assert [task.number for task in in_order([young, old, soon, strong], NOON, POLICY)] == [7, 4, 9, 1]


def test_a_task_gains_weight_while_it_is_ready_but_never_a_whole_margin() -> None:
    assert [weight(ready(1, 40, minutes * timedelta(minutes=1)), NOON, POLICY) for minutes in (0, 4, 5, 14, 10**6)] == [
        40, 40, 41, 42, 49,
    ]  # fmt: skip


def test_a_clock_that_went_backwards_ages_nobody() -> None:
    assert weight(replace(ready(1, 40), ready_since=NOON + HOUR), NOON, POLICY) == 40


def test_a_policy_under_which_age_could_interrupt_is_refused() -> None:
    with refused(InvalidInput, "aging_cap_too_high"):
        Policy(margin=5, aging_cap=9)


# -- a free focus ------------------------------------------------------------------------------------------------------


def test_what_was_begun_is_finished_before_something_equal_is_begun() -> None:
    assert choose([suspended(1, 40, 0), ready(2, 49)], NOON, FREE, POLICY) == Choice(1, resumes=True)


def test_a_ready_task_that_could_interrupt_the_top_goes_first() -> None:
    assert choose([suspended(1, 40, 0), ready(2, 50)], NOON, FREE, POLICY) == Choice(2)


def test_only_the_top_of_the_stack_is_resumed() -> None:
    """S2-13; invariant 4."""
    stack = [suspended(1, 20, 0), suspended(2, 60, 2), suspended(3, 40, 1)]

    assert choose(stack, NOON, FREE, POLICY) == Choice(2, resumes=True)


def test_nobody_is_chosen_while_somebody_runs() -> None:
    """S2-6; invariant 1."""
    assert choose([running(1, 0), ready(2, 99)], NOON, FREE, POLICY) is None


def test_nobody_is_chosen_while_control_does_not_let_the_agent_go_on() -> None:
    """S2-27; invariant 24."""
    assert choose([ready(1, 99)], NOON, CLOSED, POLICY) is None


def test_what_is_created_waiting_or_ended_is_never_chosen() -> None:
    rest = [Weighed(number, state, 99) for number, state in enumerate(("created", "waiting", *FINAL))]

    assert choose(rest, NOON, FREE, POLICY) is None


# -- a safe point: S2-17, S2-18, 3.4 -----------------------------------------------------------------------------------


def test_a_task_ten_above_the_focus_interrupts_it() -> None:
    """S2-7; invariant 11."""
    focus = running(1, 40)

    assert at_safe_point(focus, [focus, ready(2, 50)], FREE, POLICY) == SafePoint("interrupt", 2)
    assert at_safe_point(focus, [focus, ready(2, 49)], FREE, POLICY) == SafePoint("go on")


def test_age_never_interrupts() -> None:
    """Invariant 12."""
    focus = running(1, 40)

    assert at_safe_point(focus, [focus, ready(2, 49, timedelta(days=900))], FREE, POLICY) == SafePoint("go on")


def test_a_hold_is_obeyed_whatever_is_ready() -> None:
    """Invariant 10."""
    focus = running(1, 0, holds=True)

    assert at_safe_point(focus, [focus, ready(2, 99)], FREE, POLICY) == SafePoint("go on")


def test_a_cancel_comes_before_everything_else() -> None:
    focus = running(1, 0, cancel_requested=True)

    assert at_safe_point(focus, [focus, ready(2, 99)], CLOSED, POLICY) == SafePoint("cancel")


def test_control_can_forbid_to_go_on_and_to_interrupt() -> None:
    focus = running(1, 0)
    tasks = [focus, ready(2, 99)]

    assert at_safe_point(focus, tasks, replace(FREE, auto_continue=False), POLICY) == SafePoint("hold")
    assert at_safe_point(focus, tasks, replace(FREE, allow_interrupt=False), POLICY) == SafePoint("go on")


def test_a_full_stack_takes_no_further_interruption() -> None:
    focus = running(1, 0)
    full = [suspended(10 + stack_index, stack_index, stack_index) for stack_index in range(POLICY.depth)]

    assert at_safe_point(focus, [focus, ready(2, 99), *full], FREE, POLICY) == SafePoint("go on")


def test_there_is_no_safe_point_inside_an_action() -> None:
    with refused(InvalidInput, "no_safe_point"):
        at_safe_point(running(1, 0, phase="act"), [], FREE, POLICY)


# -- properties ------------------------------------------------------------------------------------------------------

tasks = st.lists(
    st.builds(
        Weighed,
        number=st.integers(1, 10**6),
        state=st.sampled_from(["created", "ready", "waiting", "suspended", "completed", "cancelled"]),
        base=st.integers(0, 99),
        ready_since=st.none() | st.integers(0, 10**6).map(lambda seconds: NOON - timedelta(seconds=seconds)),
        due_by=st.none() | st.integers(-100, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds)),
        stack_index=st.integers(0, 7),
    ),
    max_size=12,
    unique_by=lambda task: task.number,
)


@given(tasks, st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_the_rows(given_tasks: list[Weighed], random: Any) -> None:
    """Invariant 21. Two of a stack never share a place."""
    rows = [replace(task, stack_index=stack_index) for stack_index, task in enumerate(given_tasks)]
    shuffled = random.sample(rows, len(rows))

    assert choose(shuffled, NOON, FREE, POLICY) == choose(rows, NOON, FREE, POLICY)


@given(tasks)
def test_somebody_is_chosen_exactly_when_somebody_is_ready_or_suspended(rows: list[Weighed]) -> None:
    chosen = choose(rows, NOON, FREE, POLICY)

    assert (chosen is None) == (not any(task.state in ("ready", "suspended") for task in rows))


@given(st.lists(st.integers(0, 99), min_size=1, max_size=40))
def test_interrupting_again_and_again_leaves_a_stack_that_grows_upwards(bases: list[int]) -> None:
    """Invariant 3: every push needs a higher base, so last in, first out is priority order too."""
    focus, stack = running(0, bases[0]), list[Weighed]()
    for number, base in enumerate(bases[1:], 1):
        rival = ready(number, base)
        if may_interrupt(rival, focus, depth=len(stack), control=FREE, policy=POLICY):
            stack.append(replace(focus, state="suspended", stack_index=len(stack)))
            focus = replace(rival, state="running")

    held = [task.base for task in (*stack, focus)]
    assert all(low + POLICY.margin <= high for low, high in pairwise(held))
    assert top_of(stack) == (stack[-1] if stack else None)


# -- what cannot be built --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, 0, -1, float("inf"), float("nan"), "a", True, timedelta(0), timedelta.max])
def test_a_wait_without_a_finite_positive_timeout_cannot_be_built(timeout: object) -> None:
    """S2-23, S2-34; invariant 25."""
    with pytest.raises(InvalidInput):
        wait_span(timeout, POLICY)


def test_seconds_will_do_for_a_timeout() -> None:
    assert wait_span(90, POLICY) == wait_span(timedelta(seconds=90), POLICY) == timedelta(seconds=90)


@pytest.mark.parametrize("value", [-1, 100, 4.5, True, "9"])
def test_a_priority_outside_the_bands_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        base_priority(value)


@pytest.mark.parametrize(
    "answer", [{"do": "task"}, {"do": "coalesce", "kind": "alert"}, {"do": "log", "priority": 100}]
)
def test_a_rule_that_cannot_work_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Rule("db.down", **answer)


# -- the journal ---------------------------------------------------------------------------------------------------


def test_the_journal_keeps_the_stored_name_of_a_stack_index() -> None:
    """Journals are hashed and compared with the tables: a name in them never changes."""
    focus = Task(12, 1, "report", "running", 40)

    assert change("task", focus, replace(focus, state="suspended", stack_index=2)) == [
        "task", 12, {"state": "suspended", "place": 2}
    ]  # fmt: skip
