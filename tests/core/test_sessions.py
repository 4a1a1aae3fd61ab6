"""Sessions of the console: when one ends, and what proves that a form came from it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from horae.core.access.callers import digest_of
from horae.core.access.sessions import (
    IDLE,
    LONGEST,
    SECRET_LENGTH,
    Session,
    cookie_text,
    csrf_of,
    is_code,
    is_csrf_of,
    is_secret_of,
    mask_csrf,
    parse_cookie,
)
from horae.testing.clock import NOON

hexadecimal = st.text("0123456789abcdef", min_size=SECRET_LENGTH, max_size=SECRET_LENGTH)


def a_session(**fields: object) -> Session:
    known = {"session_id": "a" * 12, "digest": digest_of("s"), "csrf": "c" * 64, "owner": "alice", "scopes": ("tasks",)}
    times = {"created_at": NOON, "seen_at": NOON, "expires_at": NOON + LONGEST}
    return Session(**{**known, "actor": "token/1", **times, **fields})  # type: ignore[arg-type]


def test_a_session_ends_twelve_hours_after_the_last_request_and_at_its_latest_end() -> None:
    assert a_session().ends_at == NOON + IDLE
    assert a_session(seen_at=NOON + LONGEST - timedelta(minutes=1)).ends_at == NOON + LONGEST


def test_a_session_acts_as_the_caller_of_its_token() -> None:
    caller = a_session(token_id="t1", queues=("mail",)).caller
    assert (caller.owner, caller.scopes, caller.queues, caller.token_id, caller.actor) == (
        "alice", frozenset({"tasks"}), frozenset({"mail"}), "t1", "token/1",
    )  # fmt: skip


def test_only_the_secret_of_a_session_proves_it() -> None:
    assert is_secret_of(a_session(), "s")
    assert not is_secret_of(a_session(), "t")


def test_a_cookie_is_read_back_and_any_other_text_is_none() -> None:
    text = cookie_text("0123456789ab", "f" * 64)
    assert parse_cookie(text) == ("0123456789ab", "f" * 64)
    assert [parse_cookie(each) for each in ("", text[:-1], text + "0", text.upper(), f" {text}")] == [None] * 5


def test_a_code_has_one_form() -> None:
    assert is_code("0" * 40)
    assert not any(map(is_code, ("", "0" * 39, "g" * 40, "0" * 41, "0" * 40 + "\n")))


@given(hexadecimal, hexadecimal, hexadecimal)
def test_a_masked_token_is_that_of_its_secret_and_of_no_other(secret: str, pad: str, other: str) -> None:
    masked = mask_csrf(secret, pad)
    assert is_csrf_of(secret, masked)
    assert is_csrf_of(other, masked) == (other == secret)


def test_what_is_no_token_of_a_form_is_refused() -> None:
    assert not any(is_csrf_of("0" * 64, each) for each in ("", "0" * 64, "x" * 128, "0" * 129, "0" * 127))


def test_a_browser_without_a_session_has_a_secret_by_its_own_cookie() -> None:
    assert csrf_of("a") != csrf_of("b")
    assert len(csrf_of("a")) == SECRET_LENGTH
