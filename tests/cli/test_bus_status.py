"""``horae bus status``: how many events wait and which processes relay, for each database."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_cluster_copies import NAMES, take_away
from tests.cli.test_cluster_copies import cluster as cluster


def test_a_single_database_has_one_line_without_a_name(
    horae: Command, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORAE_DATABASE_URL", f"sqlite:///{environment / 'one.db'}")
    assert horae("db", "migrate").code == 0
    assert horae("bus", "on").code == 0
    assert horae("job", "enqueue", "mail").code == 0

    [found] = horae("bus", "status", "--json").json["bus"]["databases"]
    assert (found["name"], found["enabled"], found["waiting"]) == (None, True, 1)
    assert (found["publisher"], found["relay"]) == (None, None)
    assert "jobs handed out by no process" in horae("bus", "status").out


def test_each_database_of_a_cluster_says_how_far_it_is_behind_and_one_that_is_away_is_named(
    horae: Command, cluster: Path
) -> None:
    assert horae("bus", "on").code == 0
    for key in range(12):
        assert horae("job", "enqueue", "mail", "--key", f"key-{key}").code == 0

    found = horae("bus", "status", "--json").json["bus"]
    assert [each["name"] for each in found["databases"]] == list(NAMES)
    assert sum(each["waiting"] for each in found["databases"]) == found["waiting"] == 12
    assert all(each["enabled"] for each in found["databases"])
    problems = [each["text"] for each in horae("doctor", "--json").json["doctor"]["checks"] if each["check"] == "bus"]
    assert any("is served in 3 databases" in each for each in problems)

    take_away(cluster, "third")
    ended = horae("bus", "status", "--json")
    assert [each["name"] for each in ended.json["bus"]["databases"]] == list(NAMES[:2])
    assert ended.json["incomplete"] == ["third"]
