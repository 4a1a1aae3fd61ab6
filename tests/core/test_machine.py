"""A machine is its table: what is drawn happens, what is not drawn is refused."""

from itertools import product

import pytest

from horae.core.jobs.job import JOB
from horae.core.machine import Machine
from horae.errors import NotAllowed
from tests.support.refusals import refused

DOOR = Machine("door", "shut", {("shut", "opened"): "open", ("open", "shut"): "shut", ("open", "broken"): "gone"})
UNDRAWN = sorted(set(product(JOB.states, JOB.events)) - set(JOB.arrows))


@pytest.mark.parametrize(("state", "event"), sorted(JOB.arrows))
def test_every_arrow_that_is_drawn_is_followed(state: str, event: str) -> None:
    assert JOB.after(state, event) == JOB.arrows[state, event]


@pytest.mark.parametrize(("state", "event"), UNDRAWN)
def test_every_arrow_that_is_not_drawn_is_refused(state: str, event: str) -> None:
    with pytest.raises(NotAllowed):
        JOB.after(state, event)


def test_an_unknown_state_or_event_is_refused() -> None:
    with pytest.raises(NotAllowed):
        JOB.after("nowhere", "pulled")


def test_a_refusal_says_what_would_be_possible() -> None:
    with refused(NotAllowed, "transition_refused", state="open", event="opened"):
        DOOR.after("open", "opened")


def test_a_refusal_from_a_final_state_says_that_it_has_ended() -> None:
    with refused(NotAllowed, "already_ended", event="opened"):
        DOOR.after("gone", "opened")


def test_states_and_events_come_in_the_order_of_the_table() -> None:
    assert (DOOR.states, DOOR.events) == (("shut", "open", "gone"), ("opened", "shut", "broken"))


def test_only_a_state_without_arrows_is_final() -> None:
    assert [state for state in JOB.states if JOB.is_final(state)] == ["cancelled", "succeeded"]


def test_a_job_has_exactly_the_five_states_of_the_design() -> None:
    assert set(JOB.states) == {"queued", "running", "succeeded", "dead", "cancelled"}


def test_the_diagram_draws_every_arrow() -> None:
    drawn = DOOR.diagram().splitlines()

    assert drawn == [
        "stateDiagram-v2",
        "    [*] --> shut",
        "    shut --> open: opened",
        "    open --> shut: shut",
        "    open --> gone: broken",
        "    gone --> [*]",
    ]
