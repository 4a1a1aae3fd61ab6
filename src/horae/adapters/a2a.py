"""A2A servers on Horae: push notifications by signed, retried webhooks; tasks and their subscriptions in the database.

Needs the extra ``a2a``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

from horae.actions.access import secrets
from horae.actions.adapters import documents
from horae.adapters.extras import needs_extra
from horae.app import Horae
from horae.core.jobs.job import SYSTEM
from horae.declare.handles import JobHandle
from horae.errors import NotFound, SecretsLocked
from horae.ports.access import Sealer
from horae.ports.world import World

with needs_extra("a2a"):
    from a2a.server.context import ServerCallContext
    from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
    from a2a.server.tasks import (
        InMemoryTaskStore,
        PushNotificationConfigStore,
        PushNotificationSender,
        TaskStore,
    )
    from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
    from a2a.server.tasks.push_notification_sender import PushNotificationEvent
    from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskPushNotificationConfig
    from a2a.utils.proto_utils import to_stream_response
    from google.protobuf.json_format import MessageToDict, ParseDict

__all__ = ["HoraePushConfigStore", "HoraePushSender", "HoraeTaskStore"]
CONFIG, TASK = "a2a.config", "a2a.task"
TOKEN_HEADER = "x-a2a-notification-token"


class HoraePushConfigStore(PushNotificationConfigStore):
    """Keeps where a task's notifications go; tokens and credentials are sealed as secrets, never stored as text."""

    def __init__(
        self,
        app: Horae,
        sealer: Sealer | None = None,
        *,
        owner: str = SYSTEM,
        users: OwnerResolver = resolve_user_scope,
    ) -> None:
        self._app, self._sealer, self.owner, self._users = app, sealer, owner, users

    @property
    def world(self) -> World:
        return self._app.world

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store a subscription, in place of one with the same id; the secrets first."""
        config = normalize_push_notification_config(task_id, notification_config)
        await asyncio.to_thread(self._put, config, self._users(context))
        return config

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        """Return the caller's subscriptions to a task."""
        user = self._users(context)
        found = await asyncio.to_thread(self.find, task_id)
        return [await asyncio.to_thread(self._open, each) for each in found if each["user"] == user]

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Return all subscriptions to a task."""
        found = await asyncio.to_thread(self.find, task_id)
        return [await asyncio.to_thread(self._open, each) for each in found]

    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        """Remove one of the caller's subscriptions, or all to this task."""
        user = self._users(context)
        for each in await asyncio.to_thread(self.find, task_id):
            if each["user"] == user and config_id in (None, each["config"]["id"]):
                await asyncio.to_thread(self._remove, each)

    def find(self, task_id: str) -> list[dict[str, Any]]:
        """Return subscriptions as they are stored: with names of secrets in the place of secrets."""
        return list(documents.find(self.world, self.owner, CONFIG, f"{_digest(task_id)}:").values())

    def _put(self, config: TaskPushNotificationConfig, user: str) -> None:
        name = f"{_digest(config.task_id)}:{_digest(f'{user}/{config.id}')}"
        plain = TaskPushNotificationConfig()
        plain.CopyFrom(config)
        plain.ClearField("token")
        plain.authentication.ClearField("credentials")
        texts = {"token": config.token, "credentials": _authorization(config)}
        kept = {each: f"a2a-{_digest(name + each)}" for each, text in texts.items() if text}
        for each, secret in kept.items():
            if self._sealer is None:
                raise SecretsLocked("secrets_without_key")
            secrets.put_secret(self.world, self._sealer, secret, texts[each], owner=self.owner)
        body = {"name": name, "user": user, "config": MessageToDict(plain), "secrets": kept}
        documents.put(self.world, self.owner, CONFIG, name, body)

    def _open(self, stored: dict[str, Any]) -> TaskPushNotificationConfig:
        config: TaskPushNotificationConfig = ParseDict(stored["config"], TaskPushNotificationConfig())
        for each, secret in stored["secrets"].items():
            if self._sealer is None:
                raise SecretsLocked("secrets_without_key")
            (text, *_) = secrets.open_secret(self.world, self._sealer, secret, owner=self.owner) or ("",)
            if each == "token":
                config.token = text
            else:
                config.authentication.credentials = text.removeprefix(f"{config.authentication.scheme} ")
        return config

    def _remove(self, stored: dict[str, Any]) -> None:
        documents.remove(self.world, self.owner, CONFIG, stored["name"])
        for secret in stored["secrets"].values():
            try:
                secrets.delete_secret(self.world, secret, owner=self.owner)
            except NotFound:  # an earlier try has deleted it
                continue


class HoraePushSender(PushNotificationSender):
    """Sends notifications as jobs: ``HoraePushSender(register(app).webhook, configs)``.

    A notification is a stored job for each subscription before ``send_notification`` returns; the job is retried over
    days and ends dead, with the reason, where the receiver never takes it. The same event twice is one job.
    """

    def __init__(self, webhook: JobHandle[..., Any], configs: HoraePushConfigStore) -> None:
        self._webhook, self._configs = webhook, configs

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Store one job for each subscription to the task."""
        body = MessageToDict(to_stream_response(event))
        await asyncio.to_thread(self._send, task_id, body)

    def _send(self, task_id: str, body: dict[str, Any]) -> None:
        for stored in self._configs.find(task_id):
            whole = json.dumps([stored["name"], body], sort_keys=True)
            ready = self._webhook.using(owner=self._configs.owner, key=f"a2a:{_digest(whole)}")
            ready.enqueue(url=stored["config"]["url"], body=body, headers=_headers(stored))


class HoraeTaskStore(TaskStore):
    """Keeps an A2A server's tasks, by the user of the call."""

    def __init__(self, app: Horae, *, owner: str = SYSTEM, users: OwnerResolver = resolve_user_scope) -> None:
        self._app, self._owner, self._users = app, owner, users

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store a task, in place of one with the same id."""
        await self._call(documents.put, self._name(context, task.id), MessageToDict(task))

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """Return a task of the caller's."""
        found = await self._call(documents.get, self._name(context, task_id))
        return None if found is None else ParseDict(found, Task())

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the caller's tasks; the filters and pages are those of the SDK's own store.

        Reads all of them: for users with thousands of tasks, delete those that have ended.
        """
        found = await self._call(documents.find, self._name(context, ""), limit=MOST_TASKS)
        memory = InMemoryTaskStore(owner_resolver=self._users)
        for each in found.values():
            await memory.save(ParseDict(each, Task()), context)
        return await memory.list(params, context)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task of the caller's."""
        await self._call(documents.remove, self._name(context, task_id))

    def _name(self, context: ServerCallContext, task_id: str) -> str:
        return f"{_digest(self._users(context))}:{_digest(task_id) if task_id else ''}"

    async def _call(self, verb: Callable[..., Any], name: str, *arguments: Any, **named: Any) -> Any:
        return await asyncio.to_thread(verb, self._app.world, self._owner, TASK, name, *arguments, **named)


MOST_TASKS = 10_000


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _authorization(config: TaskPushNotificationConfig) -> str:
    auth = config.authentication
    return f"{auth.scheme} {auth.credentials}" if auth.scheme and auth.credentials else ""


def _headers(stored: dict[str, Any]) -> dict[str, Any]:
    names = {"token": TOKEN_HEADER, "credentials": "authorization"}
    return {names[each]: {"$secret": secret} for each, secret in stored["secrets"].items()}
