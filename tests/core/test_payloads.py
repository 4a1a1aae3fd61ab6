"""What may travel with a job: plain, bounded JSON (issue 2, point 8)."""

import json
import math
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.jobs.payloads import MAX_BYTES, MAX_DEPTH, decode, depth, encode, label, name
from horae.errors import InvalidName, InvalidPayload
from tests.support.refusals import refused

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


def nested(levels: int) -> Any:
    value: Any = None
    for _ in range(levels):
        value = [value]
    return value


@given(plain)
def test_plain_json_comes_back_as_it_was(value: Any) -> None:
    assert decode(encode(value)) == value


@given(plain)
def test_the_text_is_compact_and_stable(value: Any) -> None:
    assert encode(decode(encode(value))) == encode(value)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**64), 10**4000], ids=["2^53+1", "-2^64", "10^4000"])
def test_whole_numbers_of_any_size_stay_exact(number: int) -> None:
    assert decode(encode(number)) == number


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, {1, 2}, b"bytes", object(), {"a": {"b": math.nan}}, 1j, {(1, 2): 3}],
    ids=lambda value: "object" if type(value) is object else str(value),
)
def test_what_is_not_json_is_refused(value: Any) -> None:
    with refused(InvalidPayload, "not_json"):
        encode(value)


@pytest.mark.parametrize(
    "value",
    [{1: 2, "1": 3}, {1: 2}, {None: 1}, {True: 1}, {1.5: 1}, [{"a": [{2: 1}]}], ({"a": {3: 4}},), {"a": {"b": {4: 5}}}],
    ids=str,
)
def test_keys_that_are_not_text_are_refused_because_json_would_change_or_lose_them(value: Any) -> None:
    with refused(InvalidPayload, "key_not_text"):
        encode(value)


def test_text_of_a_kind_of_its_own_is_a_key() -> None:
    class Colour(StrEnum):
        RED = "red"

    assert encode({Colour.RED: [Colour.RED]}) == '{"red":["red"]}'


def test_a_number_too_long_to_be_read_back_is_refused() -> None:
    with pytest.raises(InvalidPayload):
        encode(10**5000)


@pytest.mark.parametrize("value", ["\0", "a\0b", {"\0": 1}, ["\\\0"]], ids=ascii)
def test_nul_is_refused(value: Any) -> None:
    with refused(InvalidPayload, "nul_character"):
        encode(value)


def test_text_that_only_looks_like_nul_is_accepted() -> None:
    assert decode(encode("\\u0000")) == "\\u0000"


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\udc00"]], ids=ascii)
def test_a_lone_surrogate_is_refused(value: Any) -> None:
    with refused(InvalidPayload, "lone_surrogate"):
        encode(value)


@pytest.mark.parametrize(("levels", "fits"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_the_depth_limit_is_exact(levels: int, fits: bool) -> None:
    if fits:
        assert depth(decode(encode(nested(levels)))) == levels
        return
    with refused(InvalidPayload, "too_deep"):
        encode(nested(levels))


@pytest.mark.slow
def test_a_million_levels_are_refused_like_any_other_depth() -> None:
    with refused(InvalidPayload, "too_deep"):
        encode(nested(1_000_000))


def test_a_circle_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidPayload):
        encode(circle)


def test_many_brackets_are_not_mistaken_for_depth() -> None:
    assert encode([[]] * 1000) == json.dumps([[]] * 1000, separators=(",", ":"))


@pytest.mark.parametrize(("text", "fits"), [("ü" * (MAX_BYTES // 2 - 1), True), ("ü" * (MAX_BYTES // 2), False)])
def test_the_size_limit_counts_bytes(text: str, fits: bool) -> None:
    if fits:
        assert len(encode(text).encode()) == MAX_BYTES
        return
    with refused(InvalidPayload, "too_large", most=1048576):
        encode(text)


@pytest.mark.parametrize("good", ["a", "0", "mail.send_v2", "a:b/c@d-e", "x" * 100])
def test_a_good_name_is_taken(good: str) -> None:
    assert name(good, "queue") == good


@pytest.mark.parametrize("bad", ["", " ", "a b", "-a", ".a", "ü", "a\n", "a\0", "x" * 101, None, 1], ids=ascii)
def test_a_bad_name_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidName):
        name(bad, "queue")


@pytest.mark.parametrize("good", ["a b", "汉字", "🦉", "order:2030-01-07T06:00:00Z", "x" * 255])
def test_a_good_label_is_taken(good: str) -> None:
    assert label(good, "key") == good


@pytest.mark.parametrize("bad", ["", "a\nb", "\0", "\ud800", "x" * 256, " a", "a ", " ", None, 1], ids=ascii)
def test_a_bad_label_is_refused(bad: Any) -> None:
    """Space at the ends is refused because one database ignores it when it compares."""
    with pytest.raises(InvalidName):
        label(bad, "key")
