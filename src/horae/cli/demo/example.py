"""The application behind ``horae up``: five small jobs that show what a queue does when things fail.

They use a queue of their own, so that a demonstration on a shared database touches no other work.
"""

from __future__ import annotations

from datetime import timedelta

from horae.actions.jobs.requests import Enqueued
from horae.app import Horae
from horae.clock import SystemClock
from horae.core.jobs.retry import Retry
from horae.runtime.loop import Alarm
from horae.runtime.worker.context import Context

QUEUE = "example"
app = Horae()


@app.job("example.greet", queue=QUEUE)
def greet(ctx: Context, name: str) -> str:
    """Greet: the plainest job, a function with an argument."""
    ctx.logger.info("Hello, %s!", name)
    return f"greeted {name}"


@app.job("example.charge", queue=QUEUE, retry=Retry.fixed(2, attempts=5))
def charge(ctx: Context, order_id: int) -> str:
    """Fail twice, as networks do; the third attempt goes through."""
    if ctx.attempt < 3:
        raise ConnectionError("the bank did not answer")
    ctx.logger.info("order %s charged at attempt %s", order_id, ctx.attempt)
    return f"charged order {order_id}"


@app.job("example.remind", queue=QUEUE)
def remind(ctx: Context, text: str) -> None:
    """Remind: enqueued with a delay, runs when it is due."""
    ctx.logger.info("a reminder, on time: %s", text)


@app.job("example.report", queue=QUEUE)
async def report(ctx: Context, pages: int) -> int:
    """Take a while and report progress; go on from the checkpoint when the worker was killed."""
    alarm = Alarm(SystemClock())
    for page in range(ctx.last_checkpoint or 0, pages):
        await alarm.sleep(None, timedelta(milliseconds=700))
        await ctx.checkpoint_async(page + 1)
        await ctx.progress_async({"page": page + 1, "of": pages})
        ctx.logger.info("page %s of %s", page + 1, pages)
    return pages


@app.job("example.print", queue=QUEUE, retry=Retry.fixed(1, attempts=2))
def print_label(ctx: Context, label: str) -> None:
    """Die after two attempts; succeed when revived, as if the paper had been filled."""
    tried = (ctx.last_checkpoint or 0) + 1
    ctx.checkpoint(tried)
    if tried <= 2:
        raise RuntimeError("the printer is out of paper")
    ctx.logger.info("printed %s", label)


def enqueue_samples() -> list[tuple[Enqueued, str]]:
    """Enqueue the story; return each job with what it will show."""
    return [
        (greet.enqueue(name="newcomer"), "runs at once"),
        (charge.enqueue(order_id=42), "fails twice and is tried again after 2 s each"),
        (remind.using(delay=5).enqueue(text="tea is ready"), "is due in 5 s"),
        (report.enqueue(pages=3), "takes a while and reports its progress"),
        (print_label.enqueue(label="parcel 7"), "gives up after two attempts, and is kept for you"),
    ]
