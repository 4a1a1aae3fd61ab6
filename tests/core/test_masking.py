"""What readers must not see: which names are sensitive, what stands in their place, and what edits keep."""

from base64 import b64encode
from typing import Any

import pytest

from horae.core.jobs.masking import MASK, is_sensitive, mask, mask_text, secrets_of, unmask
from horae.errors import InvalidPayload
from tests.support.refusals import refused


@pytest.mark.parametrize(
    "name",
    ["password", "Password", "db_password", "dbPassword", "API_KEY", "apiKey", "api-key", "token", "accessToken",
     "client_secret", "Authorization", "credentials", "privateKey", "passphrase", "HTTPAuthorization"],
)  # fmt: skip
def test_a_name_says_that_its_value_is_secret(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "token_count", "tokenizer", "secret_name", "key", "author", "order_id", "token_id", ""],
)
def test_a_name_that_only_resembles_one_is_shown(name: str) -> None:
    assert not is_sensitive(name)


def test_a_declared_name_is_masked_at_any_depth_and_nothing_else() -> None:
    value = {"iban": "DE1", "to": [{"iban": "DE2", "name": "Ann"}], "n": 3}
    assert mask(value, ["iban"]) == {"iban": MASK, "to": [{"iban": MASK, "name": "Ann"}], "n": 3}


def test_a_value_without_secrets_is_the_same_object() -> None:
    value = {"a": [1, {"b": "c"}], "password": None}
    assert mask(value) is value


@pytest.mark.parametrize("secret", ["hunter2", 1234, {"user": "a", "code": "b"}, ["a", "b"]])
def test_whatever_a_sensitive_name_holds_is_one_mask(secret: Any) -> None:
    assert mask({"password": secret}) == {"password": MASK}


def test_a_switch_is_no_secret_unless_it_is_declared() -> None:
    assert mask({"use_token": True}) == {"use_token": True}
    assert mask({"use_token": True}, ["use_token"]) == {"use_token": MASK}


def test_an_error_repeats_no_secret_of_its_job() -> None:
    secrets = secrets_of({"password": "hunter2", "auth": {"token": {"value": "abcd1234"}}, "pin": 987654}, ["pin"])
    text = "LoginError: hunter2 was refused for abcd1234 (987654), authorization: Bearer xyzxyzxyz"

    assert mask_text(text, secrets) == "LoginError: … was refused for … (…), authorization: Bearer …"


@pytest.mark.parametrize(
    "repeated",
    [
        "GET /login?key=corr%65ct%2Dhorse-battery",
        f"sent {b64encode(b'user:correct-horse-battery').decode()}",
        '{\\"note\\": \\"correct\\u002dhorse-battery\\"}',
        "…ct-horse-battery",
        "correct-horse-batt",
    ],
)
def test_an_error_repeats_no_secret_in_another_form_either(repeated: str) -> None:
    text = mask_text(f"refused: {repeated}", secrets_of({"password": "correct-horse-battery"}))
    assert text.startswith("refused: ")
    assert "horse" not in text
    assert b64encode(b"horse-battery").decode()[:8] not in text


def test_a_short_secret_is_not_looked_for_in_words() -> None:
    assert mask_text("a cat", secrets_of({"password": "a"})) == "a cat"


def test_a_mask_in_an_edit_means_the_value_that_was_there() -> None:
    before = {"user": "ann", "password": "hunter2", "hosts": [{"token": "t1"}, {"token": "t2"}]}
    edited = {"user": "bob", "password": MASK, "hosts": [{"token": MASK}, {"token": "t9"}]}

    assert unmask(edited, before) == {"user": "bob", "password": "hunter2", "hosts": [{"token": "t1"}, {"token": "t9"}]}


@pytest.mark.parametrize(
    ("edited", "at"),
    [({"new": MASK}, "payload.new"), ({"hosts": [{"token": MASK}]}, "payload.hosts[0].token"), (MASK, "payload")],
)
def test_a_mask_where_no_value_was_is_refused(edited: Any, at: str) -> None:
    before = {"hosts": [{"token": "t1"}, {"token": "t2"}]}
    with refused(InvalidPayload, "mask_without_value", at=at):
        unmask(edited, None if edited == MASK else before)
