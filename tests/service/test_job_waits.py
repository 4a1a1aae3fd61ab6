"""Waiting for the end of a job, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from horae import Horae
from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.ports.world import World
from tests.service.test_waiting import waits
from tests.support.serving import Served, serving
from tests.support.waiting import wait_until

PATIENCE = 60.0
MANY = 60  # more than the service has threads for requests


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


@pytest.fixture
def served(sqlite_database_url: str) -> Iterator[Served]:
    with serving(sqlite_database_url) as running:
        yield running


def put(world: World) -> str:
    return verbs.enqueue(world, Request("work", owner="alice")).id


def end_all(world: World) -> None:
    for job in claims.pull(world, worker_id="w", owner="alice"):
        endings.ack(world, job.id, job.token)


def asking(served: Served, callers: ThreadPoolExecutor, token: str, job_id: str) -> Future[httpx.Response]:
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{served.url}/jobs/{job_id}/wait"
    return callers.submit(lambda: httpx.get(url, params={"timeout": 30}, headers=headers, timeout=PATIENCE))


def test_a_wait_ends_when_the_job_ends_in_another_process(database_url: str, callers: ThreadPoolExecutor) -> None:
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        job_id = put(elsewhere.world)
        asked = asking(served, callers, served.token("alice"), job_id)
        wait_until(lambda: waits(served) == 1)

        end_all(elsewhere.world)

        answer = asked.result(PATIENCE)
        assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
        wait_until(lambda: waits(served) == 0)


def test_a_wait_is_refused_when_its_token_is_revoked_elsewhere(database_url: str, callers: ThreadPoolExecutor) -> None:
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        token, text = create_token(served.world, owner="alice", scopes=("tasks",))
        asked = asking(served, callers, text, put(served.world))
        wait_until(lambda: waits(served) == 1)

        revoke_token(elsewhere.world, token.token_id)

        answer = asked.result(PATIENCE)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


def test_when_the_time_is_up_the_job_is_answered_as_it_stands(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.token('alice')}"}
    url = f"{served.url}/jobs/{put(served.world)}/wait"

    answer = httpx.get(url, params={"timeout": 0.2}, headers=headers, timeout=PATIENCE)
    too_long = httpx.get(url, params={"timeout": 31}, headers=headers, timeout=PATIENCE)

    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
    assert too_long.status_code == 422


def test_a_caller_that_hangs_up_leaves_no_place_taken(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.token('alice')}"}
    url = f"{served.url}/jobs/{put(served.world)}/wait?timeout=30"

    async def hang_up() -> None:
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            asked = asyncio.create_task(http.get(url))
            await asyncio.to_thread(wait_until, lambda: waits(served) == 1)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(hang_up())
    wait_until(lambda: waits(served) == 0)


@pytest.mark.slow
def test_many_callers_wait_without_a_thread_for_each(served: Served) -> None:
    """If each held one of the service's threads, none would be left for the request that ends their jobs."""
    token = served.token("alice")
    jobs = [put(served.world) for _ in range(MANY)]

    async def wait_together() -> list[str]:
        headers, limits = {"Authorization": f"Bearer {token}"}, httpx.Limits(max_connections=MANY + 1)
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE, limits=limits) as http:
            asked = [http.get(f"{served.url}/jobs/{job_id}/wait?timeout=30") for job_id in jobs]
            waiting = [asyncio.create_task(each) for each in asked]
            await asyncio.to_thread(wait_until, lambda: waits(served) == MANY)
            held = (await http.post(f"{served.url}/jobs/claim", json={"worker_id": "w"})).json()["items"]
            done = [{"job_id": each["id"], "token": each["token"], "outcome": "succeeded"} for each in held]
            await http.post(f"{served.url}/jobs/settle", json={"endings": done})
            return [each.json()["state"] for each in await asyncio.gather(*waiting)]

    assert asyncio.run(wait_together()) == ["succeeded"] * MANY


def test_a_service_that_ends_sends_its_callers_home(sqlite_database_url: str, callers: ThreadPoolExecutor) -> None:
    with serving(sqlite_database_url) as served:
        asked = asking(served, callers, served.token("alice"), put(served.world))
        wait_until(lambda: waits(served) == 1)
        served.server.stop()
        answer = asked.result(PATIENCE)

    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
