"""A worker in plain nats-py, without Horae: NATS_URL=nats://127.0.0.1:4222 python bus_worker.py"""

import asyncio
import json
import os
import uuid
from typing import Any

import nats

PREFIX, STREAM = os.environ.get("HORAE_NATS_PREFIX", "horae"), os.environ.get("HORAE_NATS_STREAM", "HORAE")
ROOT, ME, QUEUE, LEASE = f"{PREFIX}_work", f"plain-{uuid.uuid4().hex[:8]}", "mail", 30.0
TO, INBOX = f"{ROOT}.to.{ME}", f"inbox.{ME}"


async def handle(job: Any) -> Any:
    return {"text": f"Hello, {job['payload']['name']}"}


async def main() -> None:
    client = await nats.connect(os.environ["NATS_URL"])
    streams, jobs, seen, answers = client.jetstream(), asyncio.Queue[Any](), set[Any](), dict[str, Any]()

    async def receive(message: Any) -> None:
        await message.ack()
        body = json.loads(message.data)
        if "job" in body and (body["job"]["id"], body["job"]["token"]) not in seen:  # a message may come twice
            seen.add((body["job"]["id"], body["job"]["token"]))
            jobs.put_nowait(body["job"])
        elif body.get("answer") in answers:
            answers.pop(body["answer"]).set_result(body.get("value"))

    async def call(name: str, **arguments: Any) -> Any:
        body: Any = {"id": uuid.uuid4().hex, "to": ME, "arguments": arguments}
        answer = answers[body["id"]] = asyncio.get_running_loop().create_future()
        await streams.publish(f"{ROOT}.call.{name}", json.dumps(body).encode(), headers={"Nats-Msg-Id": body["id"]})
        return await asyncio.wait_for(answer, 10)

    await client.subscribe(INBOX, cb=receive)
    names: Any = {"durable_name": ME, "deliver_subject": INBOX, "filter_subject": TO}
    await streams.add_consumer(f"{STREAM}_JOBS", inactive_threshold=120, **names)
    while True:
        ask = {"id": uuid.uuid4().hex, "to": ME, "worker": ME, "queue": QUEUE, "slots": 1, "lease": LEASE}
        await client.publish(f"{ROOT}.ask", json.dumps(ask).encode())
        try:
            job = await asyncio.wait_for(jobs.get(), 6)
        except TimeoutError:
            continue  # nothing was due, or no relay has heard: ask again
        hold, work = {"job_id": job["id"], "token": job["token"]}, asyncio.create_task(handle(job))
        while not (await asyncio.wait([work], timeout=LEASE / 3))[0]:
            if (kept := (await call("renew", holds=[hold], lease=LEASE))[0])["cancel_requested"] or not kept["held"]:
                work.cancel()
        try:
            outcome = {"outcome": "succeeded", "result": work.result()}
        except (Exception, asyncio.CancelledError) as problem:
            outcome = {"outcome": "cancelled" if work.cancelled() else "failed", "error": repr(problem)}
        print(await call("settle", endings=[{**hold, **outcome}]), flush=True)


asyncio.run(main())
