"""``horae db export`` and ``import``."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from horae.stores.metadata import metadata
from horae.stores.transfer.rows import LEFT_OUT
from tests.cli.conftest import Command


@pytest.fixture
def filled(horae: Command) -> str:
    """A database with a job, a schedule and a token; returns the token's text."""
    horae("db", "migrate")
    horae("job", "enqueue", "add", "--queue", "sums")
    horae("schedule", "add", "nightly", "--handler", "add", "--cron", "0 3 * * *")
    token: str = horae("token", "create", "--owner", "ann", "--scopes", "tasks", "--json").json["token"]
    return token


def test_a_database_goes_through_a_file_into_another_one(filled: str, horae: Command, tmp_path: Path) -> None:
    done = horae("db", "export", "--out", "all.jsonl", "--json")
    new = f"sqlite:///{tmp_path}/new.db"
    horae("db", "migrate", "--db", new)
    imported = horae("db", "import", "all.jsonl", "--db", new, "--json")

    assert (done.code, imported.code) == (0, 0), imported.err
    assert done.json["export"]["rows"]["jobs"] == imported.json["import"]["rows"]["jobs"] == 1
    assert horae("job", "show", "job_1", "--db", new, "--json").json["job"]["queue"] == "sums"
    assert horae("schedule", "show", "nightly", "--db", new).code == 0
    assert horae("audit", "verify", "--db", new).code == 0
    again = horae("db", "import", "all.jsonl", "--db", new, "--json")
    again.assert_refused(4, "import_done_before")  # for whoever did not see the first one end
    horae("db", "export", "--out", "later.jsonl", "--db", new)
    other = horae("db", "import", "later.jsonl", "--db", new, "--json")
    other.assert_refused(4, "import_not_empty")
    assert "jobs" in other.json["error"]["facts"]["tables"]


def test_only_its_owner_may_read_the_file_and_no_token_is_in_it(filled: str, horae: Command, tmp_path: Path) -> None:
    horae("db", "export", "--out", "all.jsonl")
    file = tmp_path / "all.jsonl"

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert filled not in file.read_text()
    assert filled.removeprefix("horae_") not in file.read_text()
    assert not (tmp_path / "all.jsonl.partial").exists()
    horae("db", "export", "--out", "all.jsonl", "--json").assert_refused(2, "backup_exists")
    assert horae("db", "export", "--out", "all.jsonl", "--force").code == 0


def test_the_lines_go_to_stdout_without_a_file(filled: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "horae", "db", "export"], cwd=tmp_path, capture_output=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert lines[0]["horae_export"] == 1
    assert lines[-1]["counts"]["jobs"] == 1
    # A command of its own imports only what it uses: the file must have all tables all the same.
    assert set(lines[-1]["counts"]) == {name.removeprefix("horae_") for name in set(metadata.tables) - set(LEFT_OUT)}
    assert lines[-1]["counts"]["schedules"] == 1
    assert done.stderr.startswith(b"exported ")


def test_a_database_without_tables_and_a_missing_file_are_refused(filled: str, horae: Command, tmp_path: Path) -> None:
    horae("db", "export", "--out", "all.jsonl")

    horae("db", "import", "all.jsonl", "--db", f"sqlite:///{tmp_path}/new.db", "--json").assert_refused(
        78, "tables_old"
    )
    horae("db", "import", "none.jsonl", "--json").assert_refused(3, "backup_missing")
    horae("db", "export", "--db", f"sqlite:///{tmp_path}/none.db", "--json").assert_refused(3, "database_missing_here")
