"""How calls are sent: keys, tries, time limits, errors, and what is never said aloud."""

from __future__ import annotations

import logging
import socket
import warnings

import httpx
import pytest

from horae import errors
from horae.api.operation import Answer, Call, Listing, Page, Pages
from horae.client import AsyncClient, Client
from horae.client.transport import Endpoint, Patience, SyncTransport, is_loopback
from horae.core.access.callers import token_text
from tests.client.conftest import BROKEN_OFF, Reply, Says
from tests.support.refusals import refused

OK: Reply = (200, {}, {"version": "9"})
DOWN: Reply = (
    503,
    {"Retry-After": "2"},
    {"code": "store_unavailable", "reason": "database_not_reached", "detail": "The store does not answer."},
)
TOKEN = token_text("0123456789ab", "c" * 64)


def body(answer: Answer) -> object:
    return answer.body


def sender(url: str, **patience: float) -> SyncTransport:
    return SyncTransport(Endpoint(url, None, Patience(**patience)))  # type: ignore[arg-type]


# -- tries -------------------------------------------------------------------------------------------------------


def test_a_busy_service_is_asked_again_when_it_says(says: Says, pauses: list[float]) -> None:
    script = says(DOWN, (429, {"Retry-After": "0.5"}, {"code": "too_many_requests"}), OK)
    with Client(script.url) as client:
        assert client.health.version() == "9"
    assert pauses == [2.0, 0.5]


async def test_so_is_it_by_the_async_client(says: Says, pauses: list[float]) -> None:
    script = says(DOWN, OK)
    async with AsyncClient(script.url) as client:
        assert await client.health.version() == "9"
    assert pauses == [2.0]


def test_a_service_that_is_not_ready_is_an_answer_and_not_an_error(says: Says, pauses: list[float]) -> None:
    check = {"name": "store", "status": "failed", "detail": "does not answer", "seconds": None, "count": None}
    script = says((503, {"Content-Type": "application/json"}, {"status": "unready", "checks": [check]}))
    with Client(script.url) as client:
        assert client.health.ready().checks[0].detail == "does not answer"
    assert not pauses


def test_tries_are_bounded_and_the_last_answer_is_the_error(says: Says, pauses: list[float]) -> None:
    script = says(DOWN)
    with Client(script.url, retries=2) as client, refused(errors.StoreUnavailable, "database_not_reached"):
        client.health.version()
    assert len(script.seen) == 3


def test_a_long_retry_after_is_told_and_not_slept_through(says: Says, pauses: list[float]) -> None:
    script = says((429, {"Retry-After": "3600"}, {"code": "too_many_requests", "detail": "Slower."}))
    with Client(script.url) as client, pytest.raises(errors.TooManyRequests) as result:
        client.health.version()
    assert result.value.retry_after == 3600
    assert not pauses


def test_retry_after_may_be_a_date(says: Says, pauses: list[float]) -> None:
    script = says((503, {"Retry-After": "Wed, 01 Jan 2020 00:00:00 GMT"}, {}), OK)
    with Client(script.url) as client:
        client.health.version()
    assert pauses == [0.0]


def test_without_retry_after_the_waits_double_and_are_shaken(says: Says, pauses: list[float]) -> None:
    script = says((503, {}, {}))
    with Client(script.url) as client, pytest.raises(errors.ServiceUnavailable):
        client.health.version()
    assert [most / 2 <= slept <= most for slept, most in zip(pauses, (0.25, 0.5, 1.0), strict=True)] == [True] * 3


def test_a_lost_answer_is_asked_for_again_where_that_does_no_harm(says: Says, pauses: list[float]) -> None:
    script = says(BROKEN_OFF, OK)
    with Client(script.url) as client:
        assert client.health.version() == "9"


def test_a_lost_answer_to_a_change_is_told_as_unknown(says: Says, pauses: list[float]) -> None:
    script = says(BROKEN_OFF, OK)
    with refused(errors.ServiceUnavailable, "service_broke_off_outcome_unknown", url=script.url):
        sender(script.url).send(Call(read=body, method="POST", path="/x"))
    assert len(script.seen) == 1


def test_a_change_is_not_repeated_when_the_store_may_have_done_it(says: Says, pauses: list[float]) -> None:
    """A 503 can mean that the outcome of a commit is unknown."""
    script = says(DOWN, OK)
    with pytest.raises(errors.StoreUnavailable):
        sender(script.url).send(Call(read=body, method="POST", path="/x"))
    assert len(script.seen) == 1


def test_what_creates_is_repeated_under_one_key(says: Says, pauses: list[float]) -> None:
    script = says(BROKEN_OFF, DOWN, OK)
    sender(script.url).send(Call(read=body, method="POST", path="/x", creates=True, body={"a": 1}))
    keys = script.headers("Idempotency-Key")
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


def test_nobody_there_is_said_after_all_tries(pauses: list[float]) -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        refused(errors.ServiceUnavailable, "service_unreachable", url="http://127.0.0.1:1"),
    ):
        client.health.version()
    assert len(pauses) == 3


def test_a_silent_service_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = Client(f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=0.05, retries=0)
        with refused(errors.ServiceUnavailable, "service_silent", seconds=0.05):
            client.health.version()
        client.close()


# -- pages -------------------------------------------------------------------------------------------------------


def rows(answer: Answer) -> Page[int]:
    return Page(tuple(answer.body["items"]), answer.body["next_cursor"])


PAGES: tuple[Reply, ...] = (
    (200, {}, {"items": [1, 2], "next_cursor": "a"}),
    (200, {}, {"items": [3, 4], "next_cursor": "b"}),
    (200, {}, {"items": [5], "next_cursor": None}),
)


def test_pages_are_fetched_when_they_are_needed(says: Says) -> None:
    script = says(*PAGES)
    found = iter(Pages(sender(script.url), Listing(Call(read=rows, path="/x"))))
    assert next(found) == 1
    assert len(script.seen) == 1
    assert list(found) == [2, 3, 4, 5]
    assert [path for _, path, _, _ in script.seen] == ["/x?limit=100", "/x?limit=100&cursor=a", "/x?limit=100&cursor=b"]


def test_a_limit_ends_the_listing(says: Says) -> None:
    script = says(*PAGES)
    assert list(Pages(sender(script.url), Listing(Call(read=rows, path="/x"), limit=4))) == [1, 2, 3, 4]
    assert len(script.seen) == 2


# -- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "result", "kind"),
    [
        (404, {"code": "not_found", "detail": "There is no job job_9."}, errors.NotFound),
        (409, {"code": "lease_lost", "detail": "Job job_9 is no longer held."}, errors.LeaseLost),
        (409, {"code": "key_conflict", "detail": "The key is taken."}, errors.KeyConflict),
        (412, {"code": "version_conflict", "detail": "Changed."}, errors.VersionConflict),
        (422, {"code": "unknown_zone", "detail": "There is no time zone 'Mars'."}, errors.UnknownZone),
        (401, {"code": "unauthorized", "detail": "Who?"}, errors.Unauthorized),
        (403, {"code": "from_the_future", "detail": "No."}, errors.Forbidden),
        (418, {"code": "from_the_future", "detail": "I am a teapot."}, errors.HoraeError),
        (502, "<html>Bad gateway</html>", errors.ServiceUnavailable),
        (404, "nothing here", errors.NotFound),
        (302, "elsewhere", errors.HoraeError),
    ],
)
def test_a_problem_is_raised_as_the_library_would(
    says: Says, status: int, result: object, kind: type[errors.HoraeError]
) -> None:
    script = says((status, {"X-Request-Id": "r-1"}, result))
    with Client(script.url) as client, pytest.raises(errors.HoraeError) as raised:
        client.health.version()
    assert type(raised.value) is kind
    assert str(raised.value) == (result["detail"] if isinstance(result, dict) else str(raised.value))
    assert raised.value.__notes__ == [f"{status} to GET /version, request r-1"]


def test_what_an_error_knows_comes_along(says: Says) -> None:
    cron = {"code": "invalid_cron", "detail": "No.", "expression": "61 * * * *", "field": "minute", "position": 1}
    script = says((422, {}, cron), (409, {}, {"code": "quota_exceeded", "detail": "20.", "limit": "t", "allowed": 20}))
    with Client(script.url) as client:
        with pytest.raises(errors.InvalidCron) as bad:
            client.health.version()
        with pytest.raises(errors.QuotaExceeded) as full:
            client.health.version()
    assert (bad.value.expression, bad.value.field, bad.value.position, bad.value.found) == (
        "61 * * * *",
        "minute",
        1,
        "",
    )
    assert full.value.allowed == 20


def test_reason_and_facts_come_along_also_from_a_newer_service(says: Says) -> None:
    newer = {"code": "not_found", "detail": "No such moon.", "reason": "moon_unknown", "facts": {"name": "Io"}}
    odd = {"code": "not_found", "detail": "Odd.", "reason": 7, "facts": ["a"]}
    script = says((404, {}, newer), (404, {}, odd))
    with Client(script.url) as client:
        with refused(errors.NotFound, "moon_unknown", name="Io") as raised:
            client.health.version()
        assert (str(raised.value), raised.value.as_json()["facts"]) == ("No such moon.", {"name": "Io"})
        with refused(errors.NotFound, "") as raised:
            client.health.version()
        assert (str(raised.value), raised.value.facts) == ("Odd.", {})


def test_what_is_not_a_horae_service_is_told_as_such(says: Says) -> None:
    script = says((200, {"Content-Type": "text/html"}, "<h1>It works!</h1>"))
    with Client(script.url) as client, refused(errors.ServiceUnavailable, "service_answer_unreadable"):
        client.health.version()


# -- what is never said aloud --------------------------------------------------------------------------------------


def test_the_token_is_sent_and_never_shown(says: Says, caplog: pytest.LogCaptureFixture) -> None:
    facts = {"id": TOKEN, "choices": [TOKEN]}
    script = says((404, {}, {"code": "not_found", "detail": f"No {TOKEN}", "reason": "x_unknown", "facts": facts}))
    caplog.set_level(logging.DEBUG)
    with Client(script.url, TOKEN) as client, pytest.raises(errors.NotFound) as raised:
        client.health.version()
    assert script.headers("Authorization") == [f"Bearer {TOKEN}"]
    shown = repr(client) + repr(vars(client)) + str(raised.value) + repr(raised.value) + caplog.text
    assert TOKEN not in shown
    assert repr(client) == f"Client({script.url!r})"


def test_an_unencrypted_way_to_another_host_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"unencrypted.*https") as result:
        Client("http://horae.example", TOKEN)
    assert TOKEN not in str(result[0].message)
    assert result[0].filename == __file__


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost", "https://a.example"])
def test_a_private_or_encrypted_way_is_not(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client(url, TOKEN).close()


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://a.example",
        "http://",
        "",
        "sqlite:///horae.db",
        "http://a:99999",
        "http://[::1",
        "http://a/?b=c",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with refused(errors.InvalidInput, "service_url_unreadable"):
        Client(url)


def test_a_password_in_the_url_is_refused() -> None:
    with refused(errors.InvalidInput, "service_url_has_credentials") as result:
        Client("http://alice:hush@a.example")
    assert "hush" not in str(result.value)


@pytest.mark.parametrize("token", ["a b", "a\n", "…"])
def test_a_token_that_no_header_can_carry_is_refused(token: str) -> None:
    with refused(errors.InvalidInput, "service_token_unreadable"):
        Client("http://127.0.0.1", token)


def test_redirects_are_not_followed_with_the_token(says: Says) -> None:
    elsewhere = says(OK)
    script = says((307, {"Location": elsewhere.url}, "moved"))
    with Client(script.url, TOKEN) as client, refused(errors.HoraeError, "service_status_unexpected", status=307):
        client.health.version()
    assert not elsewhere.seen


@pytest.mark.parametrize("said", [{"detail": None}, {"detail": ""}, {"detail": None, "reason": None}, "<html>"])
def test_an_answer_without_a_sentence_gets_one(said: object, says: Says, pauses: list[float]) -> None:
    """A proxy answers in the service's place."""
    script = says(*[(502, {}, said)] * 9)
    with Client(script.url) as client, refused(errors.ServiceUnavailable, "service_status_unexpected") as result:
        client.health.version()
    assert "502" in str(result.value)


def test_a_path_of_the_url_is_kept(says: Says) -> None:
    """A service may be mounted under any path of another application."""
    script = says(OK)
    with Client(f"{script.url}/inner/horae/") as client:
        client.health.version()
    assert script.seen[0][1] == "/inner/horae/version"


def test_what_stands_in_a_path_cannot_leave_it(says: Says) -> None:
    script = says(OK)
    sender(script.url).send(Call(read=body, path="/secrets/{name}", at={"name": "../a?b#c/ü"}))
    assert script.seen[0][1] == "/secrets/..%2Fa%3Fb%23c%2F%C3%BC"


def test_what_is_not_json_is_refused_before_it_is_sent(says: Says) -> None:
    script = says(OK)
    for value in (object(), float("nan")):
        with refused(errors.InvalidInput, "request_not_json"):
            sender(script.url).send(Call(read=body, method="POST", path="/x", body={"a": value}))
    assert not script.seen


def test_loopback_is_known_by_name_and_number() -> None:
    assert [is_loopback(each) for each in ("localhost", "127.9.9.9", "::1", "10.0.0.1", "localhost.example")] == [
        True,
        True,
        True,
        False,
        False,
    ]


async def test_an_application_can_be_asked_without_a_socket() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"version": str(request.url.path)})

    async with AsyncClient("http://a", transport=httpx.MockTransport(answer)) as client:
        assert await client.health.version() == "/version"
