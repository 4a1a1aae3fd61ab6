"""An A2A server's notifications and stores on Horae."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    ListTasksRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from sqlalchemy import text

from horae.adapters.a2a import HoraePushConfigStore, HoraePushSender, HoraeTaskStore
from horae.app import Horae
from horae.errors import SecretsLocked
from horae.outgoing import Outgoing, register
from horae.outgoing.encryption import KeySealer
from horae.testing import Lab
from tests.adapters.dying import deaths, kill, process
from tests.outgoing.ground import answering, serving
from tests.support.refusals import refused

SEALER = KeySealer(b"k" * 32)
CREDENTIAL = "opaque-credential-17"
ENDED = TaskStatusUpdateEvent(task_id="t-1", context_id="c-1", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))


class Named(User):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._name


ALICE, BOB = (ServerCallContext(user=Named(name)) for name in ("alice", "bob"))


def subscription(url: str, **fields: Any) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(id="s-1", url=url, **fields)


def with_credentials(url: str) -> TaskPushNotificationConfig:
    auth = AuthenticationInfo(scheme="Bearer", credentials=CREDENTIAL)
    return subscription(url, token="token-of-alice-17", authentication=auth)


async def test_a_notification_is_a_webhook_with_the_subscribers_credentials() -> None:
    async with serving(answering()) as server:
        app = Horae("sqlite://")
        webhook = register(app, Outgoing.read({}, sealer=SEALER, rules_for=lambda _owner: server.rules)).webhook
        configs = HoraePushConfigStore(app, SEALER)
        sender = HoraePushSender(webhook, configs)
        async with Lab(app) as lab:
            await configs.set_info("t-1", with_credentials(server.url), ALICE)
            await configs.set_info("t-1", subscription(server.url), BOB)
            for _ in range(2):
                await sender.send_notification("t-1", ENDED)
            await sender.send_notification("t-2", ENDED)
            await lab.settle()
            jobs = lab.enqueued("webhook")
        assert [job.state for job in jobs] == ["succeeded"] * 2, [job.last_error for job in jobs]
        assert CREDENTIAL not in repr(jobs)
        seen = sorted((each.headers.get("authorization", ""), each.headers.get("x-a2a-notification-token", ""))
                      for each in server.received)  # fmt: skip
        assert seen == [("", ""), (f"Bearer {CREDENTIAL}", "token-of-alice-17")]


async def test_subscriptions_belong_to_their_users_and_hold_no_secret_as_text(database_url: str) -> None:
    with Horae(database_url) as app:
        configs = HoraePushConfigStore(app, SEALER)
        given = with_credentials("https://example.com/hook")
        stored = await configs.set_info("t-1", given, ALICE)

        assert (stored.task_id, given.task_id) == ("t-1", "")
        assert await configs.get_info("t-1", ALICE) == [stored]
        assert await configs.get_info("t-1", BOB) == []
        assert await configs.get_info_for_dispatch("t-1") == [stored]
        with app.engine.connect() as connection:
            bodies = connection.execute(text("SELECT body FROM horae_documents")).scalars().all()
        assert CREDENTIAL not in "".join(bodies)
        await configs.delete_info("t-1", BOB)
        assert len(await configs.get_info("t-1", ALICE)) == 1
        await configs.delete_info("t-1", ALICE, "s-1")
        assert await configs.get_info_for_dispatch("t-1") == []


async def test_without_a_key_credentials_are_refused_instead_of_stored() -> None:
    with Horae("sqlite://") as app:
        configs = HoraePushConfigStore(app)
        with refused(SecretsLocked, "secrets_without_key"):
            await configs.set_info("t-1", with_credentials("https://example.com/hook"), ALICE)
        assert await configs.get_info("t-1", ALICE) == []


async def test_tasks_are_stored_by_user_and_listed_in_pages(database_url: str) -> None:
    with Horae(database_url) as app:
        store = HoraeTaskStore(app)
        for number in range(5):
            status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
            await store.save(Task(id=f"t-{number}", context_id=f"c-{number % 2}", status=status), ALICE)
        first = await store.list(ListTasksRequest(page_size=2), ALICE)
        rest = await store.list(ListTasksRequest(page_size=10, page_token=first.next_page_token), ALICE)

        assert (len(first.tasks), len(rest.tasks), first.total_size) == (2, 3, 5)
        assert len((await store.list(ListTasksRequest(context_id="c-1"), ALICE)).tasks) == 2
        assert (await store.get("t-3", BOB), len((await store.list(ListTasksRequest(), BOB)).tasks)) == (None, 0)
        await store.delete("t-3", BOB)
        found = await store.get("t-3", ALICE)
        assert found is not None
        assert found.context_id == "c-1"
        await store.delete("t-3", ALICE)
        assert await store.get("t-3", ALICE) is None


def story(app: Horae) -> None:
    async def live() -> None:
        configs = HoraePushConfigStore(app, SEALER)
        await configs.set_info("t-1", with_credentials("https://example.com/hook"), ALICE)
        await HoraeTaskStore(app).save(Task(id="t-1", context_id="c-1"), ALICE)
        await HoraePushSender(register(app, Outgoing.read({})).webhook, configs).send_notification("t-1", ENDED)

    asyncio.run(live())


def assert_whole(app: Horae) -> None:
    with app.engine.connect() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM horae_jobs WHERE handler = 'webhook'")).scalar() == 1
        assert connection.execute(text("SELECT COUNT(*) FROM horae_documents")).scalar() == 2


@pytest.mark.slow
def test_a_server_that_dies_before_any_transaction_sends_one_notification_after_all(tmp_path: Path) -> None:
    for _, file in deaths(tmp_path, story):
        with process(file, life=1) as app:
            story(app)
            assert_whole(app)


@pytest.mark.slow
def test_a_killed_server_sends_one_notification_after_all(tmp_path: Path) -> None:
    for file in kill(tmp_path, story, 4, 12):
        with process(file, life=1) as app:
            story(app)
            assert_whole(app)
