# a2a_push.py
"""An A2A server whose push notifications survive it: signed in, retried for days; no key, no network but loopback.

The receiver is down when the task ends; it gets the notification when it is back.
"""

import asyncio
from datetime import timedelta
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskState, TaskStatus

from horae import Horae
from horae.adapters.a2a import HoraePushConfigStore, HoraePushSender, HoraeTaskStore
from horae.testing import Lab
from horae.webhooks import Outgoing, Rules, allow_list, register

ANSWERS = [503, 200]  # what the receiver answers, one after the other
RECEIVED: list[str] = []


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    RECEIVED.append(head.split(" ", 1)[0])
    writer.write(f"HTTP/1.1 {ANSWERS.pop(0)} Said\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
    await writer.drain()
    writer.close()


async def main() -> dict[str, Any]:
    receiver = await asyncio.start_server(receive, "127.0.0.1", 0)
    port = receiver.sockets[0].getsockname()[1]
    rules = Rules(frozenset({"http"}), frozenset({port}), allow_list(["127.0.0.0/8"]))
    app = Horae("sqlite://")
    webhook = register(app, Outgoing.read({}, rules_for=lambda _owner: rules)).webhook
    configs, tasks = HoraePushConfigStore(app), HoraeTaskStore(app)
    call = ServerCallContext()
    async with Lab(app) as lab:
        task = Task(id="t-1", context_id="c-1", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
        await tasks.save(task, call)
        await configs.set_info("t-1", TaskPushNotificationConfig(url=f"http://127.0.0.1:{port}/hook"), call)
        await HoraePushSender(webhook, configs).send_notification("t-1", task)
        await lab.advance(timedelta(minutes=10))
        (job,) = lab.enqueued("webhook")
    receiver.close()
    return {"received": len(RECEIVED), "state": job.state}


if __name__ == "__main__":
    print(asyncio.run(main()))
