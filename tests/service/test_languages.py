"""Answers in the language that a request asks for."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}


def test_a_problem_is_in_chinese_where_the_request_asks_for_it(alice: TestClient) -> None:
    answer = alice.get("/jobs/job_7", headers=CHINESE)

    assert answer.status_code == 404
    assert (answer.headers["content-language"], answer.headers["vary"]) == ("zh-Hans", "Accept-Language")
    problem = answer.json()
    assert (problem["title"], problem["code"], problem["reason"]) == ("不存在", "not_found", "job_unknown")
    assert problem["detail"].startswith("没有任务 job_7。")


@pytest.mark.parametrize("headers", [{}, {"Accept-Language": "de-DE"}, {"Accept-Language": "en,zh;q=0.1"}], ids=str)
def test_a_problem_is_english_otherwise(headers: dict[str, str], alice: TestClient) -> None:
    answer = alice.get("/jobs/job_7", headers=headers)

    assert (answer.headers["content-language"], answer.headers["vary"]) == ("en", "Accept-Language")
    assert answer.json()["title"] == "Not Found"
    assert answer.json()["detail"].startswith("There is no job job_7.")


@pytest.mark.parametrize(
    ("ask", "title"),
    [
        (lambda client: client.get("/nowhere", headers=CHINESE), "不存在"),
        (lambda client: client.delete("/healthz", headers=CHINESE), "不支持此方法"),
        (lambda client: client.get("/jobs", headers={**CHINESE, "Authorization": ""}), "未通过身份验证"),
        (lambda client: client.post("/jobs", headers={**CHINESE, "Content-Encoding": "br"}), "不支持的媒体类型"),
    ],
    ids=["path", "method", "token", "encoding"],
)
def test_what_the_service_refuses_by_itself_is_chinese_too(
    ask: Callable[[TestClient], Any], title: str, alice: TestClient
) -> None:
    answer = ask(alice)

    assert answer.json()["title"] == title
    assert any("一" <= sign <= "鿿" for sign in answer.json()["detail"])


def test_why_lines_are_chinese_with_the_same_code_and_facts(alice: TestClient) -> None:
    job = alice.post("/jobs", json={"handler": "a", "queue": "mail"}).json()
    english = alice.get(f"/jobs/{job['id']}/why").json()["items"]
    answer = alice.get(f"/jobs/{job['id']}/why", headers=CHINESE)
    dialect = alice.get(f"/scheduler/jobs/{job['id']}/why", headers=CHINESE)

    assert english[0] == {
        "code": "no_worker", "text": "no worker serves the queue mail", "reason": "no_worker_serves",
        "facts": {"queue": "mail"},
    }  # fmt: skip
    assert answer.json()["items"] == [english[0] | {"text": "没有 worker 服务队列 mail"}]
    assert dialect.json()["reasons"][0]["text"] == "没有 worker 主动服务队列 mail；在等待调用方拉取"
    assert {each.headers["content-language"] for each in (answer, dialect)} == {"zh-Hans"}


def test_one_request_does_not_leave_its_language_to_the_next(alice: TestClient) -> None:
    asked = [alice.get("/jobs/job_7", headers=headers).json()["title"] for headers in (CHINESE, {}, CHINESE, {})]

    assert asked == ["不存在", "Not Found", "不存在", "Not Found"]
