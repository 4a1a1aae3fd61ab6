"""``horae db migrate``, ``check``, ``backup`` and ``restore`` in a cluster: every database, one after the other."""

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from horae.core.cluster.numbers import read_number
from horae.stores.schema import HEAD, KNOWN
from tests.cli.conftest import Command

NAMES = ("first", "second", "third")
Enqueue = Callable[[str], str]


@pytest.fixture
def cluster(horae: Command, environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files in a folder, of which the settings name the first."""
    monkeypatch.setenv("HORAE_DATABASE_URL", f"sqlite:///{environment / 'first.db'}")
    assert horae("cluster", "init", "first").code == 0
    for name in NAMES[1:]:
        assert horae("cluster", "add", name, f"sqlite:///{environment / name}.db").code == 0
    return environment


@pytest.fixture
def enqueue(horae: Command, cluster: Path) -> Enqueue:
    def enqueue(key: str) -> str:
        return str(horae("job", "enqueue", "mail", "--key", key, "--json").json["id"])

    return enqueue


def ask(file: Path, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(file) as connection:
        return connection.execute(sql).fetchall()


def url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


def take_away(folder: Path, name: str) -> None:
    (folder / f"{name}.db").rename(folder / f"{name}.away")


def bring_back(folder: Path, name: str) -> None:
    (folder / f"{name}.away").rename(folder / f"{name}.db")


# -- migrate -----------------------------------------------------------------------------------------------------------


def test_every_database_is_migrated_and_one_that_is_away_is_named_and_done_when_it_is_back(
    horae: Command, cluster: Path
) -> None:
    for name in NAMES:
        ask(cluster / f"{name}.db", f"UPDATE horae_version SET version_num = '{KNOWN[-2]}'")
    pending = horae("db", "check", "--json")
    take_away(cluster, "second")

    partly = horae("db", "migrate", "--json")
    assert not (cluster / "second.db").exists(), "asking made an empty file"
    bring_back(cluster, "second")
    again = horae("db", "migrate", "--json")

    assert pending.code == 6
    assert [each["found"] for each in pending.json["databases"]] == [KNOWN[-2]] * 3
    assert partly.code == 6
    assert [each["migrated"] for each in partly.json["databases"]] == [True, False, True]
    assert "second.db" in partly.json["databases"][1]["problem"]
    assert again.code == 0
    assert [each["migrated"] for each in again.json["databases"]] == [False, True, False]
    assert horae("db", "check").code == 0


def test_progress_is_shown_and_the_lines_name_each_database(horae: Command, cluster: Path) -> None:
    done = horae("db", "migrate")
    assert [line.split()[0] for line in done.out.splitlines()] == list(NAMES)
    assert [line for line in done.err.splitlines() if line.startswith("migrating")] == [
        f"migrating {name} …" for name in NAMES
    ]


def test_any_database_of_the_cluster_may_be_named(horae: Command, cluster: Path) -> None:
    found = horae("db", "check", "--db", url(cluster, "third"), "--json").json["databases"]
    assert [each["name"] for each in found] == ["third", "first", "second"]
    assert {each["found"] for each in found} == {HEAD}


# -- backup ------------------------------------------------------------------------------------------------------------


def test_a_folder_has_a_copy_of_each_database_and_the_map_without_passwords(
    horae: Command, cluster: Path, enqueue: Enqueue
) -> None:
    made = [enqueue(f"k{n}") for n in range(6)]
    done = horae("db", "backup", "monday")
    known = json.loads(Path("monday/map.json").read_text())
    assert done.code == 0
    assert "not of one moment" in done.err
    assert (known["version"], known["one_moment"]) == (5, False)
    assert [each["name"] for each in known["databases"]] == list(NAMES)
    assert "salt" not in json.dumps(known)
    numbers = [number for name in NAMES for (number,) in ask(Path(f"monday/{name}.db"), "SELECT id FROM horae_jobs")]
    assert sorted(map(str, numbers)) == sorted(each.partition("x")[2] for each in made)
    assert horae("db", "backup", "monday").code == 2  # not over it
    assert horae("db", "backup", "monday", "--force").code == 0


def test_a_database_that_is_away_has_no_copy_and_the_exit_code_says_so(horae: Command, cluster: Path) -> None:
    take_away(cluster, "third")
    done = horae("db", "backup", "monday", "--json")
    assert done.code == 6
    assert [each["file"] for each in done.json["backup"]["databases"]] == ["first.db", "second.db", None]


# -- restore -----------------------------------------------------------------------------------------------------------


def test_a_restored_database_never_gives_a_number_again_and_the_others_lose_nothing(
    horae: Command, cluster: Path, enqueue: Enqueue
) -> None:
    for number in range(6):
        enqueue(f"k{number}")
    horae("db", "backup", "monday")
    later = _enqueue_until_in(2, enqueue, "later")
    highest = _read_number(later[-1])

    done = horae("db", "restore", "monday/second.db", "--db", url(cluster, "second"), "--json")

    assert done.code == 0, done.err
    assert done.json["restored"]["version"] == 6
    new = _enqueue_until_in(2, enqueue, "new")
    assert not {*later} & {*new}
    assert _read_number(new[-1]) > highest + (1 << 42)
    assert horae("cluster", "check").code == 0
    assert all(horae("job", "show", each).code == 0 for each in later if not _is_in(each, 2))


def test_a_restored_database_stays_closed_until_all_others_answer(
    horae: Command, cluster: Path, enqueue: Enqueue
) -> None:
    for number in range(6):
        enqueue(f"k{number}")
    horae("db", "backup", "monday")
    take_away(cluster, "third")

    held = horae("db", "restore", "monday/second.db", "--db", url(cluster, "second"), "--json")
    closed = horae("cluster", "list", "--json").json["cluster"]["members"]
    bring_back(cluster, "third")
    settled = horae("cluster", "restored", "--db", url(cluster, "second"), "--json")

    held.assert_refused(69, "cluster_restore_needs_all", {"databases": ["third"]})
    assert "horae cluster restored" in closed[1]["problem"]
    assert settled.code == 0
    assert horae("cluster", "check").code == 0
    assert enqueue("k0") == enqueue("k0")


def test_the_first_database_comes_back_and_the_newest_map_wins(horae: Command, cluster: Path, enqueue: Enqueue) -> None:
    made = [enqueue(f"k{n}") for n in range(8)]
    horae("db", "backup", "monday")
    assert horae("cluster", "move", "--vshards", "1-200", "--to", "third").code == 0
    version = horae("cluster", "list", "--json").json["cluster"]["version"]

    done = horae("db", "restore", "monday/first.db", "--json")

    assert done.json["restored"]["version"] == version + 1
    found = horae("cluster", "check", "--json").json["cluster"]
    assert (found["well"], [each["version"] for each in found["members"]]) == (True, [version + 1] * 3)
    assert [each["vshards"] for each in found["members"]] == [1165, 1366, 1565]
    listed = horae("job", "list", "--json").json
    assert sorted(each["id"] for each in listed["items"]) == sorted(made)  # none twice, none away


def test_a_whole_cluster_comes_back_from_a_folder(horae: Command, cluster: Path, enqueue: Enqueue) -> None:
    made = [enqueue(f"k{n}") for n in range(8)]
    horae("db", "backup", "monday")
    for name in NAMES:
        for file in cluster.glob(f"{name}.db*"):
            file.unlink()

    codes = [horae("db", "restore", f"monday/{name}.db", "--db", url(cluster, name)).code for name in NAMES]

    assert codes == [69, 69, 0]  # the last one brings all of them together
    assert horae("cluster", "check").code == 0
    assert sorted(each["id"] for each in horae("job", "list", "--json").json["items"]) == sorted(made)
    assert {enqueue(f"k{n}") for n in range(8)} == set(made)


def test_the_copy_of_another_database_is_refused_and_so_is_force(horae: Command, cluster: Path) -> None:
    horae("db", "backup", "monday")
    wrong = horae("db", "restore", "monday/third.db", "--db", url(cluster, "second"), "--json")
    forced = horae("db", "restore", "monday/second.db", "--db", url(cluster, "second"), "--force", "--json")
    wrong.assert_refused(2, "cluster_restore_wrong", {"found": 3, "number": 2})
    forced.assert_refused(4, "cluster_restore_forced")
    assert horae("cluster", "check").code == 0


def _enqueue_until_in(number: int, enqueue: Enqueue, prefix: str) -> list[str]:
    """Return the jobs of as many keys as it takes until the last one is in the database of this number."""
    made: list[str] = []
    while not made or not _is_in(made[-1], number):
        made.append(enqueue(f"{prefix}{len(made)}"))
    return made


def _is_in(job: str, number: int) -> bool:
    return _read_number(job) >> 48 == number


def _read_number(job: str) -> int:
    return read_number(job.removeprefix("job_")) or 0


def test_a_move_gives_running_attempts_a_minute_and_waits_for_nothing_where_none_runs(
    horae: Command, enqueue: Enqueue
) -> None:
    enqueue("one")
    for command in ("move", "drain"):
        assert "default: 60" in horae("cluster", command, "--help").out
    began = time.monotonic()
    assert horae("cluster", "drain", "third").code == 0
    assert time.monotonic() - began < 55
