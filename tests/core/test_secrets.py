"""References to secrets: found, resolved, and what was put in is taken out again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.access.secrets import MASK, hide_secrets, references, resolve_references, secret_text
from horae.errors import InvalidInput

CANARY = "CANARY-5f3a-secret"
TEXTS = {"a": "secret-one", "b": "secret-two"}


def test_references_are_found_wherever_they_are_and_replaced() -> None:
    message = {"x": [{"$secret": "a"}, 1, {"y": {"$secret": "b"}}], "z": {"$secret": "a"}, "$other": None}

    assert references(message) == ["a", "b"]
    assert resolve_references(message, TEXTS) == {
        "x": ["secret-one", 1, {"y": "secret-two"}],
        "z": "secret-one",
        "$other": None,
    }
    assert message["z"] == {"$secret": "a"}


def test_a_secret_that_looks_like_a_reference_stays_text() -> None:
    assert resolve_references({"$secret": "a"}, {"a": '{"$secret": "b"}'}) == '{"$secret": "b"}'


@pytest.mark.parametrize(
    "value",
    [
        {"$secret": f"whsec_{CANARY}"},
        {"$secret": {"$secret": "a"}},
        {"$secret": ""},
        {"$secret": None},
        {"$secret": CANARY + " "},
        {"$secret": "a", "prefix": CANARY},
        [{"$secret": f"n{number}"} for number in range(21)],
    ],
)
def test_what_is_no_clear_reference_is_refused_and_not_repeated(value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        references({"body": value})
    assert CANARY not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(JSON)
def test_a_value_without_references_stays_as_it_is(value: Any) -> None:
    assert references(value) == []
    assert resolve_references(value, {}) == value


@pytest.mark.parametrize(
    ("secret", "answer"),
    [
        (CANARY, f"you sent {CANARY}!"),
        (f"Bearer {CANARY}", f'{{"Authorization": "Bearer {CANARY}"}}'),
        (f"Bearer {CANARY}", f"bad token {CANARY}"),
        (f"https://hooks.example/{CANARY}/x", f"POST /{CANARY}/x"),
        (f'{CANARY}"\\ü', json.dumps({"got": f'{CANARY}"\\ü'})),
        (f'{CANARY}"\\ü', json.dumps({"got": f'{CANARY}"\\ü'}, ensure_ascii=False)),
        (f"{CANARY}\nsecond line", f"{CANARY}\nsecond line"),
    ],
)
def test_an_answer_that_repeats_a_secret_is_cleaned(secret: str, answer: str) -> None:
    cleaned = hide_secrets(answer, [secret_text(secret)])

    assert CANARY not in cleaned
    assert MASK in cleaned


def test_an_answer_without_secrets_stays_as_it_is() -> None:
    assert hide_secrets("Bearer of good news", ["Bearer abcdefgh"]) == "Bearer of good news"
    assert hide_secrets("plain", []) == "plain"
