"""Budgets from the shell: set, shown, corrected, and drawn on by what is enqueued there."""

import pytest

from tests.cli.conftest import Command


def test_a_budget_is_set_listed_shown_and_corrected(horae: Command) -> None:
    made = horae("budget", "set", "llm", "tokens", "2_000", "--reason", "a first limit", "--json").json
    assert (made["name"], made["unit"], made["period"], made["capacity"], made["left"]) == (
        "llm", "tokens", "day", 2000, 2000,
    )  # fmt: skip
    horae("budget", "set", "llm/ada", "micros", "none", "--period", "month")

    listed = horae("budget", "list", "--json").json["items"]
    assert [(each["agent"], each["unit"], each["capacity"]) for each in listed] == [
        ("*", "tokens", 2000), ("ada", "micros", None),
    ]  # fmt: skip
    assert "llm/ada" in horae("budget", "list").out
    changed = horae("budget", "adjust", "llm", "tokens", "2500", "--reason", "spent by hand", "--json").json
    assert (changed["settled"], changed["left"], changed["overdrawn"]) == (2500, -500, 500)
    assert "-500 (overdrawn)" in horae("budget", "show", "llm", "tokens").out
    refund = horae("budget", "adjust", "llm", "tokens", "--reason", "a refund", "--json", "--", "-1000").json
    assert refund["settled"] == 1500
    [period] = horae("budget", "history", "llm", "tokens", "--json").json["items"]
    assert (period["settled"], period["overdrawn"]) == (1500, 500)


def test_what_is_enqueued_and_scheduled_here_draws_on_it(horae: Command) -> None:
    made = horae("job", "enqueue", "ask", "--budget", "llm/ada", "--cost", "tokens=400", "--cost", "micros=7", "--json")
    job = horae("job", "show", made.json["id"], "--json").json
    shown = job.get("job", job)
    assert (shown["budget"], shown["cost"]) == ("llm/ada", {"calls": 1, "tokens": 400, "micros": 7})
    assert "llm/ada, at most 1 calls, 400 tokens, 7 micros an attempt" in horae("job", "show", made.json["id"]).out

    added = horae(
        "schedule",
        "add",
        "digest",
        "--handler",
        "ask",
        "--every",
        "1h",
        "--budget",
        "llm",
        "--cost",
        "tokens=400",
        "--json",
    ).json  # fmt: skip
    assert (added["budget"], added["cost"]) == ("llm", {"tokens": 400})
    assert horae("schedule", "change", "digest", "--budget", "none", "--json").code == 2, "its cost would be left"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "llm", "euros", "5"), "calls, tokens, micros"),
        (("set", "llm", "tokens", "many"), "no whole number"),
        (("set", "llm", "tokens", "5", "--period", "week"), "day, month, ever"),
        (("show", "llm", "tokens"), "no budget llm:tokens:day"),
        (("adjust", "llm", "tokens", "5", "--reason", " "), "Say why"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(arguments: tuple[str, ...], words: str, horae: Command) -> None:
    horae("db", "migrate")
    refused = horae("budget", *arguments)
    assert refused.code in (2, 3, 4)
    assert words in refused.err
