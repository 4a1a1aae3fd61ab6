"""Errors with the same cause share a fingerprint; others do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horae.core.jobs.fingerprints import LONGEST_TITLE, fingerprint, normalize

TRACE = """{line}

Traceback (most recent call last):
  File "/srv/app/mail.py", line {number}, in send
    go()
{line}
"""


def traced(line: str, number: int = 7) -> str:
    return TRACE.format(line=line, number=number)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TimeoutError: no answer in 30 s", "TimeoutError: no answer in 31.5 s"),
        ("KeyError: 'order-17'", "KeyError: 'order-18'"),
        ("Missing: order 0f8fad5b-d9cb-469f-a165-70867728950e", "Missing: order 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ("Late: due 2030-01-07T06:00:00Z", "Late: due 2031-02-08 07:01:02.5+01:00"),
        ("Broken: <Thing at 0x7f1ecd27ea50>", "Broken: <Thing at 0x55aa>"),
        ("Refused: ann@example.org is unknown", "Refused: bob@example.com is unknown"),
        ("Conflict: commit 1a2b3c4d5e", "Conflict: commit 99ffee0011aa"),
        (traced("ValueError: x", 7), traced("ValueError: x", 99)),
        ("ValueError", "ValueError"),
    ],
)
def test_what_varies_does_not_split_a_group(one: str, other: str) -> None:
    assert fingerprint("mail.send", one) == fingerprint("mail.send", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("TimeoutError: no answer", "ConnectionError: no answer"),
        ("ValueError: bad name", "ValueError: bad number"),
        (traced("ValueError: x"), traced("ValueError: x").replace("in send", "in read")),
        (traced("ValueError: x"), traced("ValueError: x").replace("mail.py", "sms.py")),
    ],
)
def test_another_cause_is_another_group(one: str, other: str) -> None:
    assert fingerprint("mail.send", one).hash != fingerprint("mail.send", other).hash


def test_handlers_do_not_share_a_group() -> None:
    assert fingerprint("a", "ValueError: x").hash != fingerprint("b", "ValueError: x").hash


def test_a_group_is_named_by_kind_message_and_function() -> None:
    found = fingerprint("mail.send", traced("TimeoutError: no answer in 30 s from 'smtp.example.org'"))
    assert (found.kind, found.where) == ("TimeoutError", "mail.py:send")
    assert found.title == "TimeoutError: no answer in <n> s from <text>"


def test_a_sentence_without_a_type_is_its_own_kind() -> None:
    found = fingerprint("mail.send", "The printer is on fire: again")
    assert (found.kind, found.title, found.where) == ("", "The printer is on fire: again", "")


def test_files_are_compared_without_their_folders() -> None:
    here = fingerprint("h", traced("ValueError: x"))
    there = fingerprint("h", traced("ValueError: x").replace("/srv/app/", "C:\\srv\\other\\"))
    assert here == there


@given(st.text(max_size=300))
def test_any_text_has_a_fingerprint_of_bounded_size(error: str) -> None:
    found = fingerprint("h", error)
    assert len(found.hash) == 32
    assert len(found.title) <= LONGEST_TITLE
    assert normalize(normalize(error)) == normalize(error) or len(error) > LONGEST_TITLE
