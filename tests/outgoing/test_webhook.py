"""The built-in handler `webhook`: what each answer means, who signs, and when a target is left alone."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from horae.actions import scheduled_tasks
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.requests import Request
from horae.actions.schedules import fires, schedules
from horae.core.jobs.retry import Retry
from horae.core.outgoing.signatures import SigningSecret, verify
from horae.core.outgoing.webhooks import checked_headers
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.errors import HoraeError, InvalidInput
from horae.outgoing import new_secret
from horae.outgoing.webhook import retry_after
from horae.testing.builders import a_new_job, a_schedule
from tests.outgoing.conftest import Telling
from tests.outgoing.ground import CANARY, Received, Respond, answering, serving

LOOPBACKS = [
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://169.254.169.254/latest/meta-data",
    "https://2130706433/",
    "https://[::ffff:7f00:1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://100.64.0.1/",
    "https://１２７.０.０.１/",
]


def one_after_another(*responds: Respond) -> Respond:
    waiting = list(responds)

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request, writer)

    return respond


async def test_a_delivered_webhook_succeeds_and_keeps_the_answer(telling: Telling) -> None:
    async with serving(answering(202, b"thanks")) as server, telling(server) as story:
        job = await story.send(server, body={"order": 7}, headers={"X-Shop": "a"})

        assert story.ended(job) == ("succeeded", "", {"status": 202, "body": "thanks"})
        assert json.loads(server.received[0].body) == {"order": 7}
        assert server.received[0].headers["x-shop"] == "a"


async def test_a_webhook_is_signed_with_the_secret_its_payload_names(telling: Telling) -> None:
    secret, old = new_secret(), new_secret()
    async with serving(answering()) as server, telling(server) as story:
        story.keyring.put("alice", "shop", secret.reveal(), old.reveal())
        job = await story.send(server, body={"a": "早"}, secret="shop")
        await story.send(server, body={}, secret={"$secret": "shop"})

        for received in server.received:
            for each in (secret, old):
                assert verify([each], received.headers, received.body, now=story.lab.now)
        assert server.received[0].headers["webhook-id"] == job


async def test_every_attempt_carries_the_same_id(telling: Telling) -> None:
    respond = one_after_another(answering(500), answering(500), answering(200))
    async with serving(respond) as server, telling(server) as story:
        job = await story.send(server)
        await story.lab.advance(timedelta(minutes=10))

        assert story.ended(job)[0] == "succeeded"
        assert [received.headers["webhook-id"] for received in server.received] == [job] * 3


@pytest.mark.parametrize("status", [410, 400, 401, 403, 404, 409, 422, 451])
async def test_an_answer_that_refuses_the_message_is_final(status: int, telling: Telling) -> None:
    async with serving(answering(status)) as server, telling(server) as story:
        job = await story.send(server)

        state, error, _ = story.ended(job)
        assert state == "dead"
        assert error.startswith(f"DeliveryRefused: http://127.0.0.1:{server.port} answered {status}")
        assert len(server.received) == 1


@pytest.mark.parametrize("status", [301, 307, 408, 425, 429, 500, 502, 503, 504])
async def test_an_answer_that_may_change_is_asked_for_again_seconds_later(status: int, telling: Telling) -> None:
    respond = one_after_another(answering(status, location="http://127.0.0.1/"), answering(200))
    async with serving(respond) as server, telling(server) as story:
        job = await story.send(server)
        assert story.ended(job)[0] == "queued"
        assert story.lab.job(job).attempt == 1

        await story.lab.advance(timedelta(seconds=6))
        assert story.ended(job)[0] == "succeeded"


async def test_a_target_that_never_works_is_given_up_after_days(telling: Telling) -> None:
    async with serving(answering(500)) as server, telling(server) as story:
        job = await story.send(server)
        await story.lab.advance(timedelta(days=6))

        assert story.ended(job)[0] == "dead"
        assert len(server.received) == 10


async def test_a_job_with_a_retry_policy_of_its_own_keeps_it(telling: Telling) -> None:
    async with serving(answering(500)) as server, telling(server) as story:
        job = story.jobs.webhook.using(retry=Retry.fixed(7, attempts=2)).enqueue(url=server.url)
        await story.lab.advance(timedelta(seconds=6))
        assert story.lab.job(job.id).attempt == 1
        await story.lab.advance(timedelta(seconds=1))
        assert story.ended(job.id)[0] == "dead"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_target_that_says_when_is_asked_then_and_no_attempt_is_counted(status: int, telling: Telling) -> None:
    respond = one_after_another(answering(status, retry_after="90"), answering(200))
    async with serving(respond) as server, telling(server) as story:
        job = await story.send(server)
        assert story.lab.job(job).attempt == 0

        await story.lab.advance(timedelta(seconds=89))
        assert len(server.received) == 1
        await story.lab.advance(timedelta(seconds=1))
        assert story.ended(job)[0] == "succeeded"


async def test_a_target_cannot_ask_to_wait_for_ever(telling: Telling) -> None:
    async with serving(answering(429, retry_after="86400")) as server, telling(server) as story:
        job = await story.send(server)
        await story.lab.advance(timedelta(days=5))

        assert story.ended(job)[0] == "dead"
        assert len(server.received) <= 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("9" * 40, 10**9), ("", None), ("soon", None), ("-5", None), ("１２", None)],
)
async def test_how_long_a_header_asks_to_wait(text: str, seconds: int | None, telling: Telling) -> None:
    async with telling() as story:
        wait = retry_after(text, story.lab.now)

        assert wait == (None if seconds is None else timedelta(seconds=seconds))
        assert retry_after(format_datetime(story.lab.now + timedelta(minutes=2)), story.lab.now) == timedelta(minutes=2)
        assert retry_after(format_datetime(story.lab.now - timedelta(days=2)), story.lab.now) == timedelta(0)


@pytest.mark.parametrize("url", LOOPBACKS)
async def test_a_refused_address_is_final_and_the_audit_says_why_e6_6(url: str, telling: Telling) -> None:
    async with telling() as story:
        job = await story.send(url)

        state, error, _ = story.ended(job)
        assert state == "dead"
        assert error.startswith("AddressRefused: ")
        ((_, entry),) = story.lab.world.store.read(lambda tx: tx.audit.find(object_id=job, limit=10, before=None))
        assert (entry.verb, entry.owner) == ("dead", "alice")
        assert (entry.reason or "").startswith("AddressRefused: ")


async def test_a_target_that_keeps_failing_is_left_alone_and_others_are_not(telling: Telling) -> None:
    async with serving(answering(500)) as bad, serving(answering(200)) as good:
        both = bad.rules
        rules = type(both)(both.schemes, frozenset({bad.port, good.port}), both.networks)
        async with telling(bad, rules_for=lambda owner: rules) as story:
            for _ in range(5):
                await story.send(bad)
            snoozed = await story.send(bad)

            assert len(bad.received) == 5
            assert story.lab.job(snoozed).attempt == 0
            assert "left alone" in story.ended(snoozed)[1]
            assert story.ended(await story.send(good))[0] == "succeeded"
            await story.send(bad, owner="bob")
            assert len(bad.received) == 6


async def test_after_its_rest_a_recovered_target_gets_everything(telling: Telling) -> None:
    respond = one_after_another(*[answering(500)] * 5, answering(200))
    async with serving(respond) as server, telling(server) as story:
        jobs = [await story.send(server) for _ in range(8)]
        await story.lab.advance(timedelta(minutes=2))

        assert {story.ended(job)[0] for job in jobs} == {"succeeded"}
        assert len(server.received) == 5 + 8


async def test_a_secret_of_another_owner_signs_nothing(telling: Telling) -> None:
    async with serving(answering()) as server, telling(server) as story:
        story.keyring.put("alice", "shop", new_secret().reveal())
        job = await story.send(server, owner="mallory", secret="shop")

        assert story.ended(job)[0] == "dead"
        assert server.received == []


@pytest.mark.parametrize(
    "secret", [f"whsec_{CANARY}", {"$secret": f"whsec_{CANARY}"}, {"value": CANARY}, f"a b {CANARY}"]
)
async def test_a_secret_in_the_payload_is_refused_and_never_repeated_e6_20(
    secret: Any, telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(answering()) as server, telling(server) as story:
        job = await story.send(server, secret=secret)

        state, error, _ = story.ended(job)
        assert state == "dead"
        assert CANARY not in error + caplog.text


async def test_no_secret_reaches_an_error_a_log_line_or_a_result_e6_20(
    telling: Telling, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = SigningSecret((CANARY * 4).encode()[:40])
    async with serving(one_after_another(answering(500), answering(200))) as server, telling(server) as story:
        story.keyring.put("alice", "shop", secret.reveal())
        job = await story.send(f"{server.url}/{CANARY}", secret="shop")
        error = story.ended(job)[1]
        await story.lab.advance(timedelta(seconds=6))

        shown = f"{error} {story.ended(job)} {caplog.text} {story.keyring!r}"
        assert story.ended(job)[0] == "succeeded"
        assert CANARY not in shown
        assert secret.reveal().removeprefix("whsec_") not in shown


@pytest.mark.parametrize(
    "headers",
    [{"Host": "a"}, {"Cookie": {"$secret": "a"}}, {"Content-Length": "1"}, {"Transfer-Encoding": "chunked"},
     {"webhook-id": "x"}, {"webhook-signature": "x"}, {"X-Forwarded-For": "1.2.3.4"}, {"X-Real-IP": "1"},
     {"x-a": "b\r\nx-c: d"}, {"x-a": "é"}, {"x-a": " b"}, {"x-a\r\n": "b"}, {"x-a": "b" * 2000}, {"x-": "b"},
     {f"x-{number}": "a" for number in range(21)}, {"Metadata-Flavor": "Google"}, {"x-a": 7}, ["x-a"]],
)  # fmt: skip
async def test_a_header_outside_the_list_is_refused_before_any_connection(headers: Any, telling: Telling) -> None:
    async with serving(answering()) as server, telling(server) as story:
        job = await story.send(server, headers=headers)

        assert story.ended(job)[0] == "dead"
        assert story.ended(job)[1].startswith("DeliveryRefused")
        assert server.received == []


PLAIN: list[dict[str, Any]] = [
    {"headers": {"Authorization": "x"}},
    {"headers": {"AUTHORIZATION": "Bearer x"}},
    {"headers": {"Proxy-Authorization": "x"}},
    {"headers": {"Cookie": "x"}},
    {"headers": {"X-Api-Key": "x"}},
    {"headers": {"x-auth-token": "x"}},
    {"headers": {"x-shop": "Bearer 5f3a9c1e"}},
    {"url": "https://user:word@shop.example/hook"},
]


@pytest.mark.parametrize("payload", PLAIN, ids=str)
async def test_credentials_in_plain_text_are_never_stored(payload: dict[str, Any], telling: Telling) -> None:
    """Documented in send-webhooks.md: they are accepted as references only, at every door."""
    asked = {"url": "https://shop.example/hook", **payload}
    async with telling() as story:
        world = story.lab.world
        schedule = a_schedule("notice", handler="webhook", payload={"url": "https://shop.example/hook"}, owner="alice")
        schedules.create(world, schedule)
        refused: list[Callable[[], object]] = [
            lambda: story.jobs.webhook.enqueue(**asked),
            lambda: verbs.enqueue(world, Request("webhook", asked, owner="alice")),
            lambda: schedules.create(world, replace(schedule, key="other", payload=asked)),
            lambda: schedules.change(world, "notice", {"payload": asked}, owner="alice"),
            lambda: fires.trigger(world, "notice", payload, owner="alice"),
            lambda: scheduled_tasks.create(world, Wish(handler="webhook", payload=asked), owner="alice", terms=Terms()),
            lambda: scheduled_tasks.consider(
                world, Wish(handler="webhook", payload=asked), owner="alice", terms=Terms()
            ),
        ]
        for store in refused:
            with pytest.raises(InvalidInput) as problem:
                store()
            assert "5f3a9c1e" not in str(problem.value)
        dumped = world.store.read(
            lambda tx: [
                tx.connection.exec_driver_sql(f"SELECT * FROM {table}").all()
                for table in ("horae_jobs", "horae_schedules", "horae_audit")
            ]
        )
        assert "5f3a9c1e" not in str(dumped)
        assert "user:word" not in str(dumped)


async def test_credentials_that_were_stored_before_are_not_sent(telling: Telling) -> None:
    async with serving(answering()) as server, telling(server) as story:
        new = a_new_job({"url": server.url, "headers": {"Authorization": "x"}}, handler="webhook", owner="alice")
        [placed] = story.lab.world.store.insert([replace(new, run_at=story.lab.now)], now=story.lab.now)
        await story.lab.settle()

        problem = str(HoraeError("webhook_credentials_in_header"))
        refusal = HoraeError("webhook_unsendable", problem=problem)
        assert story.ended(f"job_{placed.number}")[:2] == ("dead", f"DeliveryRefused: {refusal}")
        assert server.received == []


def test_the_names_of_headers_are_kept_in_lower_case() -> None:
    assert checked_headers({"X-Trace-Id": "a", "Accept-Language": "zh"}) == {"x-trace-id": "a", "accept-language": "zh"}
