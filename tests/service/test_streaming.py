"""The live journal, over real sockets. No test measures time: each waits for what must come."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest

from horae import Horae, errors
from horae.actions.attention import inbox
from horae.actions.attention.journal import read_journal
from horae.attention import Attention, Done, Turn
from horae.client import Client
from horae.service import event_stream, long_poll
from horae.service.options import Options
from tests.service.test_waiting import waits
from tests.support.serving import Served, serving
from tests.support.waiting import wait_until

STREAM = "/attention/lanes/ops/stream"
PATIENCE = 30.0
SHORT = Options(version="test", longest_stream=timedelta(milliseconds=50))


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url) as running:
        yield running


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as threads:
        yield threads


def add(where: Served | Horae, kind: str = "report", owner: str = "alice") -> str:
    return inbox.add(where.world, "ops", kind, owner=owner).task.id


def headers(served: Served, owner: str = "alice") -> dict[str, str]:
    return {"Authorization": f"Bearer {served.token(owner, 'tasks')}"}


def heard(served: Served, count: int, *, more: dict[str, str] | None = None, **query: Any) -> list[tuple[str, Any]]:
    """The first events of a stream, as id and data; then the reader hangs up."""
    found: list[tuple[str, Any]] = []
    response = {**headers(served), **(more or {})}
    with httpx.stream("GET", served.url + STREAM, params=query, headers=response, timeout=PATIENCE) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            number = value if name == "id" else number
            if name == "data":
                found.append((number, json.loads(value)))
            if len(found) == count:
                break
    return found


def test_a_stream_tells_what_the_journal_says(served: Served) -> None:
    add(served)
    add(served)
    found = heard(served, 4, since=0)
    token = headers(served)
    lines = httpx.get(f"{served.url}/attention/lanes/ops/journal", headers=token, timeout=60).json()["items"]
    assert [data for _, data in found] == lines
    assert [number for number, _ in found] == ["1", "2", "3", "4"]
    wait_until(lambda: waits(served) == 0)  # the reader has gone, and its place with it


def test_a_reader_that_comes_back_goes_on_where_it_was(served: Served) -> None:
    add(served)
    add(served)
    found = heard(served, 2, since=0, more={"Last-Event-ID": "2"})
    assert [number for number, _ in found] == ["3", "4"]


def test_a_stream_hears_of_what_happens_elsewhere(database_url: str, callers: ThreadPoolExecutor) -> None:
    """On every database, whatever its hints are; by default from now on."""
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        first = add(elsewhere)
        listening = callers.submit(heard, served, 2)
        wait_until(lambda: waits(served) == 1)
        second = add(elsewhere)
        response = listening.result(PATIENCE)
        assert {data["task"] for _, data in response} == {second}
        assert first != second


def test_a_stream_hears_of_what_a_driver_does(served: Served, callers: ThreadPoolExecutor) -> None:
    """A driver does not announce its own commits."""
    agent = Attention("ops", served.world.store.engine, owner="alice")  # type: ignore[attr-defined]

    @agent.cognition("report")
    def report(turn: Turn) -> Any:
        return Done()

    add(served)
    listening = callers.submit(heard, served, 4, since=0)
    wait_until(lambda: waits(served) == 1)
    agent.run()
    assert [data["after"] for _, data in listening.result(PATIENCE)][:3] == ["created", "ready", "running"]


@pytest.mark.slow
def test_many_readers_of_one_lane_all_hear_it(served: Served, callers: ThreadPoolExecutor) -> None:
    add(served)
    listening = [callers.submit(heard, served, 2) for _ in range(10)]
    wait_until(lambda: waits(served) == 10)
    task = add(served)
    for each in listening:
        assert [data["task"] for _, data in each.result(PATIENCE)] == [task, task]


def test_a_silent_stream_shows_that_it_lives(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT", timedelta(milliseconds=20))
    monkeypatch.setattr(event_stream, "LOOK", timedelta(milliseconds=10))
    add(served)
    with httpx.stream("GET", served.url + STREAM, headers=headers(served), timeout=PATIENCE) as answer:
        lines = answer.iter_lines()
        response = [next(lines) for _ in range(7)]
    assert response == ["retry: 2000", "id: 2", "", ": still here", "", ": still here", ""]


def test_a_stream_ends_with_its_time_and_with_the_service(
    sqlite_database_url: str, callers: ThreadPoolExecutor
) -> None:
    def read_to_the_end(served: Served) -> Future[int]:
        asked = headers(served)
        return callers.submit(lambda: httpx.get(served.url + STREAM, headers=asked, timeout=60).status_code)

    with serving(sqlite_database_url, SHORT) as served:
        add(served)
        assert read_to_the_end(served).result(PATIENCE) == 200
    with serving(sqlite_database_url) as served:
        lasting = read_to_the_end(served)
        wait_until(lambda: waits(served) == 1)
        assert not lasting.done()
    assert lasting.result(PATIENCE) == 200  # the service ended in order, and so did the stream


def test_nobody_keeps_all_places_for_himself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_poll, "MOST_OF_ONE", 0)
    add(served)
    response = httpx.get(served.url + STREAM, headers=headers(served), timeout=PATIENCE)
    assert (response.status_code, response.json()["code"]) == (429, "too_many_requests")


@pytest.mark.parametrize("response", ["x", "-1", "9" * 19, "1" * 20, "¹"])
def test_an_id_that_was_never_given_is_refused(served: Served, response: str) -> None:
    add(served)
    asked = [(b"Authorization", headers(served)["Authorization"].encode()), (b"Last-Event-ID", response.encode())]
    answer = httpx.get(served.url + STREAM, headers=asked, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


# -- the client ----------------------------------------------------------------------------------------------------


def test_a_client_follows_across_a_break(sqlite_database_url: str) -> None:
    """Each connection lives for a moment only; no line is missed, none comes twice."""
    done = threading.Event()

    def keep_adding(where: Served) -> None:
        for _ in range(10):
            add(where)
            done.wait(0.05)

    with serving(sqlite_database_url, SHORT) as served, Client(served.url, served.token("alice", "tasks")) as client:
        add(served)
        lines = client.attention.follow("ops", since=0)
        adding = threading.Thread(target=keep_adding, args=(served,))
        adding.start()
        seen = [next(lines).seq for _ in range(22)]
        lines.close()  # type: ignore[attr-defined]
        adding.join()
        assert seen == [line.seq for line in read_journal(served.world, "ops", owner="alice", limit=22)]


def test_a_client_is_told_of_a_lane_that_is_not_there(served: Served) -> None:
    with Client(served.url, served.token("alice", "tasks")) as client, pytest.raises(errors.NotFound):
        next(client.attention.follow("nowhere"))


def test_a_look_at_the_headers_does_not_stay(served: Served) -> None:
    add(served)
    answer = httpx.head(served.url + STREAM, headers=headers(served), timeout=PATIENCE)
    assert (answer.status_code, answer.content) == (200, b"")
    wait_until(lambda: waits(served) == 0)
