"""Queues and tables from a shell."""

import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def database(horae: Command) -> Path:
    assert horae("db", "migrate").code == 0
    return Path(".horae/horae.db")


def test_nobody_stops_horaes_own_jobs_from_a_shell(database: Path, horae: Command) -> None:
    assert horae("attention", "add", "report", "--lane", "ops", "--delay", "1h").code == 0
    (job,) = horae("job", "list", "--queue", "horae", "--json").json["items"]

    assert horae("job", "list", "--json").json["items"] == []
    assert horae("queue", "list", "--json").json["items"] == []
    assert [each["name"] for each in horae("queue", "list", "--machinery", "--json").json["items"]] == ["horae"]
    for command in (["job", "cancel", job["id"]], ["queue", "pause", "horae"], ["queue", "limit", "horae", "1"],
                    ["job", "enqueue", "work", "--queue", "horae"]):  # fmt: skip
        refused = horae(*command)
        assert (refused.code, "Horae's own" in refused.err) == (4, True), command
    assert horae("worker", "horae.cli.demo.example:app", "--queues", "horae=1").code == 2


def test_migrate_makes_the_tables_and_a_second_time_changes_nothing(horae: Command) -> None:
    first, second = horae("db", "migrate", "--json"), horae("db", "migrate", "--json")

    assert first.json["schema"]["migrated"] is True
    assert second.json["schema"]["migrated"] is False


def test_check_of_a_missing_file_finds_nothing_and_makes_nothing(environment: Path, horae: Command) -> None:
    ended = horae("db", "check")

    assert ended.code == 3
    assert list(environment.iterdir()) == []


def test_check_of_an_empty_database_is_a_finding_with_the_remedy(environment: Path, horae: Command) -> None:
    (environment / "empty.db").touch()

    ended = horae("db", "check", "--db", "sqlite:///empty.db")

    assert ended.code == 6
    assert "horae db migrate" in ended.err


def test_check_after_migrate_is_content(database: Path, horae: Command) -> None:
    assert horae("db", "check", "--json").json["schema"]["current"] is True


def test_a_paused_queue_says_who_and_resumes(database: Path, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_ACTOR", "ada")
    horae("queue", "pause", "mail", "--reason", "moving")

    paused = horae("queue", "list")
    horae("queue", "resume", "mail")
    (resumed,) = horae("queue", "list", "--json").json["items"]

    assert "paused by ada" in paused.out
    assert resumed["paused_at"] is None


def test_a_queue_is_limited_and_the_limit_is_lifted(database: Path, horae: Command) -> None:
    limited = horae("queue", "limit", "mail", "2", "--json").json
    lifted = horae("queue", "limit", "mail", "none", "--json").json

    assert limited["max_running"] == 2
    assert lifted["max_running"] is None


@pytest.mark.parametrize("limit", ["0", "many"])
def test_a_limit_that_stops_the_queue_is_refused(limit: str, database: Path, horae: Command) -> None:
    assert horae("queue", "limit", "mail", limit).code == 2


def test_no_queue_is_told_in_words(database: Path, horae: Command) -> None:
    assert horae("queue", "list").out == "No queue yet.\n"


def test_a_new_database_in_a_new_folder_is_its_owners_alone(horae: Command, environment: Path) -> None:
    before = os.umask(0o022)
    try:
        assert horae("db", "migrate", "--db", "sqlite:///new/folder/jobs.db").code == 0
    finally:
        os.umask(before)

    assert stat.S_IMODE((environment / "new/folder/jobs.db").stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_named_with_what_to_do(horae: Command, environment: Path) -> None:
    (environment / "notes.txt").write_text("not a database at all, but long enough to be read as one\n" * 20)

    ended = horae("job", "list", "--db", "sqlite:///notes.txt")

    assert ended.code == 1
    assert "notes.txt cannot be used" in ended.err
    assert "horae db restore" in ended.err
