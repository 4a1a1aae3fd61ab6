"""``horae demo attention``: its text is the specification's table, and each switch proves its point."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from horae.cli.demo.journal import Narrator, Row
from horae.runtime.lanes.driver import LaneDriver
from tests.cli.conftest import Command
from tests.support.waiting import LIMIT

OPENING = "t1 writes a report (priority 40), t2 is an alert (priority 90). Simulated time.\n\n"
UNTIL_THE_PAGE = """\
09:00:00  t1  created -> ready -> running
09:02:00  t2  created -> ready                      sense: db.down
09:02:00  t1  running -> suspended                  interrupted by t2 at a safe point (2 of 4 sources read)
09:02:00  t2  ready -> running                      pages alice
"""
AFTER_THE_PAGE = """\
09:02:05  t2  running -> waiting                    ack:db-1, deadline 09:12:05
09:02:05  t1  suspended -> ready -> running         resumed with its context, continues at source 3
09:04:05  t1  running -> completed                  report on 170 lines
09:12:05  t2  waiting -> ready -> running           woken by timeout, the fact is handed to cognition
09:12:10  t2  running -> waiting                    pages bob
09:12:10  t2  waiting -> ready -> running           event: bob acknowledged
09:12:10  t2  running -> completed
"""
STORY = UNTIL_THE_PAGE + AFTER_THE_PAGE
CRASHED = '09:02:05  t2  (killed inside "page", restarted)     cognition gets the fact action_unknown\n'
REFUND = """\
09:12:10  t3  created -> ready -> running
09:12:10  t3  running -> waiting                    a refund of 40 needs a person, deadline 09:42:10
approve? [y/n, Enter = let it time out] """
VERIFIED = "horae attention verify  {} lines; folding them gives the tables, the chain of hashes is valid\n"
TRAVELLED = "horae attention at 6    FOCUS t1 report (40), thinks, 1 step so far; STACK -; BACKLOG -; WAITING -\n"


def ending(lines: int, *proofs: str) -> str:
    answer = "".join(f"--{switch:<22}{text}\n" for switch, _, text in (proof.partition(" ") for proof in proofs))
    return "\n" + answer + VERIFIED.format(lines) + TRAVELLED


def test_the_story_is_the_table_of_the_specification(horae: Command) -> None:
    ended = horae("demo", "attention")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == OPENING + STORY + ending(34)


def test_a_process_killed_inside_an_action_pages_nobody_twice(horae: Command) -> None:
    """A real child, a real SIGKILL: `once` is at most once, and cognition hears that nobody knows."""
    ended = horae("demo", "attention", "--crash")

    proof = 'crash killed inside "page": alice was paged once, cognition saw action_unknown'
    assert ended.out == OPENING + UNTIL_THE_PAGE + CRASHED + AFTER_THE_PAGE + ending(35, proof)


def test_an_answer_that_comes_early_gives_the_same_result(horae: Command) -> None:
    ended = horae("demo", "attention", "--early")

    proof = "early bob answered at 09:12:08, before the wait opened at 09:12:10: the same result"
    assert ended.out == OPENING + STORY + ending(34, proof)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (
            "y\n",
            "y\n"
            "09:12:30  t3  waiting -> ready -> running           approved by you\n"
            "09:12:30  t3  running -> completed                  receipt r-a5bd\n"
            + ending(44, "confirm approved by a person: exactly that refund ran, once"),
        ),
        (
            "perhaps\nn\n",
            "perhaps\napprove? [y/n, Enter = let it time out] n\n"
            "09:12:30  t3  waiting -> ready -> running           denied by you\n"
            "09:12:30  t3  running -> completed                  no refund\n"
            + ending(41, "confirm denied by a person: nothing was refunded"),
        ),
        (
            "",
            "\n"
            "09:42:10  t3  waiting -> ready -> running           woken by timeout, the fact is handed to cognition\n"
            "09:42:10  t3  running -> failed                     no decision in time\n"
            + ending(41, "confirm silence is timed_out, never denied; nothing was refunded, and the task is failed"),
        ),
    ],
)
def test_a_refund_waits_for_a_word(typed: str, answer: str, horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))

    assert horae("demo", "attention", "--confirm").out == OPENING + STORY + REFUND + answer


def test_events_as_json_lines(horae: Command) -> None:
    events = [json.loads(line) for line in horae("demo", "attention", "--json").out.splitlines()]

    assert [each["event"] for each in events] == ["moved"] * 11 + ["verified", "at"]
    assert events[0] == {
        "event": "moved", "at": "2030-01-07T09:00:00Z", "task": "t1", "path": ["created", "ready", "running"],
        "remark": "",
    }  # fmt: skip
    assert (events[-2]["sound"], events[-1]["focus"]["id"]) == (True, "t1")


def test_on_the_wall_clock_the_same_way_is_gone(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what happens, not when: real time is nobody's to promise."""
    from horae.cli.demo import run as demo_running
    from horae.cli.demo.story import Spans

    monkeypatch.setattr(demo_running, "SHORT", Spans(timedelta(seconds=0.2)))
    events = [json.loads(line) for line in horae("demo", "attention", "--real", "--json").out.splitlines()]

    ends = {each["task"]: each["path"][-1] for each in events if each["event"] == "moved"}
    assert ends == {"t1": "completed", "t2": "completed"}
    assert events[-2]["sound"]


def test_on_the_wall_clock_nothing_that_happened_is_left_out(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the end comes while what came before it is about to be printed."""
    from horae.cli.demo import run as demo_running
    from horae.cli.demo.story import Spans

    read_rows, close, is_over = Narrator.rows, LaneDriver.close, threading.Event()

    def read_and_wait_for_the_end(self: Narrator, **options: bool) -> list[Row]:
        rows = list(read_rows(self, **options))
        assert is_over.wait(LIMIT)
        return rows

    async def close_and_tell(self: LaneDriver) -> None:
        await close(self)
        is_over.set()

    monkeypatch.setattr(demo_running, "SHORT", Spans(timedelta(seconds=0.05)))
    monkeypatch.setattr(Narrator, "rows", read_and_wait_for_the_end)
    monkeypatch.setattr(LaneDriver, "close", close_and_tell)
    events = [json.loads(line) for line in horae("demo", "attention", "--real", "--json").out.splitlines()]

    ends = {each["task"]: each["path"][-1] for each in events if each["event"] == "moved"}
    assert ends == {"t1": "completed", "t2": "completed"}


def test_the_database_stays_where_it_is_wanted_and_never_overwrites(horae: Command, environment: Path) -> None:
    horae("demo", "attention", "--keep", "demo.db")

    kept = horae("attention", "verify", "--db", "sqlite:///demo.db")
    again = horae("demo", "attention", "--keep", "demo.db")

    assert kept.code == 0, kept.err
    assert [each.name for each in environment.iterdir()] == ["demo.db"]
    assert again.code == 5


def test_the_demo_does_not_touch_a_database_of_yours(horae: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert horae("demo", "attention", "--db", "sqlite:///mine.db").code == 2
    assert not Path("mine.db").exists()


def test_without_a_name_the_demos_are_listed(horae: Command) -> None:
    assert horae("demo").out.startswith("horae demo attention ")


def test_a_view_of_four_lines_counts_down(environment: Path) -> None:
    """What a terminal shows below the rows."""
    from horae.api.attention.past import view_after
    from horae.api.attention.values import past_lane
    from horae.cli.attention.screen import four_lines
    from horae.cli.demo.run import Performance, Switches
    from horae.cli.terminal import Terminal
    from horae.settings import Settings

    performance = Performance(Terminal(Settings(), is_json=True), environment / "demo.db", Switches())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(performance.agent.app, "close", lambda: None)
        asyncio.run(performance.run())
    parked = next(line for line in performance.agent.journal() if line.after == "waiting")
    resumed = next(line for line in performance.agent.journal() if line.cause == "step_facts" and line.seq > parked.seq)
    views = [
        four_lines(view_after(past_lane(line.seq, performance.agent.at(line.seq)), line.at), line.at)
        for line in (parked, resumed)
    ]
    performance.agent.app.world.store.close()

    assert views == [
        ["FOCUS    -", "STACK    t1 report (40)", "BACKLOG  -", "WAITING  t2 alert (90), ack:db-1, 10:00 left"],
        [
            "FOCUS    t1 report (40), is between two steps, 3 steps so far",
            "STACK    -",
            "BACKLOG  -",
            "WAITING  t2 alert (90), ack:db-1, 9:00 left",
        ],
    ]
