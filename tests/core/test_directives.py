"""What cognition may answer, and what cannot be built at all."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from horae.core.attention.directives import (
    KEEP,
    Act,
    Done,
    Facts,
    Fail,
    Pending,
    Proceed,
    Wait,
    Yield,
    check_answer,
    intent_hash,
    step_key,
    wait_keys,
)
from horae.core.attention.facts import Fact, FactList
from horae.core.attention.task import Policy
from horae.errors import HoraeError, InvalidInput
from horae.testing.clock import NOON
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("timeout", [None, 0, -3, float("inf"), timedelta(0), "soon"])
def test_a_wait_without_a_finite_timeout_cannot_be_built(timeout: Any) -> None:
    """S2-34; invariant 25."""
    with pytest.raises(InvalidInput):
        Wait("ack", timeout)
    with pytest.raises(InvalidInput):
        check_answer(Pending("ack", timeout), Policy())


@pytest.mark.parametrize(
    "answer",
    [{"receipt": 1}, "done", Facts(n=object()), Facts(n="x" * 2_000_000), Facts(n={1: 2}),
     Pending("a", timedelta(days=31)), Pending([], 5), Pending(5, 5)],  # type: ignore[arg-type]
    ids=["dict", "text", "no JSON", "too large", "keys", "too long", "no key", "odd key"],
)  # fmt: skip
def test_an_answer_that_cannot_be_used_is_refused_only_after_it_was_given(answer: Any) -> None:
    """Building it inside an action must not fail: by then the action has happened."""
    with pytest.raises(InvalidInput):
        check_answer(answer, Policy())


@pytest.mark.parametrize(
    "answer",
    [None, Facts(), Facts.partial(n=1), Pending("a", timedelta(days=30))],
    ids=["nothing", "facts", "partial facts", "a wait"],
)
def test_what_an_action_may_answer(answer: Any) -> None:
    assert check_answer(answer, Policy()) is answer


@pytest.mark.parametrize("build", [Wait, Pending])
def test_a_wait_needs_its_timeout_to_be_given(build: Callable[..., Any]) -> None:
    with pytest.raises(TypeError):
        build("ack")


def test_a_wait_may_name_several_keys_each_once() -> None:
    assert wait_keys(["a", "b", "a"]) == ("a", "b")
    with pytest.raises(InvalidInput):
        Wait([], MINUTE)


@pytest.mark.parametrize(
    "build",
    [
        lambda context: Act("read", context=context),
        lambda context: Wait("ack", MINUTE, context=context),
        lambda context: Proceed("grant", context=context),
        lambda context: Yield(context=context),
        lambda context: Done(context=context),
        lambda context: Fail("no", context=context),
    ],
)
def test_every_directive_carries_a_context_that_is_plain_json(build: Callable[[Any], Any]) -> None:
    """S2-12."""
    assert build({"step": [1, None, "ü"]}).context == {"step": [1, None, "ü"]}
    with pytest.raises(HoraeError):
        build(object())


def test_a_note_is_a_cue_and_not_a_report() -> None:
    assert Yield(note="read 2 of 4 sources").note == "read 2 of 4 sources"
    with refused(InvalidInput, "note_unreadable", most=500):
        Yield(note="x" * 501)


def test_a_note_and_a_reason_are_texts_that_every_database_can_keep() -> None:
    for build in (lambda: Yield(note="a\x00b"), lambda: Fail("a\x00b"), lambda: Fail("\ud800")):
        with pytest.raises(HoraeError):
            build()


def test_only_done_and_fail_are_final() -> None:
    assert [each.is_final for each in (Act, Wait, Proceed, Yield, Done, Fail)] == [False] * 4 + [True] * 2


def test_a_failure_has_a_reason() -> None:
    with pytest.raises(InvalidInput):
        Fail("  ")


def test_an_act_takes_the_arguments_of_its_action_whatever_their_names() -> None:
    given = {"amount": 40, "note": "n", "context": {}, "interruptible": "yes", "cites": 1, "action": "a", "self": None}
    act = Act("refund", arguments=given, interruptible=False)

    assert act.intent == {"action": "refund", "arguments": given}
    assert (act.interruptible, act.note, act.context, act.cites) == (False, KEEP, KEEP, ())
    given["amount"] = 41
    assert act.arguments["amount"] == 40


def test_an_act_refuses_arguments_outside_their_place_and_shows_it() -> None:
    with refused(InvalidInput, "act_keyword_unknown", keyword="amount", action="refund") as refusal:
        Act("refund", amount=40, to="c-17")  # type: ignore[arg-type]
    assert "Act('refund', arguments={'amount': …}, cites=[…])" in str(refusal.value)
    with refused(InvalidInput, "act_arguments_unreadable", given="list"):
        Act("refund", ["amount"])  # type: ignore[arg-type]


def test_an_act_cites_each_governed_object_once() -> None:
    act = Act("refund", cites=["memory:mem_ab12", "cognition:a:b", "memory:mem_ab12"])

    assert act.cites == ("memory:mem_ab12", "cognition:a:b")
    assert act.intent == {"action": "refund", "arguments": {}, "cites": ["memory:mem_ab12", "cognition:a:b"]}


@pytest.mark.parametrize(
    "cites",
    [["mem_ab12"], ["memory:"], ["memory: x"], ["Memory:x"], ["thing:x"], [1], "memory:x", 7,
     [f"memory:{n}" for n in range(51)], ["memory:" + "x" * 151], ["memory:a\nb"]],
)  # fmt: skip
def test_a_cite_is_a_kind_and_an_id(cites: Any) -> None:
    with pytest.raises(InvalidInput):
        Act("refund", cites=cites)


def test_partial_facts_say_so() -> None:
    assert (Facts(n=1).is_partial, Facts.partial(n=1).is_partial) == (False, True)
    with pytest.raises(HoraeError):
        check_answer(Facts(n=object()), Policy())


def test_facts_are_found_by_kind_and_action() -> None:
    result = FactList(
        (
            Fact("action_ok", NOON, {"action": "read", "lines": 1}),
            Fact("action_ok", NOON, {"action": "page"}),
            Fact("action_ok", NOON, {"action": "read", "lines": 2}),
            Fact("confirmed", NOON, {"grant": "g1"}),
        )
    )

    assert [fact["lines"] for fact in result.of("action_ok", "read")] == [1, 2]
    assert result.last("timed_out") is None
    last = result.last("confirmed")
    assert last is not None
    assert last.grant == "g1"


def test_the_key_of_a_step_depends_on_lane_task_and_step_alone() -> None:
    """Invariant 13."""
    assert step_key("ops", 1, 2) == step_key("ops", 1, 2)
    assert len({step_key("ops", 1, 2), step_key("ops", 2, 1), step_key("ops", 12, 0), step_key("op", 1, 2)}) == 4


def test_an_approval_is_bound_to_every_argument_and_to_no_order() -> None:
    """Invariant 18."""
    asked = {"action": "refund", "arguments": {"amount": 40, "to": "c"}}

    assert intent_hash(asked) == intent_hash({"arguments": {"to": "c", "amount": 40}, "action": "refund"})
    assert intent_hash(asked) != intent_hash({"action": "refund", "arguments": {"amount": 41, "to": "c"}})
