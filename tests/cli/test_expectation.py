"""`horae expectation list`, and `--expect` of schedules."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from horae.core.schedules.expectations import MissedRun
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import NOON
from tests.cli.conftest import Command


def test_an_expectation_is_set_changed_shown_and_lifted(horae: Command) -> None:
    added = horae(
        "schedule", "add", "backup", "--handler", "h", "--cron", "0 2 * * *", "--expect", "by 6:00", "--json"
    )  # fmt: skip
    assert added.json["expect"] == "by 06:00"
    assert horae("schedule", "change", "backup", "--expect", "within 90m", "--json").json["expect"] == "within 1h30m"
    assert "within 1h30m" in horae("schedule", "show", "backup").out
    assert horae("schedule", "change", "backup", "--expect", "none", "--json").json["expect"] is None
    refused = horae("schedule", "change", "backup", "--expect", "10m")
    assert refused.code == 2
    assert "write 'within 10m' (of being due) or 'every 10m'" in refused.err


def test_what_is_missing_is_listed(horae: Command, environment: Path) -> None:
    url = f"sqlite:///{environment / 'horae.db'}"
    horae("db", "migrate", "--db", url)
    assert horae("expectation", "list", "--db", url).out.strip() == "Nothing is missing."
    store = open_store(create_store_engine(url))
    missed = MissedRun(
        subject="schedule:1", schedule="backup", owner="system", handler="h", queue="default", expect="by 06:00",
        expected_at=NOON, due_at=NOON + timedelta(hours=4), last_due_at=NOON + timedelta(days=2), found_at=NOON,
        count=3,
    )  # fmt: skip
    store.transact(lambda tx: tx.expectations.add(missed))
    store.close()

    text = horae("expectation", "list", "--state", "open", "--db", url).out
    assert "backup" in text
    assert "by 06:00" in text
    (item,) = horae("expectation", "list", "--json", "--db", url).json["items"]
    assert (item["schedule"], item["state"], item["count"]) == ("backup", "open", 3)
    assert horae("expectation", "list", "--schedule", "other", "--json", "--db", url).json["items"] == []
    assert horae("expectation", "list", "--state", "lost", "--db", url).code == 2
