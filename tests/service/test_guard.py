"""What stands before every request: ids, bodies, headers, the log, and who is sent away."""

import gzip
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.responses import StreamingResponse

from horae.ports.world import World
from horae.service.asgi import build
from horae.service.guard.bodies import DEEPEST, fault_of
from horae.service.options import Options
from tests.service.conftest import Connect

MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def options() -> Options:
    return Options(version="test", max_body_bytes=MIB)


def send(client: TestClient, body: bytes | Iterator[bytes], **headers: str) -> Any:
    return client.post("/scheduler/jobs", content=body, headers={**JSON, **headers})


# -- ids and headers -----------------------------------------------------------------------------------------------


def test_a_sane_request_id_is_kept_and_any_other_replaced(nobody: TestClient) -> None:
    assert nobody.get("/healthz", headers={"X-Request-Id": "deploy-7:a/b"}).headers["x-request-id"] == "deploy-7:a/b"
    for strange in (b"a b", b"x" * 200, b"<script>", "é".encode(), b""):
        given = nobody.get("/healthz", headers={b"X-Request-Id": strange})
        assert given.headers["x-request-id"].startswith("r")


@pytest.mark.parametrize("path", ["/healthz", "/scheduler/jobs", "/nowhere", "/docs", "/openapi.json"])
def test_every_answer_carries_the_security_headers(path: str, nobody: TestClient) -> None:
    """Security check 13: nothing of ours can be framed or guessed at."""
    headers = nobody.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_head_is_get_without_the_body_and_other_methods_say_what_is_allowed(nobody: TestClient) -> None:
    head = nobody.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == nobody.get("/healthz").headers["content-length"]
    options = nobody.options("/healthz")
    assert (options.status_code, options.headers["allow"], options.json()["code"]) == (405, "GET", "method_not_allowed")


def test_head_of_something_endless_ends(world: World, options: Options) -> None:
    app = build(lambda: world, options)

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def result() -> Any:
            while True:
                yield b"x"

        return StreamingResponse(result())

    assert TestClient(app).head("/endless").status_code == 200


def test_answers_are_compressed_for_those_who_ask(nobody: TestClient) -> None:
    packed = nobody.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in nobody.get("/openapi.json", headers={"Accept-Encoding": "identity"}).headers


def test_a_fault_of_ours_is_told_with_headers_and_an_id_and_nothing_else(world: World, options: Options) -> None:
    app = build(lambda: world, options)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("SELECT secret FROM somewhere")

    answer = TestClient(app).get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "SELECT" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


# -- bodies --------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_long_is_refused_before_it_is_read(alice: TestClient) -> None:
    """Security check 15: by its length where it says it, by counting where it does not."""

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * (MIB // 10)

    for body in (b" " * (10 * MIB), endless()):
        answer = send(alice, body)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_compressed_body_is_not_unpacked(alice: TestClient) -> None:
    answer = send(alice, gzip.compress(b" " * MIB), **{"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media")


HOSTILE = {
    "deep list": b"[" * 100_000,
    "deep list, closed": b"[" * 100_000 + b"]" * 100_000,
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "raw NUL": b'{"handler": "a\0b"}',
    "escaped NUL": b'{"handler": "a\\u0000b"}',
    "lone surrogate": b'{"handler": "a", "payload": {"x": "\\ud800"}}',
    "two high ones": b'{"handler": "a", "payload": {"x": "\\ud83d\\ud83d"}}',
    "not UTF-8": b'{"handler": "\xff"}',
    "UTF-16": '{"handler": "a"}'.encode("utf-16-le"),
    "huge integer": b'{"handler": "a", "payload": {"x": ' + b"9" * 10_000 + b"}}",
    "infinite number": b'{"handler": "a", "payload": {"x": 1e999}}',
    "NaN": b'{"handler": "a", "payload": {"x": NaN}}',
    "minus infinity": b'{"handler": "a", "payload": {"x": -Infinity}}',
    "unfinished": b'{"handler": "a"',
    "empty": b"",
    "text": b"hello",
    "a million tags": b'{"handler": "a", "tags": [' + b'"t",' * 200_000 + b'"t"]}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_body_is_refused_in_words_and_never_breaks_anything(body: bytes, alice: TestClient) -> None:
    """Security check 15."""
    answer = send(alice, body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b'{"a": "\\\\u0000 is no NUL"}', b'{"a": "\\ud83d\\ude00"}', b'{"NaN": "Infinity"}', b"[1e300, -1e-999]",
        b"[" * DEEPEST + b"]" * DEEPEST, b'["' + b"[" * 1000 + b'"]', b'["\\"[[[[", "' + b"{" * 500 + b'\\\\"]',
        "[\"日本語\"]".encode(), b"[" + b"[]," * 1000 + b"[]]",
    ],
)  # fmt: skip
def test_what_only_looks_hostile_is_let_through(body: bytes) -> None:
    json.loads(body)
    assert fault_of(body) is None


def test_one_level_too_deep_is_refused() -> None:
    assert "nested deeper" in (fault_of(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)) or "")


def test_a_nul_in_the_address_is_refused(alice: TestClient) -> None:
    assert alice.get("/scheduler/jobs?queue=a%00b").status_code == 422
    assert alice.get("/scheduler/jobs/job%00").status_code == 422


# -- other sites ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "https://evil.example"}, True),
        ({"Origin": "null"}, True),
        ({"Origin": "http://horae.test"}, False),
        ({"Origin": "https://jobs.example"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str], refused: bool, connect: Connect) -> None:
    """Security check 12."""
    alice = connect("alice", "tasks", "worker", public_url="https://jobs.example")
    answer = alice.post("/scheduler/jobs/pull", json={"worker_id": "w", "limit": 1}, headers=headers)
    assert (answer.status_code == 403, answer.json().get("code") == "cross_site") == (refused, refused)
    assert alice.get("/scheduler/jobs", headers=headers).status_code == 200


def test_without_authentication_only_this_machine_s_names_are_answered(connect: Connect) -> None:
    """A page that points its own name at 127.0.0.1 gets nothing."""
    everybody = connect(open_to_all=True, hosts=("localhost", "127.0.0.1", "::1"))
    for host, status in (("evil.example", 421), ("localhost:8765", 200), ("[::1]:8765", 200), ("127.0.0.1", 200)):
        assert everybody.get("/scheduler/jobs", headers={"Host": host}).status_code == status


# -- mounted -------------------------------------------------------------------------------------------------------


def test_mounted_under_any_root_path_links_and_documents_are_right(world: World, operator: TestClient) -> None:
    outer = FastAPI()
    outer.mount("/deep/horae", build(lambda: world, Options(version="test")))
    client = TestClient(outer, headers=dict(operator.headers), root_path="/proxy")
    made = client.post("/proxy/deep/horae/scheduler/jobs", json={"handler": "a", "payload": {}})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/proxy/deep/horae/scheduler/jobs/{made.json()['job_id']}"
    assert client.get("/proxy/deep/horae/openapi.json").json()["servers"] == [{"url": "/proxy/deep/horae"}]
    assert "/proxy/deep/horae/healthz" in client.get("/proxy/deep/horae/docs").text


def test_mounted_behind_a_proxy_that_strips_its_prefix_it_answers_unless_nothing_mounted_does(world: World) -> None:
    """What docs/how-to/run-the-service.md says: a plain mount and the server's root path work; where the outer
    application gets the prefix and the path has lost it, FastAPI finds no mounted application, ours or another."""
    another = FastAPI()
    another.add_api_route("/healthz", lambda: "well")

    def statuses(outer: FastAPI, path: str, root_path: str = "") -> set[int]:
        outer.mount("/horae", build(lambda: world, Options(version="test")))
        outer.mount("/another", another)
        client = TestClient(outer, root_path=root_path)
        return {client.get(path.format(mounted)).status_code for mounted in ("horae", "another")}

    assert statuses(FastAPI(), "/{}/healthz") == {200}
    assert statuses(FastAPI(), "/api/{}/healthz", root_path="/api") == {200}  # as uvicorn --root-path asks for it
    assert len(statuses(told_its_prefix(), "/{}/healthz")) == 1
    assert statuses(told_its_prefix(), "/api/{}/healthz") == {200}


def told_its_prefix() -> FastAPI:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases say that this is the server's business
        return FastAPI(root_path="/api")


# -- the log -------------------------------------------------------------------------------------------------------


def test_each_request_is_one_line_of_json_without_a_secret(
    alice: TestClient, nobody: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Security check 20: neither the token nor anything of the address but its template."""
    caplog.set_level(logging.INFO, "horae.access")
    alice.get("/scheduler/jobs/job_1?queue=CANARY", headers={"X-Request-Id": "one"})
    nobody.get("/CANARY%0d%0ainjected", headers={"Authorization": "Bearer CANARY"})
    lines = [record.getMessage() for record in caplog.records if record.name == "horae.access"]
    first, second = (json.loads(line) for line in lines)
    assert first.pop("duration_ms") >= 0
    assert first.pop("bytes") > 0
    assert first.pop("actor").startswith("token/")
    assert first == {
        "method": "GET", "route": "/scheduler/jobs/{job_id}", "status": 404, "request_id": "one", "owner": "alice",
    }  # fmt: skip
    assert (second["route"], second["status"], second["owner"]) == (None, 404, None)
    assert not [line for line in lines if "CANARY" in line or "horae_" in line or "\n" in line]


# -- answers to callers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "result"),
    [
        (b'{"name": "x"', "application/json", "body is not JSON: Expecting ',' delimiter (character 12)"),
        (b'{"name": "x"}', "application/x-www-form-urlencoded", "Send JSON, with the header Content-Type"),
        (b"name=x", "text/plain", "Send JSON, with the header Content-Type"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_what_to_send(connect: Connect, body: bytes, kind: str, result: str) -> None:
    """What curl sends without ``-H`` is a form; nobody should need Python to see that."""
    answer = connect("alice", "tasks").post("/scheduled-tasks", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(result)


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/scheduler/jobs?status=bogus", "query.status.0 must be 'queued'"),
        ("/scheduler/jobs/nope", "path.job_id: 'nope' is not a job id; ids look like job_12"),
    ],
)
def test_a_refusal_names_the_callers_words_and_none_of_ours(connect: Connect, path: str, result: str) -> None:
    answer = connect("alice", "tasks").get(path)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(result)
    assert "literal[" not in answer.text
    assert "Value error" not in answer.text


def test_a_change_with_a_misspelt_parameter_is_refused(connect: Connect) -> None:
    """``jobid`` for ``jobId`` would clean the log of every job."""
    operator = connect("system", "admin")
    answer = operator.delete("/admin/job-log/clean?olderThanDays=0&jobid=nightly")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert (answer.json()["reason"], answer.json()["facts"]) == ("parameter_unknown", {"name": "jobid"})
    assert operator.delete("/admin/job-log/clean?olderThanDays=0").status_code == 200
    assert operator.post("/queues/q/pause?owner=alice").status_code == 422
    assert connect().delete("/admin/job-log/clean?jobid=nightly").status_code == 401
    assert operator.get("/scheduler/jobs?_=1").status_code == 200  # who only looks may say more


def test_an_answer_without_a_body_names_no_type_of_one(connect: Connect) -> None:
    alice = connect("alice", "tasks")
    task = alice.post("/scheduled-tasks", json={"payload": {"text": "x"}})
    way = f"/scheduled-tasks/{task.json()['id']}"
    for seen in (task.headers["ETag"], "*"):
        same = alice.get(way, headers={"If-None-Match": seen})
        assert (same.status_code, same.headers.get("Content-Type"), same.content) == (304, None, b"")
    gone = alice.delete(way)
    assert (gone.status_code, gone.headers.get("Content-Type"), gone.content) == (204, None, b"")


def test_a_time_without_a_zone_is_answered_with_what_to_write(connect: Connect) -> None:
    answer = connect("alice", "tasks").post("/scheduler/jobs", json={"handler": "x", "run_at": "2030-01-07T06:00"})
    assert answer.json()["detail"] == (
        "body.run_at: '2030-01-07T06:00' has no time zone; write 2030-01-07T06:00:00Z for UTC, or an offset such as "
        "2030-01-07T06:00:00+08:00."
    )


def test_under_a_path_what_is_not_found_points_there(world: World) -> None:
    outer = FastAPI()
    outer.mount("/horae", build(lambda: world))
    assert "/horae/openapi.json" in TestClient(outer).get("/horae/nothing").json()["detail"]
