"""Chains and exports of the audit: what a verification finds, from the lines alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from horae.api.audit import Verification, parse_heads, verify_export
from horae.core.audit.chain import GENESIS, ChainCheck, Complaint, Head, Seal, hash_link
from horae.core.audit.entries import ALWAYS_HASHED, Entry, PrivateReason, entry_body, hash_entry, without_floats
from horae.core.audit.exports import Line, closing_line, entry_line, header_line, last_line, write_line
from horae.errors import InvalidInput
from horae.words.audit import COMPLAINTS
from tests.support.refusals import refused

FROZEN = Path(__file__).parent / "data" / "audit_chain.jsonl"
HEADS = {
    "alice": "e54be352d60a25b2496461709a90cdc4a7298726d792f63c2ac6677de48a5c6b",
    "system": "eea6bd5a96c5d0bbe6b07832bea72718373742ec9e5a57412590896b827edf88",
}
NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)


def frozen() -> list[str]:
    return FROZEN.read_bytes().decode().split("\n")[:-1]


def all_complaints(found: Verification) -> list[str]:
    return [*found.complaints, *(line for each in found.chains for line in each.complaints)]


# -- chains of earlier releases ----------------------------------------------------------------------------------------


def test_a_chain_that_was_sealed_before_there_were_optional_fields_verifies_for_ever() -> None:
    """The file was made by the code of 2026-11; never make it anew."""
    found = verify_export(frozen(), HEADS)

    assert (found.sound, all_complaints(found)) == (True, [])
    assert {each.owner: (each.entries, each.head) for each in found.chains} == {
        owner: (3, head) for owner, head in HEADS.items()
    }


def test_entries_of_earlier_releases_hash_as_they_did() -> None:
    """Not only their lines: read into today's Entry, and hashed from there, as a verification of a database does."""
    lines = [json.loads(line) for line in frozen()]
    previous = dict.fromkeys(HEADS, GENESIS)
    for line in (each for each in lines if "hash" in each):
        facts = {each.name: line[each.name] for each in fields(Entry) if each.name in ALWAYS_HASHED}
        at = datetime.fromisoformat(line["at"])
        entry = Entry(**{**facts, "at": at, "evidence": tuple(line["evidence"])})
        assert hash_entry(previous[entry.owner], line["seq"], line["id"], entry) == line["hash"]
        previous[entry.owner] = line["hash"]
    assert previous == HEADS


@dataclass(frozen=True, slots=True)
class LaterEntry(Entry):
    """An entry of a later release."""

    weather: str | None = None
    degrees: int = 0


def test_an_added_field_changes_the_hash_of_entries_that_carry_it_alone() -> None:
    given = (NOON, "ann", "pause", "queue", "mail")

    assert hash_entry(GENESIS, 1, 1, LaterEntry(*given)) == hash_entry(GENESIS, 1, 1, Entry(*given))
    assert hash_entry(GENESIS, 1, 1, LaterEntry(*given, weather="rain")) != hash_entry(GENESIS, 1, 1, Entry(*given))
    assert entry_body(1, 1, LaterEntry(*given, degrees=7)) == entry_body(1, 1, Entry(*given)) | {"degrees": 7}


def test_an_entry_about_an_object_is_hashed_without_the_reason_that_stands_beside_it() -> None:
    reason = PrivateReason("Ann asked for it", "key")
    plain = Entry(NOON, "ann", "contest", "memory", "mem_1", event_kind="investigation", reason_digest=reason.digest)
    kept = replace(plain, private_reason=reason)

    assert entry_body(1, 1, kept) == entry_body(1, 1, plain)
    assert entry_body(1, 1, kept)["reason_digest"] == reason.digest != PrivateReason("Ann asked for it", "k2").digest
    assert "risk" not in entry_body(1, 1, kept)


def test_the_fields_that_are_always_hashed_never_change() -> None:
    assert {each.name for each in fields(Entry)} >= ALWAYS_HASHED
    assert len(ALWAYS_HASHED) == 10


def test_an_older_release_verifies_entries_with_fields_that_it_does_not_know() -> None:
    chain = sealed([LaterEntry(NOON, "ann", "pause", "queue", "mail", "alice", risk="high"), an_entry("resume")])

    assert verify_export(exported(chain)).sound


def test_no_floating_point_number_is_kept() -> None:
    state = {"seconds": 90.0, "share": 0.25, "list": [1.5, (2.0, None)], "whole": 3, "is": True, "nan": float("inf")}

    assert without_floats(state) == {
        "seconds": 90, "share": "0.25", "list": ["1.5", [2, None]], "whole": 3, "is": True, "nan": "inf",
    }  # fmt: skip
    assert all(type(each) is not float for each in without_floats(state).values())


def test_half_a_surrogate_pair_is_hashed_too() -> None:
    """It is no text, but JSON can carry it, and refusing it would stop a chain for ever."""
    assert hash_link(GENESIS, {"reason": json.loads('"\\ud800"')})


# -- files that were touched -------------------------------------------------------------------------------------------


def an_entry(verb: str, owner: str = "alice", reason: str = "moving") -> Entry:
    return Entry(NOON, "ann", verb, "queue", "mail", owner, reason, after={"paused_by": "ann\u2028"})


def sealed(entries: list[Entry]) -> list[Line]:
    """The lines of one owner's chain."""
    head, lines = Head(entries[0].owner), []
    for number, entry in enumerate(entries, 10):
        seal = Seal(number, head.seq + 1, hash_entry(head.hash, head.seq + 1, number, entry))
        lines.append(entry_line(seal, entry))
        head = Head(head.owner, seal.seq, seal.hash)
    return [*lines, closing_line(head)]


def exported(*chains: list[Line]) -> list[str]:
    entries = sum(len(chain) - 1 for chain in chains)
    body = [line for chain in chains for line in chain]
    lines = [header_line(NOON, None, len(chains), entries), *body, last_line(len(chains), entries)]
    return [write_line(line) for line in lines]


@pytest.fixture
def lines() -> list[str]:
    """The header, three entries of alice and her closing line, two of bob and his, the end."""
    alice = sealed([an_entry(verb) for verb in ("pause", "resume", "limit")])
    return exported(alice, sealed([an_entry(verb, "bob") for verb in ("pause", "resume")]))


def test_an_export_that_was_not_touched_is_sound(lines: list[str]) -> None:
    found = verify_export(lines)

    assert (found.sound, all_complaints(found)) == (True, [])
    assert [(each.owner, each.entries) for each in found.chains] == [("alice", 3), ("bob", 2)]
    assert all(line.isascii() and len(line.splitlines()) == 1 for line in lines)


TOUCHED: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "changed": (lambda lines: [each.replace("resume", "delete") for each in lines], "entry 11 was changed"),
    "a field added": (lambda lines: [lines[0], lines[1].replace("{", '{"risk":"low",', 1), *lines[2:]], "entry 10 was"),
    "missing": (lambda lines: lines[:2] + lines[3:], "before entry 12: 1 entries are missing"),
    "reordered": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], "stands after number 3"),
    "the last of a chain missing": (lambda lines: lines[:3] + lines[4:], "should end at entry 3"),
    "twice": (lambda lines: [*lines[:3], *lines[2:]], "entry 11 is number 2"),
    "a chain missing": (lambda lines: lines[:5] + lines[8:], "should hold 2 chains with 5 entries"),
    "a chain twice": (lambda lines: [*lines[:5], *lines[1:]], "begins a second time"),
    "no header": (lambda lines: lines[1:], "does not begin with the header"),
    "cut off": (lambda lines: lines[:4], "it was cut off"),
    "cut off inside a line": (lambda lines: [*lines[:4], lines[4][:30]], "line 5 is not a line"),
    "cut off before the end": (lambda lines: lines[:-1], "no last line"),
    "empty": (lambda lines: [], "does not begin with the header"),
    "more behind the end": (lambda lines: [*lines, lines[1]], "line 10: there is more"),
    "no closing line": (lambda lines: lines[:4] + lines[5:], "has no closing line"),
    "another head": (
        lambda lines: [each.replace('"head":"', '"head":"0') for each in lines],
        "should end with the hash",
    ),
    "another owner": (
        lambda lines: [*lines[:2], lines[2].replace("alice", "bob"), *lines[3:]],
        "was cut off, or lines",
    ),
    "not JSON": (lambda lines: [*lines[:2], "nonsense\n", *lines[3:]], "line 3 is not a line"),
    "not an object": (lambda lines: [*lines[:2], "[1]\n", *lines[3:]], "line 3 is not a line"),
    "nested without end": (lambda lines: [*lines[:2], "[" * 200_000, *lines[3:]], "line 3 is not a line"),
    "another version": (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "version 2"),
}


@pytest.mark.parametrize("how", TOUCHED)
def test_a_file_that_was_touched_is_not_sound(lines: list[str], how: str) -> None:
    touch, words = TOUCHED[how]

    found = verify_export(touch(lines))

    assert not found.sound
    assert any(words in line for line in all_complaints(found)), all_complaints(found)


def test_one_changed_entry_is_one_complaint(lines: list[str]) -> None:
    found = verify_export([*lines[:2], lines[2].replace("moving", "nothing"), *lines[3:]])

    assert all_complaints(found) == ["entry 11 was changed, or moved, after it was sealed"]


def test_entries_removed_from_the_end_with_a_rewritten_closing_line_need_a_head_kept_elsewhere(
    lines: list[str],
) -> None:
    """Appended, then truncated: the file is whole in itself."""
    whole = sealed([an_entry(verb) for verb in ("pause", "resume", "limit")])
    kept = {"alice": whole[-1]["head"]}
    shorter = exported(sealed([an_entry(verb) for verb in ("pause", "resume")]))

    assert verify_export(shorter).sound
    found = verify_export(shorter, kept)
    assert not found.sound
    assert "is not in this chain" in found.chains[0].complaints[0]


def test_a_head_kept_earlier_is_found_in_a_chain_that_went_on(lines: list[str]) -> None:
    earlier = json.loads(lines[2])["hash"]

    assert verify_export(lines, {"alice": earlier, "bob": GENESIS}).sound
    assert not verify_export(lines, {"bob": earlier}).sound
    assert all_complaints(verify_export(lines, {"carol": earlier})) == [str(Complaint("chain_missing"))]


def test_heads_are_read_as_owner_and_hash() -> None:
    link = "a" * 64

    assert parse_heads([f"alice={link}", f"a=b={link}"]) == {"alice": link, "a=b": link}
    for wrong in ("alice", f"={link}", "alice=abc", f"alice={link.upper()}"):
        with refused(InvalidInput, "audit_head_unreadable"):
            parse_heads([wrong])
    with refused(InvalidInput, "audit_heads_differ", owner="alice"):
        parse_heads([f"alice={link}", f"alice={'b' * 64}"])


def test_every_complaint_has_its_sentence() -> None:
    check = ChainCheck("alice", "f" * 64)
    check.add({"seq": 2, "id": 7}, "x")
    check.add({"seq": 1, "id": 6}, "y")
    found = check.end(Head("alice", 2, "z"))

    assert [each.reason for each in found.complaints] == [
        "entries_missing", "entry_out_of_order", "chain_head_differs", "kept_head_unknown",
    ]  # fmt: skip
    assert all(each.reason in COMPLAINTS and str(each) != each.reason for each in found.complaints)
