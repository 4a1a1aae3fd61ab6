"""``horae console link``: one link, one browser, as the operator or as somebody named."""

from fastapi.testclient import TestClient

from horae import Horae
from tests.cli.conftest import Command


def test_a_link_logs_a_browser_in_as_the_operator(horae: Command) -> None:
    made = horae("console", "link", "--json").json
    assert made["url"] == f"http://127.0.0.1:8765/console/login?code={made['code']}"
    with Horae() as app:
        browser = TestClient(app.asgi(), base_url="http://127.0.0.1:8765")
        page = browser.get(f"/console/login?code={made['code']}")
    assert page.status_code == 200
    assert page.url.path == "/console/"
    assert made["code"] not in page.text


def test_the_link_alone_is_the_result(horae: Command) -> None:
    made = horae("console", "link", "--owner", "alice", "--scopes", "tasks,read")
    assert made.out.strip().startswith("http://127.0.0.1:8765/console/login?code=")
    (token,) = horae("token", "list", "--owner", "alice", "--json").json["items"]
    assert (token["scopes"], token["name"]) == (["tasks", "read"], "console")
    assert token["id"] in made.err


def test_an_unknown_scope_is_refused_with_those_there_are(horae: Command) -> None:
    refused = horae("console", "link", "--scopes", "everything")
    assert refused.code == 2
    assert "tasks, worker, read, review, admin" in refused.err
