"""A token that is revoked, or expires, while its holder waits: nothing more is handed to it, on any process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from horae import Horae
from horae.actions.access.sessions import create_code, end_session, find_sessions
from horae.actions.access.tokens import create_token, revoke_token
from horae.actions.attention import inbox
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.api.application import Acting
from horae.api.here import Here, house
from horae.console.install import install
from horae.core.access.callers import Caller, Token, digest_of, token_text
from horae.ports.world import World
from horae.service import long_poll
from horae.service.asgi import build
from horae.service.dialects.job_shapes import SCHEDULER
from horae.service.long_poll import take_if_valid, waiting_room_of
from horae.service.options import Options
from horae.stores.schema import migrate
from tests.service.test_waiting import waits
from tests.support.serving import Served, answering, serving
from tests.support.waiting import pass_time_in_thread, wait_until

PULL = "/scheduler/jobs/pull"
STREAM = "/attention/lanes/ops/stream"
PATIENCE = 60.0
SOON = timedelta(seconds=1)


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as threads:
        yield threads


def made(world: World, owner: str = "alice") -> tuple[str, str]:
    token, text = create_token(world, owner=owner, scopes=("tasks", "worker"))
    return token.token_id, text


def ending_soon(world: World) -> str:
    """A token that will have expired in a moment; nobody can make one by the ordinary verbs."""
    now, secret = world.clock.now(), "5" * 64
    fields: dict[str, Any] = {"scopes": ("tasks", "worker"), "created_at": now, "created_by": "test"}
    token = Token("0" * 12, digest_of(secret), "alice", "", expires_at=now + SOON, **fields)
    world.store.transact(lambda tx: tx.tokens.add(token))
    return token_text(token.token_id, secret)


def pulling(served: Served, callers: ThreadPoolExecutor, text: str) -> Future[httpx.Response]:
    headers = {"Authorization": f"Bearer {text}"}
    body = {"worker_id": "w", "limit": 1, "wait": 30}
    return callers.submit(lambda: httpx.post(served.url + PULL, json=body, headers=headers, timeout=PATIENCE))


def following(served: Served, callers: ThreadPoolExecutor, text: str) -> Future[list[str]]:
    """Read a stream to its end."""

    def read() -> list[str]:
        headers = {"Authorization": f"Bearer {text}"}
        with httpx.stream("GET", served.url + STREAM, headers=headers, timeout=PATIENCE) as answer:
            assert answer.status_code == 200
            return list(answer.iter_lines())

    return callers.submit(read)


def put(world: World) -> str:
    return verbs.enqueue(world, Request("work", queue=SCHEDULER, owner="alice")).id


def test_a_pull_that_waits_is_refused_when_its_token_is_revoked_elsewhere(
    database_url: str, callers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, revoked = threading.Event(), threading.Event()

    def look_later(*asked: Any) -> Any:
        looks.set()
        revoked.wait(PATIENCE)
        return take_if_valid(*asked)

    monkeypatch.setattr(long_poll, "take_if_valid", look_later)
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        token_id, text = made(served.world)
        pulled = pulling(served, callers, text)
        assert looks.wait(PATIENCE)

        revoke_token(elsewhere.world, token_id)
        job = put(elsewhere.world)
        revoked.set()  # it looks when both have happened: the claim must not come before the check

        answer = pulled.result(PATIENCE)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        found = verbs.get(served.world, job)
        assert (found.state, found.token) == ("queued", 0), "nobody has ever taken it"


def test_another_token_of_the_same_tenant_goes_on_waiting(
    sqlite_database_url: str, callers: ThreadPoolExecutor
) -> None:
    with serving(sqlite_database_url) as served:
        (first_id, first), (_, second) = made(served.world), made(served.world)
        refused = pulling(served, callers, first)
        wait_until(lambda: waits(served) == 1)
        goes_on = pulling(served, callers, second)
        wait_until(lambda: waits(served) == 2)

        revoke_token(served.world, first_id)
        assert refused.result(PATIENCE).status_code == 401
        job = put(served.world)

        assert [each["job_id"] for each in goes_on.result(PATIENCE).json()["jobs"]] == [job]


@pytest.mark.slow
def test_a_pull_that_waits_is_refused_when_its_token_expires(
    sqlite_database_url: str, callers: ThreadPoolExecutor
) -> None:
    with serving(sqlite_database_url) as served:
        answer = pulling(served, callers, ending_soon(served.world)).result(PATIENCE)

        assert answer.status_code == 401


def test_a_stream_ends_when_its_token_is_revoked_elsewhere(database_url: str, callers: ThreadPoolExecutor) -> None:
    with serving(database_url) as served, Horae(database_url) as elsewhere:
        inbox.add(served.world, "ops", "report", owner="alice")
        token_id, text = made(served.world)
        followed = following(served, callers, text)
        wait_until(lambda: waits(served) == 1)

        revoke_token(elsewhere.world, token_id)

        followed.result(PATIENCE)
        wait_until(lambda: waits(served) == 0)


@pytest.mark.slow
def test_a_stream_ends_when_a_jwt_expires(sqlite_database_url: str, callers: ThreadPoolExecutor) -> None:
    """Nobody revokes one, so its end is known from the beginning."""
    with Horae(sqlite_database_url) as app:
        ends = app.world.clock.now() + SOON
    user = Caller("alice", frozenset({"tasks"}), "user/alice", expires_at=ends)
    with serving(sqlite_database_url, Options(version="test", recognisers=(lambda _: user,))) as served:
        inbox.add(served.world, "ops", "report", owner="alice")

        following(served, callers, "a.b.c").result(PATIENCE)


@pytest.mark.slow
def test_a_stream_that_nobody_reads_is_cut_off_when_its_token_is_revoked(sqlite_database_url: str) -> None:
    """Its writer waits for room in the connection, and must not do so for ever."""
    with serving(sqlite_database_url) as served:
        for _ in range(120):
            inbox.add(served.world, "ops", "report", {"x": "y" * 200_000}, owner="alice")
        token_id, text = made(served.world)
        place = urlsplit(served.url)
        with socket.create_connection((place.hostname, place.port)) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            asked = f"GET {STREAM}?since=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {text}\r\n\r\n"
            silent.sendall(asked.encode())
            wait_until(lambda: waits(served) == 1)

            revoke_token(served.world, token_id)

            wait_until(lambda: waits(served) == 0)


@pytest.mark.slow
def test_an_export_breaks_off_when_its_token_is_revoked(sqlite_database_url: str) -> None:
    """What has been read so far cannot be taken for the whole."""
    with serving(sqlite_database_url) as served:
        near = Acting(lambda: Here(served.world, house("app/test")))
        for number in range(100):
            near.objects.propose("memory", f"{number} {'x' * 60_000}", subject="customer")
        token, text = create_token(served.world, owner="system", scopes=("admin",))
        url = f"{served.url}/governance/export"
        headers = {"Authorization": f"Bearer {text}", "Accept-Encoding": "identity"}

        little = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)])
        with (
            httpx.Client(transport=little, timeout=PATIENCE) as client,
            client.stream("GET", url, headers=headers) as got,
        ):
            pieces = got.iter_raw()
            next(pieces)
            revoke_token(served.world, token.token_id)
            wait_until(lambda: httpx.get(url, headers=headers).status_code == 401, "the token is refused")
            pass_time_in_thread(SOON.total_seconds())  # it reads nothing meanwhile: its writer waits for room
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)


@pytest.mark.slow
def test_a_live_page_hears_nothing_more_when_its_session_ends_elsewhere(
    sqlite_database_url: str, callers: ThreadPoolExecutor
) -> None:
    with Horae(sqlite_database_url) as app:
        migrate(app.engine)
        service = build(lambda: app.world, Options(version="test"))
        install(service)
        token, _ = create_token(app.world, owner="system", scopes=("admin",))
        code = create_code(app.world, token.token_id)[1]
        with answering(service) as server, httpx.Client(base_url=server.url, timeout=PATIENCE) as browser:
            assert browser.get(f"/console/login?code={code}").is_redirect
            (session,) = find_sessions(app.world)
            followed = callers.submit(lambda: browser.get("/console/live"))
            wait_until(lambda: waiting_room_of(service).waiting == 1, "the page is followed")

            end_session(app.world, session.session_id)

            assert followed.result(PATIENCE).status_code == 200
            assert browser.get("/console/").is_redirect
