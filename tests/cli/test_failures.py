"""Exit codes: one table, every error of the family in it, nothing but one line for the reader."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from horae import errors
from horae.cli.failures import CODES, MEANING, Exit, exit_code
from tests.cli.conftest import Command

FAMILY = [
    error
    for error in vars(errors).values()
    if inspect.isclass(error) and issubclass(error, errors.HoraeError) and error is not errors.HoraeError
]


def bare(error: type[errors.HoraeError]) -> errors.HoraeError:
    return error.__new__(error)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArguments, 2),
        (errors.InvalidCron, 2),
        (errors.NotFound, 3),
        (errors.NotAllowed, 4),
        (errors.KeyConflict, 5),
        (errors.LeaseLost, 5),
        (errors.StoreUnavailable, 69),
        (errors.StoreFull, 69),
        (errors.StoreBusy, 75),
        (errors.SchemaMissing, 78),
        (errors.SchemaTooNew, 78),
        (errors.DefinitionError, 78),
        (errors.ConfigurationError, 78),
        (errors.HandlerFailed, 1),
    ],
)
def test_an_error_has_the_exit_code_that_is_documented(error: type[errors.HoraeError], code: int) -> None:
    assert exit_code(bare(error)) == code


@pytest.mark.parametrize("error", FAMILY, ids=lambda error: error.__name__)
def test_no_error_of_the_family_ends_with_success(error: type[errors.HoraeError]) -> None:
    assert exit_code(bare(error)) != Exit.OK


def test_a_child_stands_before_its_parent_in_the_table() -> None:
    kinds = [kind for kind, _ in CODES]
    for place, kind in enumerate(kinds):
        assert not any(issubclass(later, kind) for later in kinds[place + 1 :])


def test_every_exit_code_is_explained() -> None:
    assert set(MEANING) == set(Exit)


def test_an_error_is_one_line_on_stderr_and_nothing_on_stdout(horae: Command) -> None:
    ended = horae("job", "show", "job_1")

    assert ended.code == 3
    assert ended.out == ""
    assert ended.err.startswith("error: There is no database")
    assert ended.err.count("\n") == 1


def test_with_json_the_error_is_the_document_on_stdout(horae: Command) -> None:
    ended = horae("job", "show", "job_1", "--json")

    assert ended.json["error"]["code"] == "not_found"
    assert ended.json["error"]["message"] in ended.err


def test_with_json_reason_and_facts_come_along(horae: Command) -> None:
    horae("db", "migrate")

    error = horae("job", "show", "job_1", "--json").json["error"]

    assert (error["code"], error["reason"], error["facts"]) == ("not_found", "job_unknown", {"id": "job_1"})


def test_a_usage_error_is_json_too(horae: Command) -> None:
    ended = horae("job", "shwo", "--json")

    assert ended.code == 2
    assert ended.json["error"]["code"] == "usage"
    assert "show" in ended.json["error"]["message"]


def test_json_behind_two_dashes_is_an_argument_and_not_a_wish(horae: Command) -> None:
    ended = horae("job", "show", "--", "--json")

    assert ended.code == 3
    assert ended.out == ""


def test_no_command_at_all_shows_the_help(horae: Command) -> None:
    ended = horae()

    assert ended.code == 2
    assert "Commands:" in ended.err
    assert "error:" not in ended.err


@pytest.mark.parametrize("command", [("job", "list"), ("db", "migrate"), ("doctor",), ("config", "show"), ("server",)])
@pytest.mark.parametrize("url", ["nonsense", "shop.db", "sqlite://shop.db", "postgresql://me:hush@db:port/x", "://"])
def test_an_unreadable_url_is_a_matter_of_configuration(horae: Command, command: tuple[str, ...], url: str) -> None:
    ended = horae(*command, "--db", url)

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("error: The database URL")
    assert "sqlite:///horae.db" in ended.err
    assert "hush" not in ended.err


@pytest.mark.parametrize(
    "url", ["postgresql+asyncpg://me:hush@db/x", "sqlite+aiosqlite:///x.db", "mysql+aiomysql://db/x"]
)
def test_an_asyncio_driver_is_named_with_what_to_write_instead(horae: Command, url: str) -> None:
    ended = horae("db", "migrate", "--db", url)

    assert ended.code == 78
    assert f"write {url.partition('+')[0]}://" in ended.err
    assert "hush" not in ended.err


def test_a_folder_that_cannot_be_made_is_named(horae: Command, environment: Path) -> None:
    (environment / "file").touch()

    ended = horae("job", "enqueue", "add", "--db", "sqlite:///file/below/jobs.db")

    assert ended.code == 69
    assert "The folder file/below of the database cannot be made" in ended.err


def test_a_database_that_does_not_answer_is_unavailable(horae: Command) -> None:
    ended = horae("queue", "list", "--db", "postgresql://nobody@127.0.0.1:1/nothing")

    assert ended.code == 69
    assert ended.err.count("\n") == 1
    assert ended.err.endswith("refused. Check its URL and state.\n")


def test_a_setting_that_cannot_be_read_is_named(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_LEASE", "soon")

    ended = horae("job", "list")

    assert ended.code == 78
    assert "HORAE_LEASE" in ended.err


def test_a_misspelled_setting_is_reported_with_the_one_meant(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORAE_DATABSE_URL", "sqlite:///elsewhere.db")

    assert "did you mean HORAE_DATABASE_URL?" in horae("job", "list").err


@pytest.mark.parametrize("arguments", [("schedule", "next", "1h"), ("--help",), ("job", "--help")], ids=" ".join)
def test_a_reader_who_has_seen_enough_is_no_failure(environment: Path, arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "horae", *arguments], stdout=closed, stderr=subprocess.PIPE, check=False
        )

    assert (ended.returncode, ended.stderr) == (0, b"")
