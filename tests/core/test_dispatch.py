"""What an orchestrator is asked, and which answers count (S1-24 to S1-28, C-38)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.jobs.payloads import encode
from horae.core.outgoing.dispatch import (
    KEPT_BYTES,
    ROUTING,
    Routing,
    answer_of,
    drop_routing,
    question,
    truncate_answer,
)
from horae.errors import DispatchFailed, InvalidPayload
from tests.support.refusals import refused

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("payload", [{"text": "hello"}, {"input": "hello"}, {"text": "hello", "input": "other"}])
def test_the_text_is_text_or_the_older_input_s1_24(payload: dict[str, Any]) -> None:
    assert question(payload, Routing(), {})["text"] == "hello"


@pytest.mark.parametrize("payload", [{}, {"text": ""}, {"text": "  "}, {"text": 7}, {"text": ["a"]}, {"input": None}])
def test_a_payload_without_a_text_is_refused(payload: dict[str, Any]) -> None:
    with refused(InvalidPayload, "dispatch_text_missing"):
        question(payload, Routing(), {})


@pytest.mark.parametrize("context", ["a", [], 7, True])
def test_a_context_that_is_no_object_is_refused_s1_24(context: Any) -> None:
    with refused(InvalidPayload, "dispatch_context_unreadable"):
        question({"text": "a", "context": context}, Routing(), {})


def test_the_context_gets_what_is_known_and_cannot_claim_otherwise_s1_24() -> None:
    asked = question(
        {"text": "a", "context": {"channel": "x", "user_id": "mallory"}},
        Routing(),
        {"user_id": "alice", "scheduled_task_id": None},
    )

    assert asked["context"] == {"channel": "x", "user_id": "alice"}


def test_routing_keys_are_dropped_and_each_is_named_c_38() -> None:
    payload = {"text": "a", **dict.fromkeys(ROUTING, "mine")}

    left, warnings = drop_routing(payload)

    assert left == {"text": "a"}
    assert [warning.text.split()[0] for warning in warnings] == list(ROUTING)


@given(st.dictionaries(st.sampled_from([*ROUTING, "text", "context", "other"]), plain))
def test_whatever_a_payload_holds_it_cannot_bypass_the_orchestrator_s1_27(payload: dict[str, Any]) -> None:
    left, _ = drop_routing(payload | {"text": "a", "context": {}})
    asked = question(left, Routing("chosen", "keywords"), {})

    assert (asked["default_agent"], asked["mode"]) == ("chosen", "keywords")
    assert set(asked) == {"text", "context", "default_agent", "mode"}


@pytest.mark.parametrize(
    ("payload", "agent", "mode"),
    [
        ({}, "usual", "hybrid"),
        ({"default_agent": "mine"}, "mine", "hybrid"),
        ({"mode": "llm"}, "usual", "llm"),
        ({"default_agent": " mine ", "mode": "keywords"}, "mine", "keywords"),
        ({"default_agent": None, "mode": "  "}, "usual", "hybrid"),
    ],
)
def test_the_payloads_own_agent_and_mode_win_and_settings_fill_what_is_left_out_s1_25_s1_26_c_38(
    payload: dict[str, Any], agent: str, mode: str
) -> None:
    left, warnings = drop_routing({"text": "a", **payload})
    asked = question(left, Routing("usual", "hybrid"), {})

    assert (asked["default_agent"], asked["mode"]) == (agent, mode)
    assert not warnings


@pytest.mark.parametrize("name", ["default_agent", "mode"])
@pytest.mark.parametrize("value", [7, ["a"], {}, True, "x" * 201])
def test_an_agent_or_mode_that_is_no_short_text_is_refused(name: str, value: Any) -> None:
    with refused(InvalidPayload, "dispatch_choice_unreadable", name=name):
        question({"text": "a", name: value}, Routing(), {})


@pytest.mark.parametrize(
    "body",
    [b"", b"  \n", b"{}", b'{"items":[],"output":""}', b"[]", b"[1]", b"null", b'"ok"', b"nonsense", b"{", b"\xff\xfe",
     b'{"error":"boom"}', b'{"output":"x","error":"boom"}', b'{"output":NaN}', b'{"output":"\\u0000"}',
     b"[" * 100_000, b'{"a":' * 100_000],
)  # fmt: skip
def test_an_answer_that_says_nothing_or_nonsense_is_a_failure_s1_28(body: bytes) -> None:
    with pytest.raises(DispatchFailed):
        answer_of(body)


@given(st.binary(max_size=60) | plain.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_answer_or_a_failure(body: bytes) -> None:
    try:
        answer = answer_of(body)
    except DispatchFailed:
        return
    assert answer


@given(st.dictionaries(st.text("abc", max_size=3), plain, max_size=4))
def test_a_small_answer_is_kept_whole(answer: dict[str, Any]) -> None:
    assert truncate_answer(answer) == answer


@pytest.mark.parametrize(
    "answer", [{"output": "好" * 500_000}, {"items": ["x" * 40_000] * 10}, {"output": "\x01" * 90_000}]
)
def test_of_a_large_answer_a_bounded_part_is_kept_with_a_mark(answer: dict[str, Any]) -> None:
    part = truncate_answer(answer)

    assert part["truncated"] is True
    assert part["output"].endswith("(cut)")
    assert len(encode(part).encode()) <= KEPT_BYTES
