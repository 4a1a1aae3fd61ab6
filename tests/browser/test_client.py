"""The JavaScript client in a page of another origin: what is allowed works, what is not is refused."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.browser.conftest import Serve

pytestmark = pytest.mark.slow
# What document 001's page did, from the list to the deletion.
WALK = """async ([url, token]) => {
  const { Horae, HoraeError } = await import(`${url}/console/assets/horae.js`);
  const horae = new Horae({ url, token: async () => token, lang: "en" });
  const seen = {};
  const terms = { name: "stand-up", schedule_expr: "0 9 * * 1-5", timezone: "Asia/Shanghai", payload: { text: "up" } };
  seen.words = (await horae.tasks.preview(terms, { count: 3 })).words;
  const task = await horae.tasks.create(terms, { key: "one" });
  const again = await horae.tasks.create(terms, { key: "one" });
  seen.same = task.id === again.id && again.deduplicated;
  seen.listed = (await horae.tasks.list()).items.map((each) => each.name);
  seen.each = [];
  for await (const each of horae.tasks.each()) seen.each.push(each.id === task.id);
  const changed = await horae.tasks.update(task.id, { name: "later" }, { version: task.version });
  seen.name = (await horae.tasks.get(task.id)).name;
  seen.preview = (await horae.tasks.preview(task.id)).next.length;
  seen.job = (await horae.tasks.trigger(task.id)).job_id.slice(0, 4);
  seen.runs = (await horae.tasks.runs(task.id)).items.length;
  seen.limits = (await horae.tasks.limits()).enabled;
  try {
    await horae.tasks.update(task.id, { name: "late" }, { version: task.version });
  } catch (error) {
    seen.conflict = [error instanceof HoraeError, error.status, error.code, error.facts.version === changed.version];
  }
  try {
    await horae.tasks.create({ schedule_expr: "99 * * * *" });
  } catch (error) {
    seen.mistake = [error.status, error.code, error.message.includes("99"), error.requestId !== null];
  }
  await horae.tasks.delete(task.id);
  seen.left = (await horae.tasks.list()).items.length;
  return seen;
}"""
REFUSED = """async ([url, token]) => {
  const told = [];
  try {
    await import(`${url}/console/assets/horae.js`);
  } catch (error) {
    told.push(error.name);
  }
  for (const method of ["GET", "POST"]) {
    try {
      await fetch(`${url}/scheduled-tasks`, { method, headers: { Authorization: `Bearer ${token}` } });
    } catch (error) {
      told.push(error.name);
    }
  }
  return told;
}"""


@contextmanager
def elsewhere() -> Iterator[str]:
    """Serve an empty page at another origin; yield that origin."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>elsewhere</title>")

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_of_an_allowed_origin_does_with_the_client_what_document_001_asks_for(serve: Serve) -> None:
    with elsewhere() as origin:
        shop = serve(hours=0, cors_origins=(origin,))
        page = shop.browser(hosts=(origin.partition("//")[2],), expected=("412", "422"))
        page.goto(origin)
        seen = page.evaluate(WALK, [shop.url, shop.token("alice", "tasks")[1]])
    assert seen.pop("words").startswith("At 09:00")
    assert seen == {
        "same": True,
        "listed": ["stand-up"],
        "each": [True],
        "name": "later",
        "preview": 5,
        "job": "job_",
        "runs": 0,
        "limits": 1,
        "conflict": [True, 412, "version_conflict", True],
        "mistake": [422, "invalid_cron", True, True],
        "left": 0,
    }


def test_a_page_of_any_other_origin_is_refused_by_the_browser(serve: Serve) -> None:
    with elsewhere() as origin:
        shop = serve(hours=0, cors_origins=("https://app.example",))
        page = shop.browser(hosts=(origin.partition("//")[2],), expected=("CORS", "net::ERR_FAILED", "405"))
        page.goto(origin)
        assert page.evaluate(REFUSED, [shop.url, shop.token("alice", "tasks")[1]]) == ["TypeError"] * 3
    assert list(shop.app.scheduled_tasks.list()) == []


def test_the_client_never_sends_the_cookie_of_a_reader_who_is_logged_in(serve: Serve) -> None:
    shop = serve(hours=0)
    page = shop.reader("alice", "tasks", expected=("401",))
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if "/scheduled-tasks" in request.url else None)
    told = page.evaluate(
        """async (url) => {
          const { Horae } = await import(`${url}/console/assets/horae.js`);
          try {
            await new Horae({ url, token: "horae_nonsense" }).tasks.list();
          } catch (error) {
            return error.status;
          }
        }""",
        shop.url,
    )
    assert told == 401
    assert sent
