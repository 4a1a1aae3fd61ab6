"""Times, spans and tables as people read them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horae.cli import words
from horae.cli.terminal import Terminal
from horae.errors import ConfigurationError, InvalidInput
from horae.settings import Settings, queues_from, unknown_names
from tests.support.refusals import refused

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [(0.003, "3 ms"), (2.51, "2.5 s"), (45, "45 s"), (120, "2 min"), (5400, "2 h"), (7200, "2 h"), (200_000, "2 d")],
)
def test_a_span_is_told_in_one_unit(seconds: float, answer: str) -> None:
    assert words.span(timedelta(seconds=seconds)) == answer


def test_a_time_is_told_relatively_and_exactly() -> None:
    assert words.both(NOON + timedelta(minutes=4), NOON) == "in 4 min (2030-01-07 12:04:00Z)"
    assert words.both(NOON - timedelta(hours=3), NOON) == "3 h ago (2030-01-07 09:00:00Z)"


def test_the_columns_of_a_table_line_up() -> None:
    lines = Terminal(Settings(), is_plain=True).table(("ID", "STATE"), [("job_1", "dead"), ("job_100", "queued")])

    assert lines == "ID       STATE\njob_1    dead\njob_100  queued"


def test_without_a_terminal_nothing_is_coloured() -> None:
    assert Terminal(Settings(), is_plain=True).state("dead") == "dead"
    assert "\x1b" in Terminal(Settings()).state("dead")


def test_queues_are_written_with_their_slots() -> None:
    assert queues_from("mail=3, reports") == {"mail": 3, "reports": 50}


@pytest.mark.parametrize("text", ["", "mail=", "mail=0", "=3", "mail=many", "mail=3,,reports"])
def test_what_does_not_name_queues_is_refused(text: str) -> None:
    with refused(InvalidInput, "queue_slots_unreadable"):
        queues_from(text)


def test_settings_come_from_the_environment() -> None:
    settings = Settings.read({"HORAE_QUEUES": "a=1", "HORAE_GRACE": "5s", "HORAE_LOG_FORMAT": "json"})

    assert settings.queues == {"a": 1}
    assert settings.grace == timedelta(seconds=5)
    assert settings.log_format == "json"
    assert settings.database_url == "sqlite:///.horae/horae.db"


def test_a_secret_database_url_can_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:secret@db/jobs\n")

    assert Settings.read({"HORAE_DATABASE_URL_FILE": str(secret)}).database_url == "postgresql://me:secret@db/jobs"
    with refused(ConfigurationError, "setting_file_unreadable", name="HORAE_DATABASE_URL"):
        Settings.read({"HORAE_DATABASE_URL_FILE": str(tmp_path / "nowhere")})


def test_a_setting_outside_its_words_is_refused() -> None:
    with refused(ConfigurationError, "setting_invalid", name="HORAE_SYNCHRONOUS"):
        Settings.read({"HORAE_SYNCHRONOUS": "OFF"})


def test_a_strange_name_is_told_with_the_one_meant() -> None:
    assert unknown_names({"HORAE_GRAC": "1", "HORAE_FAULT": "x", "HOME": "/"}) == {"HORAE_GRAC": "HORAE_GRACE"}
