"""Signatures by Standard Webhooks: the checks e6-9, and the official package as a second opinion, both ways."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from horae.core.outgoing.signatures import SigningSecret, signed_headers, verify
from horae.errors import InvalidInput, SignatureRefused

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)
OLD, NEW = SigningSecret(b"o" * 32), SigningSecret(b"n" * 32)
BODY = '{"text":"早上好"}'.encode()
keys = st.binary(min_size=24, max_size=64).map(SigningSecret)


def test_what_one_side_signs_the_other_accepts_and_learns_the_id() -> None:
    assert verify([NEW], signed_headers([NEW], "job_7", BODY, now=NOON), BODY, now=NOON) == "job_7"


def test_the_example_of_the_specification_comes_out() -> None:
    secret = SigningSecret.read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'

    headers = signed_headers(
        [secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", body, now=datetime.fromtimestamp(1614265330, UTC)
    )

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_one_changed_byte_of_the_body_is_refused_e6_9(place: int, change: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= change

    with pytest.raises(SignatureRefused):
        verify([NEW], signed_headers([NEW], "job_7", BODY, now=NOON), bytes(changed), now=NOON)


@pytest.mark.parametrize("age", [timedelta(minutes=5, seconds=1), -timedelta(minutes=5, seconds=1)])
def test_an_old_or_future_timestamp_is_refused_e6_9(age: timedelta) -> None:
    with pytest.raises(SignatureRefused):
        verify([NEW], signed_headers([NEW], "job_7", BODY, now=NOON), BODY, now=NOON + age)


@pytest.mark.parametrize("age", [timedelta(minutes=5), -timedelta(minutes=5)])
def test_five_minutes_are_tolerated(age: timedelta) -> None:
    assert verify([NEW], signed_headers([NEW], "job_7", BODY, now=NOON), BODY, now=NOON + age)


@pytest.mark.parametrize("other", [{"webhook-id": "job_8"}, {"webhook-timestamp": str(int(NOON.timestamp()) + 1)}])
def test_a_swapped_id_or_timestamp_is_refused_e6_9(other: dict[str, str]) -> None:
    with pytest.raises(SignatureRefused):
        verify([NEW], signed_headers([NEW], "job_7", BODY, now=NOON) | other, BODY, now=NOON)


def test_during_rotation_either_secret_is_enough_e6_9() -> None:
    headers = signed_headers([NEW, OLD], "job_7", BODY, now=NOON)

    assert len(headers["webhook-signature"].split(" ")) == 2
    assert verify([OLD], headers, BODY, now=NOON) == "job_7"
    assert verify([NEW], headers, BODY, now=NOON) == "job_7"
    assert verify([NEW, OLD], signed_headers([OLD], "job_7", BODY, now=NOON), BODY, now=NOON) == "job_7"


def test_a_secret_that_is_no_longer_known_is_refused() -> None:
    with pytest.raises(SignatureRefused):
        verify([NEW], signed_headers([OLD], "job_7", BODY, now=NOON), BODY, now=NOON)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize(
    "value", [None, "", "x y.z", "v1,", "v2,AAAA", "9" * 13, "999999999999", "-1", "１２", "1e9", "\x00"]
)
def test_headers_that_are_absent_or_odd_are_refused(name: str, value: str | None) -> None:
    headers = signed_headers([NEW], "job_7", BODY, now=NOON)
    headers = {key: text for key, text in (headers | {name: value}).items() if text is not None}

    with pytest.raises(SignatureRefused):
        verify([NEW], headers, BODY, now=NOON)


@pytest.mark.parametrize("message_id", ["", "a.b", "a b", "x" * 129, "ü"])
def test_an_id_that_could_be_read_two_ways_is_never_signed(message_id: str) -> None:
    with pytest.raises(InvalidInput):
        signed_headers([NEW], message_id, BODY, now=NOON)


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_that_is_too_short_or_too_long_is_refused(size: int) -> None:
    with pytest.raises(InvalidInput):
        SigningSecret(b"x" * size)


@pytest.mark.parametrize("text", ["whsec_", "whsec_***", "whsec_CANARYé", "CANARY CANARY"])
def test_a_text_that_is_no_secret_is_refused_without_being_repeated_e6_20(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SigningSecret.read(text)
    assert "CANARY" not in str(refused.value)


@given(keys)
def test_a_secret_is_read_back_and_never_shown(secret: SigningSecret) -> None:
    assert SigningSecret.read(secret.reveal()) == secret
    assert SigningSecret.read(secret.reveal().rstrip("=")) == secret
    encoded = base64.b64encode(secret.key).decode()
    assert encoded not in f"{secret} {secret!r}"
    assert repr(secret.key) not in repr(secret)


@given(keys, st.text(max_size=40))
def test_the_official_package_accepts_what_we_sign_and_we_what_it_signs(secret: SigningSecret, text: str) -> None:
    official = standardwebhooks.Webhook(secret.reveal())
    now = datetime.now(UTC)
    body = text.encode(errors="replace")

    official.verify(body, signed_headers([NEW, secret], "job_7", body, now=now), json_parse=False)
    theirs = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": official.sign("msg_1", now, body.decode()),
    }
    assert verify([secret], theirs, body, now=now) == "msg_1"


def test_the_official_package_refuses_what_we_refuse() -> None:
    headers = signed_headers([NEW], "job_7", BODY, now=datetime.now(UTC))

    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(NEW.reveal()).verify(BODY + b" ", headers, json_parse=False)
