"""Decisions, personas and reviews from the shell: the local command line is a person."""

from __future__ import annotations

from tests.cli.conftest import Command


def test_a_persona_is_set_and_blocks_a_decision(horae: Command) -> None:
    changed = horae(
        "persona", "set", "planner", "--block", "delete data", "--limit", "refund", "--reason", "new", "--json"
    )
    assert changed.json["boundaries"] == [
        {"text": "delete data", "effect": "block"}, {"text": "refund", "effect": "limit"},
    ]  # fmt: skip
    assert "blocks 'delete data', limits 'refund'" in horae("persona", "show", "planner").out
    assert [each["agent"] for each in horae("persona", "list", "--json").json["items"]] == ["planner"]
    assert [each["reason"] for each in horae("persona", "history", "planner", "--json").json["items"]] == ["new"]

    blocked = horae("decide", "on", "delete data of c-17", "--agent", "planner", "--json").json
    limited = horae("decide", "on", "refund 40", "--agent", "planner", "--risk", "low")
    assert (blocked["outcome"], blocked["gates"]["hits"]) == ("blocked", ["delete data"])
    assert "limited, because the persona limits: refund" in limited.out
    assert "delete data of c-17" in horae("decide", "show", blocked["id"]).out
    assert [each["outcome"] for each in horae("decide", "list", "--json").json["items"]] == ["limited", "blocked"]
    assert horae("decide", "list", "--outcome", "blocked", "--json").json["items"][0]["id"] == blocked["id"]


def test_a_review_is_asked_for_and_answered(horae: Command) -> None:
    horae("persona", "set", "*", "--value", "care")
    made = horae("decide", "on", "refund 40", "--json").json
    asked = horae("review", "ask", f"decision:{made['id']}", "--question", "Was it right?", "--json").json
    assert (asked["decision"], asked["state"], asked["question"]) == (made["id"], "open", "Was it right?")
    assert asked["id"] in horae("review", "list", "--open").out
    assert "Was it right?" in horae("review", "show", asked["id"]).out

    own = horae("review", "answer", asked["id"], "reject")
    assert own.code != 0
    assert "another person" in own.err


def test_what_makes_no_sense_is_refused_with_what_would(horae: Command) -> None:
    horae("persona", "set", "*", "--value", "care")
    assert horae("decide", "on", "x", "--risk", "huge").code == 2
    assert horae("decide", "on", "x", "--cite", "mem_1").code == 2
    assert horae("decide", "on", "x", "--cite", "memory:mem_1").code == 3
    assert horae("decide", "show", "dec_1").code == 3
    assert horae("review", "answer", "rev_1", "maybe").code == 2
    assert horae("review", "show", "rev_1").code == 3
    assert horae("persona", "show", "nobody").code == 3
    assert horae("persona", "set", "two words", "--block", "x y").code == 2


def test_what_is_not_there_is_neither_taken_back_nor_erased(horae: Command) -> None:
    horae("persona", "set", "*", "--value", "care")
    assert horae("object", "rollback", "mem_1", "--dry-run").code == 3
    assert horae("object", "erase", "mem_1").code == 3
    assert horae("object", "erase").code == 2
    assert (
        "0 objects, 0 jobs, 0 rows of attention and 0 conversations erased"
        in horae("object", "erase", "--subject", "c-17").out
    )
