"""``horae audit verify``: sound or not, in words, JSON and exit code."""

import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.cli.conftest import Command


def test_a_forged_entry_is_named_and_the_exit_code_says_so(horae: Command) -> None:
    """Security check 19."""
    horae("db", "migrate", "--db", "sqlite:///a.db")
    horae("queue", "pause", "mail", "--reason", "upgrade", "--db", "sqlite:///a.db")
    ended = horae("audit", "verify", "--db", "sqlite:///a.db", "--json")
    assert (ended.code, ended.json["sound"]) == (0, True)
    with create_engine("sqlite:///a.db").begin() as connection:
        connection.execute(text("DROP TRIGGER horae_audit_no_change"))
        connection.execute(text("UPDATE horae_audit SET reason = 'nothing'"))

    ended = horae("audit", "verify", "--db", "sqlite:///a.db")

    assert ended.code == 6
    assert "entry 1 was changed" in ended.out


@pytest.fixture
def exported(horae: Command) -> Path:
    """The file of an export, of a database that is gone."""
    horae("db", "migrate", "--db", "sqlite:///a.db")
    for name in ("mail", "reports", "archive"):
        horae("queue", "pause", name, "--reason", "数据库升级", "--db", "sqlite:///a.db")
    ended = horae("audit", "export", "audit.jsonl", "--db", "sqlite:///a.db")
    assert (ended.code, "audit.jsonl: 3 entries" in ended.out) == (0, True)
    Path("a.db").unlink()
    return Path("audit.jsonl")


def test_an_export_is_verified_without_any_database(horae: Command, exported: Path) -> None:
    ended = horae("audit", "verify", "--file", "audit.jsonl", "--json")

    assert (ended.code, ended.json["sound"], ended.json["chains"][0]["entries"]) == (0, True, 3)
    assert not Path(".horae").exists()
    assert exported.stat().st_mode & 0o077 == 0


def test_a_touched_export_is_named_and_the_exit_code_says_so(horae: Command, exported: Path) -> None:
    exported.write_text(exported.read_text().replace("reports", "secrets"))

    ended = horae("audit", "verify", "--file", "audit.jsonl")

    assert (ended.code, "system: entry 2 was changed" in ended.out) == (6, True)


def test_a_head_kept_elsewhere_finds_what_was_cut_off(horae: Command, exported: Path) -> None:
    head = horae("audit", "verify", "--file", "audit.jsonl", "--json").json["chains"][0]["head"]
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    del lines[3]
    lines[3] |= {"entries": 2, "head": lines[2]["hash"]}
    for each in (lines[0], lines[-1]):
        each["entries"] = 2
    exported.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert horae("audit", "verify", "--file", "audit.jsonl").code == 0
    ended = horae("audit", "verify", "--file", "audit.jsonl", "--head", f"system={head}")
    assert (ended.code, "kept elsewhere" in ended.out) == (6, True)
    assert horae("audit", "verify", "--file", "audit.jsonl", "--head", "system").code == 2


def test_an_export_replaces_nothing_unless_forced(horae: Command, exported: Path) -> None:
    horae("db", "migrate", "--db", "sqlite:///b.db")
    horae("queue", "pause", "mail", "--db", "sqlite:///b.db")

    assert horae("audit", "export", "audit.jsonl", "--db", "sqlite:///b.db").code == 2
    ended = horae("audit", "export", "audit.jsonl", "--force", "--db", "sqlite:///b.db", "--json")
    assert (ended.code, ended.json["export"]["entries"]) == (0, 1)
    assert horae("audit", "export", "none/audit.jsonl", "--db", "sqlite:///b.db").code == 2
    assert not list(Path().glob("*.partial"))


def test_an_export_goes_to_stdout(horae: Command) -> None:
    horae("db", "migrate", "--db", "sqlite:///a.db")
    horae("queue", "pause", "mail", "--db", "sqlite:///a.db")
    ended = horae("audit", "export", "-", "--db", "sqlite:///a.db")

    assert [json.loads(line).get("verb") for line in ended.out.splitlines()] == [None, "pause", None, None]


def test_a_file_is_verified_alone(horae: Command, exported: Path) -> None:
    assert horae("audit", "verify", "--file", "audit.jsonl", "--owner", "alice").code == 2
    assert horae("audit", "verify", "--file", "audit.jsonl", "--db", "sqlite:///a.db").code == 2
    assert horae("audit", "verify", "--file", "none.jsonl").code == 3
    assert horae("audit", "verify", "--file", ".").code == 2


def test_acts_are_listed_newest_first_by_what_they_are_about(horae: Command) -> None:
    horae("db", "migrate")
    horae("queue", "pause", "mail", "--reason", "moving house")
    horae("queue", "pause", "reports")
    horae("queue", "resume", "mail")

    listed = horae("audit", "list", "--type", "queue", "--id", "mail", "--json").json["items"]
    assert [(each["verb"], each["reason"]) for each in listed] == [("resume", None), ("pause", "moving house")]
    assert "moving house" in horae("audit", "list", "--verb", "pause").out
    assert len(horae("audit", "list", "--limit", "1", "--json").json["items"]) == 1
    assert horae("audit", "list", "--actor", "nobody").out.strip() == "No entry was found."
