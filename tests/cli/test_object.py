"""Governed objects and policies from the shell."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command


def a_memory(horae: Command, content: str = "Ann likes tea") -> str:
    made = horae("object", "propose", "memory", content, "--subject", "Ann", "--evidence", "chat:1", "--json").json
    found: str = made["id"]
    return found


def test_an_object_is_proposed_listed_shown_and_recalled(horae: Command) -> None:
    made = a_memory(horae)

    [listed] = horae("object", "list", "--status", "candidate", "--json").json["items"]
    assert (listed["id"], listed["next_action"]) == (made, "verify")
    assert made in horae("object", "list").out
    assert "Ann likes tea" in horae("object", "show", made).out
    assert "not verified" in horae("object", "recall", "ann").out
    assert "Nothing is remembered" in horae("object", "recall", "Bob").out
    assert horae("object", "list", "--contested").out.strip() == "No objects."


def test_its_verbs_move_it_and_its_history_tells_them(horae: Command) -> None:
    made = a_memory(horae)
    horae("object", "conclude", made, "confirmed", "--evidence", "web:1", "--confidence", "0.9")
    horae("object", "use", made)
    assert "1 new, 0 known" in horae("object", "evidence", made, "web:2").out
    assert "verify now" in horae("object", "verify", made).out
    assert "quarantine, contested" in horae("object", "contest", made, "--reason", "she said no").out
    told = [each["verb"] for each in horae("object", "history", made, "--json").json["items"]]
    assert told == ["open_review", "suspected", "asked", "evidence", "used", "verified", "proposed"]
    assert "she said no" in horae("object", "history", made).out
    assert "contested" in horae("object", "why", made).out
    assert "archive" in horae("object", "forecast", made).out


def test_why_says_who_found_what_and_that_evidence_is_missing(horae: Command) -> None:
    made = horae("object", "propose", "memory", "The mill closes at noon", "--json").json["id"]
    assert f"horae object evidence {made} REF" in horae("object", "why", made).out
    horae("object", "conclude", made, "inconclusive")
    assert "verdict   inconclusive" in horae("object", "why", made).out
    horae("object", "evidence", made, "web:1")
    assert "evidence  none" not in horae("object", "why", made).out


def test_it_is_superseded_archived_reinstated_and_retracted(horae: Command) -> None:
    old, new = a_memory(horae), a_memory(horae, "Ann likes coffee")
    assert horae("object", "supersede", old, new, "--json").json["superseded_by"] == new
    horae("object", "archive", new)
    assert "stale_uncertain" in horae("object", "reinstate", new).out
    assert "nothing planned" in horae("object", "retract", new).out


@pytest.mark.parametrize(("words", "reason"), [
    (("object", "use", "{id}"), "event_illegal"), (("object", "show", "mem_none"), "object_unknown"),
    (("object", "clear", "{id}"), "event_illegal"), (("object", "propose", "dream", "x"), "choice_unknown"),
    (("object", "contest", "{id}", "--if-version", "7"), "object_version_old"),
    (("policy", "set", "memory", "colour=red"), "policy_field_unknown"),
    (("policy", "set", "memory", "colour"), "setting_unreadable"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_reason(horae: Command, words: tuple[str, ...], reason: str) -> None:
    made = a_memory(horae)
    done = horae(*(each.format(id=made) for each in words), "--json")

    assert (done.code != 0, done.json["error"]["reason"]) == (True, reason)


def test_a_policy_is_set_shown_and_followed(horae: Command) -> None:
    made = a_memory(horae)
    horae("object", "conclude", made, "confirmed")
    changed = horae("policy", "set", "memory", "verify_budget=3", "target=0.95", "--reason", "sooner", "--json").json
    assert (changed["version"], changed["settings"]["verify_budget"], changed["changed"]) == (
        1, 3, ["target", "verify_budget"]
    )  # fmt: skip
    assert "* verify_budget" in horae("policy", "show", "memory").out
    assert "target, verify_budget" in horae("policy", "list").out
    assert "1 would move" in horae("governance", "replan", "--dry-run").out
    assert "1 moved" in horae("governance", "replan").out
    assert "0 would move" in horae("governance", "replan", "--dry-run").out


def test_the_report_is_read_in_both_languages_and_as_json(horae: Command) -> None:
    horae("object", "propose", "memory", "Ann likes tea", "--subject", "Ann", "--evidence", "chat:1")

    text = horae("governance", "report").out
    assert "Objects: 1, of which 1 are neither archived nor retracted." in text
    assert "memory  candidate  1" in text
    assert "对象：1 个" in horae("governance", "report", "--lang", "zh").out
    found = horae("governance", "report", "--last", "90d", "--json").json
    assert (found["grain"], found["events"], found["warnings"]) == ("week", {"proposed": 1}, [])
    assert found["objects"] == [{"kind": "memory", "state": "candidate", "count": 1}]


def test_objects_are_exported_to_a_file_of_ones_own_and_replace_nothing_unless_forced(horae: Command) -> None:
    made = a_memory(horae)
    ended = horae("object", "export", "objects.jsonl")
    lines = [json.loads(line) for line in Path("objects.jsonl").read_text().splitlines()]

    assert "objects.jsonl: 1 object, 1 piece of evidence and 1 version" in ended.out
    assert [next(iter(line)) for line in lines] == ["export", "object", "evidence", "version", "end"]
    assert (lines[1]["object"]["id"], lines[3]["version"]["content"]) == (made, "Ann likes tea")
    assert Path("objects.jsonl").stat().st_mode & 0o077 == 0
    assert horae("object", "export", "objects.jsonl").code == 2
    assert horae("object", "export", "objects.jsonl", "--force", "--json").json["export"]["objects"] == 1
    assert len(horae("object", "export", "-").out.splitlines()) == 5
