"""An agent's attention from a shell, near its database and behind a service."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from horae.app import Horae
from horae.attention import Attention, Wait
from tests.attention.stories import an_agent
from tests.cli.conftest import Command, Ended
from tests.support.serving import Served, serving

DATABASE = "sqlite:///shared.db"


@pytest.fixture
def agent(environment: Path) -> Iterator[Attention]:
    """An agent that has a task waiting for an event and one waiting for a person."""
    with Horae(DATABASE) as app:
        agent, _ = an_agent(app, must_confirm=frozenset({"refund"}))
        agent.cognition("sleepy")(lambda turn: Wait("bell", timeout=timedelta(hours=1)))
        agent.add("sleepy", priority=20)
        agent.add("refund", priority=30)
        agent.run()
        yield agent


@pytest.fixture
def near(horae: Command, agent: Attention) -> Command:
    return lambda *arguments: horae("attention", *arguments, "--db", DATABASE)


@pytest.fixture
def served(agent: Attention) -> Iterator[Served]:
    with serving(DATABASE) as running:
        yield running


@pytest.fixture
def far(horae: Command, served: Served, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("HORAE_TOKEN", served.token("system", "admin"))
    return lambda *arguments: horae("attention", *arguments, "--url", served.url)


def answer(ended: Ended) -> Any:
    assert ended.code == 0, ended.err
    return ended.json


# -- look ----------------------------------------------------------------------------------------------------------


def test_a_lane_is_shown_with_what_it_waits_for_and_how_long_still(near: Command) -> None:
    lines = near("show").out.splitlines()

    assert lines[1:4] == ["FOCUS    -", "STACK    -", "BACKLOG  -"]
    assert re.fullmatch(r"WAITING  t1 sleepy \(20\), bell, (59:\d\d|1:00:00) left", lines[4])
    asks = r"a person must confirm refund amount=40 to=c-17 \(wait 1\)"
    assert re.fullmatch(rf" {{9}}t2 refund \(30\), {asks}, [78]:\d\d:\d\d left", lines[5])
    assert max(map(len, lines)) <= 100


def test_lanes_are_listed_and_the_only_one_need_not_be_named(near: Command, agent: Attention) -> None:
    assert [each["lane"]["name"] for each in answer(near("lanes", "--json"))["items"]] == ["ops"]
    Attention("other", agent.app).add("report")

    asked = near("show")

    assert asked.code == 2
    assert "ops, other" in asked.err
    assert answer(near("show", "--lane", "other", "--json"))["backlog"][0]["kind"] == "report"


def test_one_task_tells_all_that_is_known_of_it(near: Command) -> None:
    task = answer(near("show", "t2", "--json"))

    assert (task["state"], task["waits"][0]["arguments"]) == ("waiting", {"amount": 40, "to": "c-17"})
    assert near("show", "t2").out.startswith("t2  refund  waiting\n  priority      30\n")
    assert near("show", "t9").code == 3


def test_the_journal_is_read_line_by_line_and_travelled(near: Command) -> None:
    page = answer(near("journal", "--limit", "3", "--json"))
    rest = answer(near("journal", "--since", str(page["items"][-1]["seq"]), "--json"))
    own = answer(near("journal", "--task", "t2", "--json"))
    lines = [*page["items"], *rest["items"]]

    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["task"] for line in own["items"]} == {"t2"}
    assert near("at", "4").out.splitlines()[1:] == [
        "FOCUS    -", "STACK    -", "BACKLOG  t2 refund (30)", "         t1 sleepy (20)", "WAITING  -",
    ]  # fmt: skip
    assert answer(near("at", "4", "--json"))["tasks"]["t1"]["kind"] == "sleepy"
    assert near("at", "999").code == 2


def test_a_whole_journal_is_content_and_a_changed_one_is_a_finding(near: Command, agent: Attention) -> None:
    """Invariant 19, from a shell."""
    assert near("verify").out.startswith("ops: ")
    with agent.app.engine.begin() as connection:
        connection.execute(text("UPDATE horae_journal SET cause = 'nothing' WHERE seq = 3"))

    found = near("verify", "--json")

    assert found.code == 6
    assert found.json["items"][0]["complaints"] == ["line 3 was changed after it was sealed"]
    assert near("verify", "--lane", "ops").out == "ops: 1 complaint\n  line 3 was changed after it was sealed\n"


def test_looking_makes_neither_a_database_nor_a_lane(horae: Command, environment: Path) -> None:
    assert horae("attention", "lanes").code == 3
    assert list(environment.iterdir()) == []
    horae("db", "migrate")
    assert horae("attention", "lanes").out == "No lane yet.\n"
    assert [horae("attention", *words, "--lane", "x").code for words in (["show"], ["cancel", "t1"], ["verify"])] == [
        3
    ] * 3
    assert horae("attention", "show").code == 3
    assert horae("attention", "lanes").out == "No lane yet.\n"


# -- speak ---------------------------------------------------------------------------------------------------------


def test_a_task_is_added_once_for_its_key_and_cancelled(near: Command) -> None:
    asked = ("add", "report", "--arg", "day=monday", "--priority", "70", "--key", "r:1", "--json")
    made, again = answer(near(*asked)), answer(near(*asked))

    assert (made["deduplicated"], again["deduplicated"]) == (False, True)
    assert made["payload"] == {"day": "monday"}
    assert near("cancel", made["id"], "--reason", "no need").out == "t3 is cancelled\n"
    assert answer(near("show", "t3", "--json"))["reason"] == "no need"


def test_a_task_may_begin_later(near: Command) -> None:
    assert answer(near("add", "report", "--delay", "1h", "--json"))["state"] == "created"
    assert near("add", "report", "--delay", "1h", "--start-at", "2040-01-01T00:00:00Z").code == 2


def test_the_first_task_makes_its_lane_and_its_database(horae: Command, environment: Path) -> None:
    assert horae("attention", "add", "report", "--lane", "ops").out == (
        "t1 added: report in lane ops, priority 40, ready\n"
    )


def test_an_event_wakes_makes_or_is_kept(near: Command) -> None:
    """The rules of the agent's last driver hold for whoever posts."""
    assert near("post", "bell", "--id", "b-1").out == "event 1: used by t1\n"
    assert near("post", "bell", "--id", "b-1").out == "event 1 is known by this id already: used\n"
    assert near("post", "db.down", "--arg", "id=db-1").out == "event 2: used by t3\n"
    assert near("post", "later").out == "event 3: kept for a task that will wait for it\n"
    assert near("post", "noise").out == "event 4: dropped (its rule only logs it)\n"


def test_a_person_approves_once_and_not_against_an_answer(near: Command, agent: Attention) -> None:
    assert near("confirm", "1").code == 2
    assert near("confirm", "2", "--approve").code == 3  # it waits for an event, not for a person
    approved = near("confirm", "1", "--approve")
    denied = near("confirm", "1", "--deny")
    agent.run()

    assert approved.out == "refund amount=40 to=c-17 of t2 is approved\n"
    assert denied.code == 5
    assert answer(near("show", "t2", "--json"))["state"] == "completed"


def test_a_grant_is_not_shown(near: Command) -> None:
    assert "grant" not in answer(near("confirm", "1", "--approve", "--json"))


# -- top -----------------------------------------------------------------------------------------------------------


def test_top_prints_one_frame_and_refuses_to_draw_on_a_pipe(near: Command) -> None:
    frame = near("top", "--once").out.splitlines()

    assert [line[:9].strip() for line in frame[1:5]] == ["FOCUS", "STACK", "BACKLOG", "WAITING"]
    assert answer(near("top", "--once", "--json"))["waiting"][0]["waits"][0]["key"] == "bell"
    assert near("top").code == 2


def test_top_draws_until_q(agent: Attention, near: Command) -> None:
    """On a real terminal: a task that is added appears, and the screen is given back."""
    screen = Screen("attention", "top", "--db", DATABASE)
    try:
        screen.until("FOCUS    -")
        near("add", "report", "--priority", "77")
        screen.until("t3 report (77)")
        screen.type("q")
        screen.until("\x1b[?1049l")
    finally:
        ended = screen.end()

    assert ended == 0


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "horae", *arguments])

    def until(self, words: str) -> None:
        while words not in self.seen:
            assert select.select([self.terminal], [], [], 60)[0], f"{words!r} never came: {self.seen!r}"
            self.seen += os.read(self.terminal, 4096).decode()

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def end(self) -> int:
        with suppress(OSError):  # the other end is gone
            while select.select([self.terminal], [], [], 60)[0] and os.read(self.terminal, 4096):
                pass
        os.close(self.terminal)  # which ends whoever is still there
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


# -- behind a service ----------------------------------------------------------------------------------------------


def timeless(text: str) -> str:
    return re.sub(r"\d+(:\d\d)+Z?|\bnow\b|\d+(\.\d+)? (ms|s) ago", "…", text)


def test_a_service_shows_what_the_database_shows(near: Command, far: Command) -> None:
    for asked in (
        "lanes", "show", "show t1", "show t2", "show t9", "journal", "journal --task t2", "at 4", "at 999", "verify",
        "top --once",
    ):  # fmt: skip
        here, there = near(*asked.split()), far(*asked.split())
        assert (there.code, timeless(there.out)) == (here.code, timeless(here.out)), asked


def test_what_is_said_by_way_of_a_service_is_heard(near: Command, far: Command) -> None:
    def both(say: Callable[..., Ended], *arguments: str) -> Any:
        return answer(say(*arguments, "--json"))

    assert both(far, "add", "report", "--arg", "n=1", "--key", "r:1", "--delay", "1h")["state"] == "created"
    assert both(near, "add", "report", "--arg", "n=1", "--key", "r:1")["deduplicated"] is True
    assert both(far, "post", "bell", "--arg", "by=carol")["task"] == "t1"
    assert both(far, "cancel", "t3")["state"] == "cancelled"
    assert both(far, "confirm", "1", "--deny")["approved"] is False
    assert far("confirm", "1", "--approve").code == 5


def test_the_shapes_are_those_of_the_service(near: Command, far: Command) -> None:
    for arguments in (["journal"], ["verify"], ["at", "4"], ["show", "t2"]):
        assert answer(far(*arguments, "--json")) == answer(near(*arguments, "--json"))
    here, there = answer(near("show", "--json")), answer(far("show", "--json"))
    assert there | {"at": ""} == here | {"at": ""}


def test_lanes_in_numbers_and_the_story_of_a_task_are_told(near: Command, far: Command, agent: Attention) -> None:
    table = near("overview").out.splitlines()
    story = near("story", "t2").out

    assert table[0].split() == ["LANE", "OWNER", "FOCUS", "STACK", "BACKLOG", "WAITS", "TO", "ANSWER", "LAST", "STEP"]
    assert table[1].split()[:7] == [agent.name, "system", "-", "0", "0", "2", "1"]
    assert "waits         a person must confirm refund amount=40 to=c-17" in story
    assert "  started  " in story
    assert answer(near("overview", "--json")) == answer(far("overview", "--json"))
    assert answer(near("story", "t2", "--json")) == answer(far("story", "t2", "--json"))
