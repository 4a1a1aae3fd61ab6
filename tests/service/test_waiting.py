"""The long poll, over real sockets. No test measures time: each waits for an event, and says what must not happen."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from horae import Horae
from horae.actions.jobs import claims
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.core.jobs.job import Job
from horae.ports.world import World
from horae.service import long_poll
from horae.service.dialects.job_shapes import SCHEDULER
from horae.service.long_poll import WaitingRoom, Want
from tests.support.serving import Served, serving
from tests.support.waiting import wait_until

PULL = "/scheduler/jobs/pull"
PATIENCE = 60.0
Pulls = Callable[..., Future[httpx.Response]]


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url) as running:
        yield running


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as threads:
        yield threads


def waits(served: Served) -> int:
    """Return how many callers stand in the room."""
    room: WaitingRoom | None = getattr(served.server.config.app.state, "waiting", None)  # type: ignore[union-attr]
    return 0 if room is None else room.waiting


def pulling(served: Served, callers: ThreadPoolExecutor, owner: str = "alice", **asked: Any) -> Future[httpx.Response]:
    headers = {"Authorization": f"Bearer {served.token(owner)}"}
    body = {"worker_id": "w", "limit": 1, "wait": 30, **asked}
    return callers.submit(lambda: httpx.post(served.url + PULL, json=body, headers=headers, timeout=60))


def put(world: World, owner: str = "alice", **more: Any) -> str:
    return verbs.enqueue(world, Request("work", queue=SCHEDULER, owner=owner, **more)).id


def ids(pulled: Future[httpx.Response]) -> list[str]:
    answer = pulled.result(60)
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


def test_a_pull_that_waits_is_woken_by_another_process(database_url: str, callers: ThreadPoolExecutor) -> None:
    """S0-11: the job was not there when the pull came. On every database, whatever its hints are."""
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        pulled = pulling(served, callers)
        wait_until(lambda: waits(served) == 1)
        assert not pulled.done()
        job = put(elsewhere.world)
        assert ids(pulled) == [job]
        wait_until(lambda: waits(served) == 0)


@pytest.mark.slow
def test_a_pull_that_waits_rises_when_a_job_falls_due(served: Served, callers: ThreadPoolExecutor) -> None:
    """Nobody gives a hint at that moment."""
    job = put(served.world, run_at=served.world.clock.now() + long_poll.BLOCKED)
    assert ids(pulling(served, callers)) == [job]


def test_a_pull_that_waits_takes_over_what_a_silent_worker_held(served: Served, callers: ThreadPoolExecutor) -> None:
    job = put(served.world)
    claims.pull(served.world, worker_id="silent", queues=[SCHEDULER], lease=long_poll.BLOCKED)
    assert ids(pulling(served, callers)) == [job]


def test_a_wait_that_brings_nothing_ends_with_nothing(served: Served, callers: ThreadPoolExecutor) -> None:
    assert ids(pulling(served, callers, wait=0.2)) == []


def test_another_tenants_job_wakes_nobody_for_good(served: Served, callers: ThreadPoolExecutor) -> None:
    pulled = pulling(served, callers)
    wait_until(lambda: waits(served) == 1)
    his = put(served.world, owner="bob")
    assert ids(pulling(served, callers, owner="bob")) == [his]
    assert not pulled.done()
    job = put(served.world)
    assert ids(pulled) == [job]


@pytest.mark.slow
def test_one_job_does_not_wake_a_crowd(
    served: Served, callers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty wait; one job costs a look by who gets it and one by the next in line."""
    pulls = [pulling(served, callers) for _ in range(30)]
    wait_until(lambda: waits(served) == 30)
    looks: list[Want] = []

    def counted(world: World, want: Want) -> Any:
        looks.append(want)
        return take(world, want)

    take = long_poll.take
    monkeypatch.setattr(long_poll, "take", counted)
    job = put(served.world)
    wait_until(lambda: waits(served) == 29)
    assert [ids(pulled) for pulled in pulls if pulled.done()] in ([[job]], [])
    assert len(looks) < len(pulls) / 2  # a busy machine gives a routine look the time to come, too
    others = [put(served.world) for _ in range(29)]
    assert sorted(each for pulled in pulls for each in ids(pulled)) == sorted([job, *others])


def hang_up_after(served: Served, event: Callable[[], bool]) -> None:
    """Ask for a job and wait, then hang up."""
    where = urlsplit(served.url)
    body = json.dumps({"worker_id": "gone", "wait": 30}).encode()
    head = (
        f"POST {PULL} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {served.token('alice')}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((str(where.hostname), int(where.port or 0))) as line:
        line.sendall(head.encode() + body)
        wait_until(event)


def test_nothing_is_claimed_for_a_caller_that_hung_up(served: Served, callers: ThreadPoolExecutor) -> None:
    hang_up_after(served, lambda: waits(served) == 1)
    wait_until(lambda: waits(served) == 0)  # at once, not when its thirty seconds are over
    job = put(served.world)
    (pulled,) = pulling(served, callers).result(60).json()["jobs"]
    assert (pulled["job_id"], pulled["token"]) == (job, 1)


def test_what_was_claimed_while_the_caller_hung_up_is_given_back(
    served: Served, callers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, may_claim = threading.Event(), threading.Event()

    def slow(world: World, want: Want) -> tuple[list[Job], Any]:
        entered.set()
        may_claim.wait(PATIENCE)
        return take(world, want)

    take = long_poll.take
    monkeypatch.setattr(long_poll, "take", slow)
    hang_up_after(served, entered.is_set)
    room: WaitingRoom = served.server.config.app.state.waiting  # type: ignore[union-attr]
    (line,) = room._lines.values()
    wait_until(line.waiters[0].has_gone)
    job = put(served.world)
    may_claim.set()
    wait_until(lambda: waits(served) == 0)
    wait_until(lambda: [run.outcome for run in verbs.runs(served.world, job)] == ["released"])
    again = verbs.get(served.world, job)
    assert (again.state, again.attempt) == ("queued", 0)


def test_only_so_many_may_wait(served: Served, callers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_poll, "MOST_OF_ONE", 1)
    pulled = pulling(served, callers)
    wait_until(lambda: waits(served) == 1)
    refused = pulling(served, callers).result(60)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert int(refused.headers["retry-after"]) > 0
    his = pulling(served, callers, owner="bob")
    wait_until(lambda: waits(served) == 2)
    jobs = [put(served.world, owner="bob"), put(served.world)]
    assert [*ids(his), *ids(pulled)] == jobs


def test_a_server_that_ends_does_not_wait_for_those_who_wait(
    sqlite_database_url: str, callers: ThreadPoolExecutor
) -> None:
    with serving(sqlite_database_url) as served:
        pulled = pulling(served, callers)
        wait_until(lambda: waits(served) == 1)
    assert ids(pulled) == []
