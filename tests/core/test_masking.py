"""Secrets in what comes back from outside: hidden however they were written down, and nothing else is."""

import base64
import json
import random
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.access.masking import MASK, hide_secrets

SECRET = 'k3Y-+/=?~ü"\\5f3a9c1e-Zz'
PLAIN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def b64(text: str, before: str = "", after: str = "", *, url_safe: bool = False) -> str:
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    return encode(f"{before}{text}{after}".encode()).decode()


def leaks(text: str, secret: str, size: int = 6) -> list[str]:
    """Which stretches of the secret can still be read."""
    return [secret[at : at + size] for at in range(len(secret) - size + 1) if secret[at : at + size] in text]


FORMS = {
    "as it is": SECRET,
    "JSON": json.dumps({"got": SECRET}),
    "JSON with its letters": json.dumps({"got": SECRET}, ensure_ascii=False),
    "JSON in JSON": json.dumps({"got": json.dumps({"x": SECRET})}),
    "JSON in JSON in JSON": json.dumps(json.dumps(json.dumps([SECRET]))),
    "percent": quote(SECRET, safe=""),
    "percent, slashes kept": quote(SECRET),
    "percent, small letters": "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    "percent twice": quote(quote(SECRET, safe=""), safe=""),
    "a form": quote_plus(f"Bearer {SECRET}"),
    "a URL in JSON": json.dumps({"url": f"https://x.example/?key={quote(SECRET, safe='')}"}),
    "JSON in a URL": quote(json.dumps({"x": SECRET})),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_a_secret_down_is_hidden(form: str) -> None:
    result = hide_secrets(f"you sent {FORMS[form]}!", [SECRET])

    assert result.startswith("you sent ")
    assert MASK in result
    for written in (SECRET, quote(SECRET, safe=""), json.dumps(SECRET)[1:-1]):
        assert leaks(result, written) == []


@pytest.mark.parametrize("url_safe", [False, True], ids=["standard", "url safe"])
@pytest.mark.parametrize("before", ["", "u", "us", "user:", "Bearer "])
@pytest.mark.parametrize("after", ["", "x", "xy", ":and more"])
def test_base64_is_hidden_wherever_the_secret_begins_in_it(url_safe: bool, before: str, after: str) -> None:
    """All three alignments, both alphabets, padded or not; also inside JSON, a URL and lines of 76."""
    encoded = b64(PLAIN, before, after, url_safe=url_safe)
    lines = "\n".join(encoded[at : at + 20] for at in range(0, len(encoded), 20))
    for text in (encoded, encoded.rstrip("="), json.dumps({"a": encoded}), quote(encoded, safe=""), lines):
        result = hide_secrets(f"<{text}>", [PLAIN])
        assert MASK in result
        assert leaks(result, encoded[8:-8], 8) == []


@pytest.mark.parametrize("at", [4, 10, 19, 30, len(PLAIN) - 4])
@pytest.mark.parametrize(
    "written",
    ['{{"a": "{0}", "b": "{1}"}}', "{0}\n{1}", "{1} {0}", "{0}{{gap}}{1}", '["{0}", "{1}"]'],
    ids=["fields", "lines", "turned round", "gap", "list"],
)
def test_a_secret_that_was_cut_in_two_is_hidden(at: int, written: str) -> None:
    result = hide_secrets(written.format(PLAIN[:at], PLAIN[at:]), [PLAIN])

    assert leaks(result, PLAIN, 5) == []


@pytest.mark.parametrize("left", [4, 5, 12, len(PLAIN) - 1])
@pytest.mark.parametrize("encode", [str, lambda text: json.dumps(text)[1:-1], lambda text: quote(text, safe="")])
def test_what_a_cut_leaves_of_a_secret_is_hidden(left: int, encode: object) -> None:
    """An answer is kept up to a limit; the limit may fall into a secret, or into the escape of one of its letters."""
    assert callable(encode)
    for secret in (PLAIN, "ü" * 20 + "%end%"):
        text = f"told: {encode(secret)[: len(encode(secret[:left]))]}"
        assert leaks(hide_secrets(text, [secret]), encode(secret), 5) == []
    assert leaks(hide_secrets("x" * 20 + quote("ü" * 20, safe="")[:-1], ["ü" * 20]), "%C3%BC%C3%BC", 8) == []


def test_the_rest_of_a_secret_at_the_beginning_is_hidden() -> None:
    assert hide_secrets(f"{PLAIN[-9:]} and more", [PLAIN]) == f"{MASK} and more"


def test_short_secrets_are_hidden_whole_and_in_halves() -> None:
    assert hide_secrets("pin 8d7f2a9c.", ["8d7f2a9c"]) == f"pin {MASK}."
    assert hide_secrets("8d7f and 2a9c", ["8d7f2a9c"]) == f"{MASK} and {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Bearer of good news",
        "nothing to see here %41 \\u0041 \\n",
        json.dumps({"status": "ok", "id": "job_12", "note": 'a "quoted" word'}),
        b64("some other text that is long enough"),
    ],
)
def test_what_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert hide_secrets(text, [PLAIN, "Bearer abcdefgh", "https://hooks.example/T0123/B4567"]) == text
    assert hide_secrets(text, []) == text


@given(st.text(max_size=200), st.text(alphabet="abcXYZ019-_", min_size=8, max_size=40), st.text(max_size=200))
def test_whatever_stands_around_it_a_secret_does_not_show(before: str, secret: str, after: str) -> None:
    result = hide_secrets(before + secret + after, [secret])

    assert secret not in result
    for encoded in (json.dumps(before + secret + after), quote(before + secret + after, safe="")):
        assert secret not in hide_secrets(encoded, [secret])


def test_a_text_made_to_keep_us_busy_is_hidden_whole() -> None:
    """A target knows what it was sent, and could answer with nothing but beginnings of it."""
    dice = random.Random(1)
    parts = [PLAIN[:20], PLAIN[5:30], PLAIN[-20:]]
    tangled = "".join(dice.choice(parts) + dice.choice(" %\\") for _ in range(3000))

    assert hide_secrets(tangled, [PLAIN]) == MASK


def test_a_text_that_repeats_one_letter_ends_soon() -> None:
    """It would be looked through again from every letter, if nobody counted."""
    assert set(hide_secrets("a" * 65536, ["a" * 4000])) == {MASK}
