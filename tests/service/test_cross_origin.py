"""Pages of other origins: only those that the operator names may call, and never with a cookie."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from horae.console.install import install
from horae.errors import ConfigurationError
from horae.ports.world import World
from horae.service.asgi import build
from horae.service.options import Options
from horae.settings import Settings
from tests.service.conftest import Connect
from tests.support.refusals import refused

APP, EVIL = "https://app.example", "https://evil.example"
TASK = {"name": "a", "schedule_expr": "0 9 * * *"}
ASKS = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture
def options() -> Options:
    return Options(version="test", cors_origins=(APP,))


def from_page(origin: str) -> dict[str, str]:
    return {"Origin": origin, "Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize("path", ["/scheduled-tasks", "/scheduled-tasks/preview", "/jobs/job_1"])
def test_a_browser_that_asks_first_is_told_what_an_allowed_page_may_do(path: str, nobody: TestClient) -> None:
    answer = nobody.options(path, headers={**from_page(APP), **ASKS})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == APP
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    assert "DELETE" in answer.headers["access-control-allow-methods"]
    assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", [EVIL, "null", "https://app.example.evil.example", "http://app.example", f"{APP}:1"])
def test_any_other_origin_is_refused(origin: str, nobody: TestClient, alice: TestClient) -> None:
    asked = nobody.options("/scheduled-tasks", headers={**from_page(origin), **ASKS})
    assert "access-control-allow-origin" not in asked.headers
    assert asked.status_code == 405
    answer = alice.post("/scheduled-tasks", json=TASK, headers=from_page(origin))
    assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert "access-control-allow-origin" not in answer.headers


def test_an_allowed_page_changes_and_reads_with_its_token(alice: TestClient, nobody: TestClient) -> None:
    made = alice.post("/scheduled-tasks", json=TASK, headers=from_page(APP))
    assert made.status_code == 201
    assert made.headers["access-control-allow-origin"] == APP
    assert "ETag" in made.headers["access-control-expose-headers"]
    refused = nobody.get("/scheduled-tasks", headers=from_page(APP))
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == APP  # so that the page can read why


def test_without_the_setting_nothing_is_allowed(connect: Connect) -> None:
    client = connect("alice", "tasks", cors_origins=())
    answer = client.get("/scheduled-tasks", headers=from_page(APP))
    assert "access-control-allow-origin" not in answer.headers
    assert client.post("/scheduled-tasks", json=TASK, headers=from_page(APP)).status_code == 403


def test_the_console_stays_closed_and_its_assets_can_be_loaded(world: World, options: Options) -> None:
    app = build(lambda: world, options)
    install(app)
    client = TestClient(app, base_url="http://horae.test")
    for path in ("/console/login", "/console/tasks"):
        assert "access-control-allow-origin" not in client.get(path, headers=from_page(APP)).headers
    assert client.post("/console/login", headers=from_page(APP)).status_code == 403
    script = client.get("/console/assets/horae.js", headers=from_page(APP))
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["access-control-allow-origin"] == APP
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "access-control-allow-origin" not in client.get("/console/assets/horae.js", headers=from_page(EVIL)).headers


def test_the_setting_takes_exact_origins_and_no_star() -> None:
    given = Settings.read({"HORAE_CORS_ORIGINS": "https://app.example, http://127.0.0.1:3000"})
    assert given.cors_origins == ("https://app.example", "http://127.0.0.1:3000")
    for wrong in ("*", "https://app.example/", "app.example", "https://APP.example", "null", "https://*.example"):
        with refused(ConfigurationError, "setting_invalid", name="HORAE_CORS_ORIGINS"):
            Settings.read({"HORAE_CORS_ORIGINS": wrong})
