"""Workers, saved views and the pulse from a shell."""

import threading
from pathlib import Path

import pytest

from horae import Horae
from horae.clock import SystemClock
from horae.ports.workers import Node
from tests.cli.conftest import Command


@pytest.fixture
def worker(horae: Command) -> str:
    """A worker of the database that commands use, as its heartbeat lists it."""
    assert horae("db", "migrate").code == 0
    now = SystemClock().now()
    node = Node("host:1:a", "host", 1, "0.1", now, now, {"mail": 4}, release="r7", busy={"mail": 3}, memory=2**27)
    with Horae(f"sqlite:///{Path('.horae/horae.db')}") as app:
        app.world.store.peek([], node=node)
    return node.node_id


def test_workers_are_listed_with_how_full_they_are(worker: str, horae: Command) -> None:
    told = horae("workers", "list").out
    (listed,) = horae("workers", "list", "--json").json["items"]

    assert all(each in told for each in (worker, "running", "3 of 4", "128 MiB", "mail", "r7"))
    assert (listed["id"], listed["running"], listed["slots"], listed["busy"]) == (worker, 3, 4, {"mail": 3})


def test_a_worker_is_drained_and_resumed_and_says_so(worker: str, horae: Command) -> None:
    drained = horae("workers", "drain", worker, "--leave", "--reason", "repairs")
    shown = horae("workers", "show", worker)
    resumed = horae("workers", "resume", worker, "--json").json

    assert "leaves after its last job" in drained.out
    assert "is draining" in shown.out
    assert "then to leave: repairs" in shown.out
    assert (resumed["state"], resumed["drain"]) == ("running", None)


def test_a_worker_that_is_not_there_is_refused(worker: str, horae: Command) -> None:
    horae("workers", "drain", "nobody", "--json").assert_refused(3, "worker_unknown", {"id": "nobody"})


def test_no_worker_is_told_in_words(horae: Command) -> None:
    horae("db", "migrate")
    assert horae("workers", "list").out == "No worker.\n"


def test_a_view_is_saved_listed_and_deleted_from_a_shell(horae: Command) -> None:
    horae("db", "migrate")
    saved = horae("view", "save", "Timeouts", "error:Timeout ended:>-2h", "--shared", "--json").json
    listed = horae("view", "list")
    private = horae("view", "share", saved["id"], "--private", "--json").json

    assert all(each in listed.out for each in (saved["id"], "Timeouts", "error:Timeout", "yes"))
    assert private["shared"] is False
    assert horae("view", "delete", saved["id"]).code == 0
    assert horae("view", "list").out == "No views yet.\n"
    horae("view", "save", "Wrong", "colour:red", "--json").assert_refused(2, "filter_field_unknown")


def test_what_changes_is_watched_from_a_shell(horae: Command) -> None:
    horae("db", "migrate")
    over = threading.Event()

    def work() -> None:
        with Horae("sqlite:///.horae/horae.db") as app:
            app.job("work")(lambda: None)
            while not over.wait(0.2):
                app.enqueue("work")

    thread = threading.Thread(target=work)
    thread.start()
    ended = horae("watch", "--count", "1", "--json")
    over.set()
    thread.join()

    assert ended.code == 0
    assert "jobs" in ended.json["parts"]


def test_a_shell_says_whether_all_is_well_in_two_languages(horae: Command) -> None:
    horae("db", "migrate")
    horae("queue", "pause", "mail")
    horae("schedule", "add", "nightly", "--handler", "work", "--cron", "0 3 * * *")
    told, chinese = horae("status"), horae("status", "--lang", "zh")
    document = horae("status", "--json").json

    assert "One thing needs you." in told.out
    assert "Paused queues: mail." in told.out
    assert "nightly" in told.out
    assert "已暂停的队列：mail。" in chinese.out
    assert document["overview"]["needs"][0]["code"] == "paused"
