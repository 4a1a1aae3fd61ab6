"""Webhooks with secrets that tenants keep in the store: what is signed, what goes out, and what never shows."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from horae.actions.access import owners, secrets
from horae.core.access.owners import OwnerSettings
from horae.core.outgoing.signatures import SigningSecret, verify
from horae.errors import SignatureRefused
from horae.outgoing import KeySealer
from tests.outgoing.conftest import Story, Telling
from tests.outgoing.ground import CANARY, HookServer, Received, Respond, answering, serving

SEALER = KeySealer(b"k" * 32)
DAY = timedelta(days=1)
BEARER = f"Bearer {CANARY}-0123456789"
STORED: dict[str, Any] = {"keyring": None, "sealer": SEALER, "rules_for": None}


def allowed(story: Story, server: HookServer, owner: str = "alice") -> None:
    settings = OwnerSettings(("127.0.0.0/8",), allow_http=True, ports=(server.port,))
    owners.set_owner(story.lab.world, owner, settings)


def put(story: Story, name: str, text: str, owner: str = "alice") -> None:
    secrets.put_secret(story.lab.world, SEALER, name, text, owner=owner)


async def echoing(request: Received, writer: asyncio.StreamWriter) -> None:
    """A server that repeats everything it received, as debugging servers do."""
    result = json.dumps({"line": request.line, "headers": request.headers, "body": request.body.decode()}).encode()
    await answering(200, result)(request, writer)


async def test_during_a_rotation_both_secrets_are_accepted_and_afterwards_one_e6_9(telling: Telling) -> None:
    """Security check 9: a changed body, an old timestamp and another id are refused; the second secret is accepted."""
    async with serving(answering()) as server, telling(server, **STORED) as story:
        allowed(story, server)
        old = SigningSecret.read(secrets.new_signing_text(story.lab.world))
        put(story, "orders", old.reveal())
        _, text = secrets.rotate_secret(story.lab.world, SEALER, "orders", owner="alice", keep_previous_for=DAY)
        new = SigningSecret.read(text)
        job = await story.send(server, body={"paid": True}, secret="orders")

        (got,), now = server.received, story.lab.now
        assert verify([old], got.headers, got.body, now=now) == verify([new], got.headers, got.body, now=now) == job
        for headers, body, at in [
            (got.headers, got.body.replace(b"true", b"True"), now),
            (got.headers, got.body, now + timedelta(minutes=6)),
            (got.headers | {"webhook-id": "job_999"}, got.body, now),
        ]:
            with pytest.raises(SignatureRefused):
                verify([old, new], headers, body, now=at)

        await story.lab.advance(DAY)
        await story.send(server, body={}, secret="orders")
        later = server.received[-1]
        assert verify([new], later.headers, later.body, now=story.lab.now)
        with pytest.raises(SignatureRefused):
            verify([old], later.headers, later.body, now=story.lab.now)


async def test_references_are_resolved_on_the_way_out_and_nowhere_else_e6_20(
    telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    """Security check 20: the target gets the secret; rows, runs, logs, and an answer that repeats it do not."""
    caplog.set_level(logging.DEBUG)
    async with serving(echoing) as server, telling(server, **STORED) as story:
        allowed(story, server)
        put(story, "api", BEARER)
        put(story, "key", f"{CANARY}-in-the-body")
        put(story, "place", f"{server.url}/{CANARY}-path?x=1")
        job = await story.send(
            {"$secret": "place"},
            body={"order": 7, "auth": [{"$secret": "key"}]},
            headers={"Authorization": {"$secret": "api"}, "X-Key": {"$secret": "key"}},
        )

        (got,) = server.received
        assert got.line == f"POST /hook/{CANARY}-path?x=1 HTTP/1.1"
        assert (got.headers["authorization"], got.headers["x-key"]) == (BEARER, f"{CANARY}-in-the-body")
        assert json.loads(got.body) == {"order": 7, "auth": [f"{CANARY}-in-the-body"]}
        assert story.ended(job)[0] == "succeeded"
        tables = "horae_jobs", "horae_runs", "horae_audit", "horae_secrets"
        dumped = story.lab.world.store.read(
            lambda tx: [tx.connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in tables]
        )
        assert CANARY not in f"{dumped} {story.ended(job)} {story.lab.job(job)} {caplog.text}"


SPELLINGS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "percent": lambda text: f"https://x.example/?t={quote(text, safe='')}",
    "JSON in JSON": lambda text: json.dumps({"echo": json.dumps({"t": text})}),
    "cut in two": lambda text: json.dumps({"first": text[:20], "second": text[20:]}),
    "cut off at the limit": lambda text: "x" * (64 * 1024 - 25) + text,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_an_answer_that_repeats_a_secret_in_another_spelling_is_masked_e6_20(
    spelling: str, telling: Telling
) -> None:
    result = SPELLINGS[spelling](BEARER)
    async with serving(answering(200, result.encode())) as server, telling(server, **STORED) as story:
        allowed(story, server)
        put(story, "api", BEARER)
        job = await story.send(server, headers={"authorization": {"$secret": "api"}})

        kept = story.ended(job)[2]["body"]
        assert "…" in kept
        for part in (CANARY, CANARY[:8], base64.b64encode(CANARY.encode()).decode()[:8], BEARER[-10:]):
            assert part not in kept


@pytest.mark.parametrize("respond", [answering(500, BEARER.encode()), answering(400, BEARER.encode())])
async def test_a_failed_delivery_tells_no_secret_e6_20(
    respond: Respond, telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(respond) as server, telling(server, **STORED) as story:
        allowed(story, server)
        put(story, "api", BEARER)
        job = await story.send(server, headers={"authorization": {"$secret": "api"}})

        runs = story.lab.runs(job)
        assert len(runs) == 1
        assert CANARY not in f"{runs} {story.ended(job)} {caplog.text}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_gets_no_credentials_anywhere_e6_8(status: int, telling: Telling) -> None:
    """Security check 8: where a target points to is never called, least of all with what it was shown."""
    async with serving(answering()) as inner, serving(answering(status, location=inner.url)) as outer:
        async with telling(outer, **STORED) as story:
            settings = OwnerSettings(("127.0.0.0/8",), allow_http=True, ports=(inner.port, outer.port))
            owners.set_owner(story.lab.world, "alice", settings)
            put(story, "api", BEARER)
            job = await story.send(outer, headers={"authorization": {"$secret": "api"}})

            assert outer.received[0].headers["authorization"] == BEARER
            assert "redirects are not followed" in story.ended(job)[1]
        assert inner.received == []


@pytest.mark.parametrize(
    "payload",
    [
        {"body": {"$secret": "missing"}},
        {"headers": {"authorization": {"$secret": "missing"}}},
        {"secret": "missing"},
        {"secret": "text"},  # no whsec_, so it cannot sign
        {"body": {"$secret": "text", "and": 1}},
        {"body": {"$secret": 7}},
        {"headers": {"cookie": {"$secret": "text"}}},
        {"headers": {"host": {"$secret": "text"}}},
        {"headers": {"x-lines": {"$secret": "lines"}}},
        {"secret": {"$secret": "text", "and": 1}},
    ],
)
async def test_a_reference_that_cannot_be_kept_is_final_and_nothing_is_sent(
    payload: dict[str, Any], telling: Telling
) -> None:
    async with serving(answering()) as server, telling(server, **STORED) as story:
        allowed(story, server)
        put(story, "text", f"{CANARY}-text")
        put(story, "lines", f"{CANARY}\r\nx-evil: 1")
        job = await story.send(server, **payload)

        state, error, _ = story.ended(job)
        assert (state, error.split(":")[0], server.received) == ("dead", "DeliveryRefused", [])
        assert CANARY not in error


async def test_a_url_that_is_a_secret_and_no_url_is_refused_without_being_repeated(telling: Telling) -> None:
    async with telling(**STORED) as story:
        put(story, "place", f"https://{CANARY}!/")
        job = await story.send({"$secret": "place"})

        state, error, _ = story.ended(job)
        assert (state, error.split(":")[0]) == ("dead", "AddressRefused")
        assert CANARY not in error


async def test_a_secret_of_another_owner_is_not_sent(telling: Telling) -> None:
    async with serving(answering()) as server, telling(server, **STORED) as story:
        allowed(story, server, "mallory")
        put(story, "api", BEARER)
        job = await story.send(server, owner="mallory", headers={"authorization": {"$secret": "api"}})

        assert story.ended(job)[0] == "dead"
        assert server.received == []


@pytest.mark.parametrize("sealer", [None, KeySealer(b"x" * 32)])
async def test_a_worker_without_the_key_fails_for_now_and_not_for_good(
    sealer: KeySealer | None, telling: Telling
) -> None:
    async with serving(answering()) as server, telling(server, **{**STORED, "sealer": sealer}) as story:
        allowed(story, server)
        put(story, "api", BEARER)
        job = await story.send(server, headers={"authorization": {"$secret": "api"}})

        state, error, _ = story.ended(job)
        assert state == "queued"
        assert error.startswith("SecretsLocked: ")
        assert "HORAE_SECRET_KEY" in error
        assert server.received == []


async def test_a_tenant_reaches_what_the_operator_allowed_and_nobody_else_does_e6_6(telling: Telling) -> None:
    """Security check 6: an allow-list belongs to one tenant, and a change counts at the next call."""
    async with serving(answering()) as server, telling(server, **STORED) as story:
        assert story.ended(await story.send(server))[0] == "dead"
        allowed(story, server)
        assert story.ended(await story.send(server))[0] == "succeeded"
        assert story.ended(await story.send(server, owner="bob"))[0] == "dead"
        owners.set_owner(story.lab.world, "alice", OwnerSettings())
        assert story.ended(await story.send(server))[0] == "dead"
        assert len(server.received) == 1
