"""CloudEvents 1.0, judged by the project's own library; and sent through a real webhook."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.v1.conversion import to_binary, to_json, to_structured
from cloudevents.v1.http import CloudEvent as Theirs
from cloudevents.v1.http import from_http

from horae.adapters.cloudevents import BATCH, CloudEvent, post_event
from horae.app import Horae
from horae.attention import Attention, Done, Turn, Wait
from horae.errors import InvalidInput
from horae.outgoing import Outgoing, register
from horae.testing import Lab
from tests.outgoing.ground import answering, serving
from tests.support.refusals import refused

ABOUT = {
    "id": "A-17",
    "source": "/shop/é 1",
    "type": "com.example.order",
    "subject": "100 %",
    "time": "2026-11-17T12:00:00+00:00",
    "region": "eu",
}
EVENT = CloudEvent(
    "A-17", "/shop/é 1", "com.example.order", {"n": 1, "text": "早"}, "100 %", datetime(2026, 11, 17, 12, tzinfo=UTC),
    "application/json", None, {"region": "eu"},
)  # fmt: skip


def test_what_their_library_writes_is_read_in_each_mode() -> None:
    theirs = Theirs({**ABOUT, "datacontenttype": "application/json"}, {"n": 1, "text": "早"})
    for write in (to_structured, to_binary):
        headers, body = write(theirs)
        if write is to_binary:  # their library leaves values as they are, which HTTP does not carry
            headers = {**headers, "ce-source": "/shop/%C3%A9%201", "ce-subject": "100%20%25"}
        assert CloudEvent.read({name.title(): value for name, value in headers.items()}, body) == EVENT
    (found,) = CloudEvent.read_batch({"Content-Type": BATCH}, b"[" + to_json(theirs) + b"]")
    assert found == EVENT


def test_what_we_write_is_read_by_their_library() -> None:
    found = from_http(*EVENT.structured())
    assert (found["id"], found["source"], found["region"], found.data) == ("A-17", "/shop/é 1", "eu", EVENT.data)
    raw = from_http(*CloudEvent("1", "/s", "t", b"\x00\xff", datacontenttype="image/png").structured())
    assert raw.data == b"\x00\xff"
    assert CloudEvent.from_json(json.loads(EVENT.structured()[1])) == EVENT


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        ({}, b"{}", "neither"),
        ({"content-type": "application/cloudevents+json"}, b"{", "not JSON"),
        ({"content-type": "application/cloudevents+json"}, b"[]", "an object"),
        ({"content-type": "application/cloudevents+json"}, b'{"specversion": "0.3"}', "specversion"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t"}, b"", "source is missing"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s", "ce-time": "noon"}, b"", "instant"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s", "ce-A_b": "1"}, b"", "no name"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(headers: dict[str, str], body: bytes, problem: str) -> None:
    with refused(InvalidInput, "cloudevent_unreadable") as refusal:
        CloudEvent.read(headers, body)
    assert problem in str(refusal.value.facts["problem"])


def test_an_event_wakes_the_agent_that_waits_for_its_type_once() -> None:
    with Horae("sqlite://") as app:
        agent = Attention("shop", app)
        seen: list[Any] = []

        @agent.cognition("order")
        def order(turn: Turn) -> Any:
            if event := turn.facts.last("event"):
                seen.append((event["n"], event["cloudevent"]["subject"]))
                return Done()
            return Wait("com.example.order", timeout=60)

        agent.add("order")
        agent.run()
        assert [post_event(agent, EVENT).is_new for _ in range(2)] == [True, False]
        agent.run()
        assert seen == [(1, "100 %")]
        assert post_event(agent, CloudEvent("2", "/s", "raw", b"x"), key="raw").is_new


async def test_an_event_goes_out_by_a_webhook_in_binary_mode() -> None:
    async with serving(answering()) as server:
        app = Horae("sqlite://")
        webhooks = register(app, Outgoing.read({}, rules_for=lambda _owner: server.rules))
        async with Lab(app) as lab:
            job = webhooks.webhook.using(key="A-17").enqueue(**EVENT.webhook(server.url))
            await lab.settle()
            assert lab.state_of(job) == "succeeded", lab.job(job).last_error
        (received,) = server.received
        assert received.headers["ce-source"] == "/shop/%C3%A9%201"
        assert CloudEvent.read(received.headers, received.body) == EVENT
    with refused(InvalidInput, "cloudevent_data_not_json"):
        CloudEvent("1", "/s", "t", b"x").webhook("https://example.com")
