"""What travels is what the reference says, for workers and consumers that were written by it."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from jsonschema import validate

from horae import Context, Horae
from horae.actions import bus
from horae.core.dispatch import CALLS
from tests.bus.dispatching import far_app, relay, working
from tests.docs.snippets import ROOT, blocks
from tests.support.waiting import eventually

pytestmark = pytest.mark.server
PAGE = ROOT / "docs" / "reference" / "bus.md"


def schemas() -> dict[str, Any]:
    found = [json.loads(block.text) for block in blocks(PAGE) if block.language == "json"]
    return {each["title"]: each for each in found}


@asynccontextmanager
async def overhearing(url: str, prefix: str) -> AsyncIterator[dict[str, list[Any]]]:
    """Keep everything that travels, by its kind."""
    heard: dict[str, list[Any]] = defaultdict(list)

    async def keep(message: Any) -> None:
        body, kind = json.loads(message.data), message.subject.split(".")[1]
        heard["job" if "job" in body else "answer" if kind == "to" else kind].append(body)

    client = await nats.connect(url)
    for kind in ("ask", "call.>", "to.>"):
        await client.subscribe(f"{prefix}_work.{kind}", cb=keep)
    await client.flush()
    try:
        yield heard
    finally:
        await client.close()


async def test_every_message_of_dispatch_fits_its_schema(sqlite_database_url: str, nats_url: str, prefix: str) -> None:
    known = schemas()
    far = far_app(nats_url, prefix)

    @far.job("steps", queue="mail")
    async def steps(ctx: Context) -> int:
        await ctx.progress_async({"done": 1})
        return int(await ctx.step_async("count", lambda: 7))

    with Horae(sqlite_database_url) as near:
        made = near.jobs.enqueue("steps", {}, queue="mail")
        async with overhearing(nats_url, prefix) as heard, relay(near, nats_url, prefix), working(far):
            await near.aio.jobs.wait(made.id, timeout=20)
            await eventually(lambda: len(heard["answer"]) > 3, "answers are heard")

    assert set(heard) == {"ask", "call", "job", "answer"}
    for kind, bodies in heard.items():
        for body in bodies:
            validate(body, known[kind])


def test_every_event_fits_its_schema(app: Horae) -> None:
    app.schedules.create("nightly", handler="send", cron="0 3 * * *", queue="mail")
    app.schedules.trigger("nightly")
    cancelled = app.jobs.enqueue("send", queue="mail")
    app.jobs.cancel(cancelled.id)

    found = bus.next_messages(app.world, limit=100)
    assert {each.headers["ce-type"] for each in found} >= {
        "horae.fire.ran",
        "horae.job.enqueued",
        "horae.job.cancelled",
    }
    for each in found:
        validate(each.body, schemas()["event"])


def test_every_call_is_listed() -> None:
    text = PAGE.read_text()

    assert [name for name in CALLS if f"`{name}`" not in text] == []
