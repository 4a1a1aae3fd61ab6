"""The application behind ``horae up``: small jobs and schedules that show what happens when things go well or fail.

They use a queue and a group of their own, so that a demonstration on a shared database touches no other work. Their
schedules rest while no ``horae up`` runs.
"""

from __future__ import annotations

from datetime import timedelta

from horae.actions.jobs.requests import Enqueued
from horae.api.governance.object_values import ObjectToVerify
from horae.app import Horae
from horae.clock import SystemClock
from horae.core.governance.answers import Verdict
from horae.core.jobs.retry import Retry
from horae.runtime.loop import Alarm
from horae.runtime.worker.context import Context

QUEUE = GROUP = "example"
LEASE = timedelta(seconds=5)  # so that a worker that is killed is missed soon
app = Horae()


@app.job("example.greet", queue=QUEUE, group=GROUP, every=20, arguments={"name": "world"})
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


@app.job(
    "example.report", queue=QUEUE, group=GROUP, every=30, retry=Retry.fixed(2, attempts=3), arguments={"pages": 20}
)
async def report(ctx: Context, pages: int) -> int:
    """Take a while and report progress; go on from the checkpoint when the worker was killed."""
    alarm = Alarm(SystemClock())
    for page in range(ctx.last_checkpoint or 0, pages):
        await alarm.sleep(None, timedelta(milliseconds=700))
        await ctx.checkpoint_async(page + 1)
        await ctx.progress_async({"page": page + 1, "of": pages})
        if page + 1 == pages or pages < 5:
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


@app.job(
    "example.invoice", queue=QUEUE, group=GROUP, every=300, retry=Retry.none(),
    arguments={"customer": "ACME", "amount": "twelve", "api_key": "a secret that nobody sees"},
)  # fmt: skip
def invoice(ctx: Context, customer: str, amount: str, api_key: str = "") -> float:
    """Fail for a mistake in the payload; run it again with a number."""
    try:
        total = float(amount)
    except ValueError:
        raise ValueError(f"the amount {amount!r} is not a number") from None
    ctx.logger.info("%s is billed %.2f", customer, total)
    return total


@app.job("example.backup", queue=QUEUE, group=GROUP, cron="30 2 * * *", zone="Asia/Shanghai", lock_ttl=60)
def backup(ctx: Context) -> str:
    """Run once a night, in a time zone of its own."""
    return "backed up"


# What the example's agent remembers, and what a look at the world finds out about it.
MEMORIES = {
    "mem_example_terms": ("ACME pays within 30 days.", Verdict.confirmed(evidence=["ledger:acme"], confidence=0.9)),
    "mem_example_price": ("The blue lamp costs 12.", Verdict.refuted(evidence=["shop:lamp"])),
    "mem_example_taste": ("ACME likes to be called early.", Verdict.inconclusive(note="nobody picked up the phone")),
}


@app.verifier("memory")
def look(it: ObjectToVerify) -> Verdict:
    """Find out whether a memory holds: one does, one does not, one cannot be decided now."""
    known = MEMORIES.get(it.id)
    return Verdict.inconclusive(note="not one of the example") if known is None else known[1]


def remember() -> None:
    """Let the example's agent remember; however often this is called, each memory is there once."""
    agent = app.acting_as("agent/example")
    for object_id, (content, _) in MEMORIES.items():
        agent.objects.propose("memory", content, id=object_id, agent="example", subject="ACME", evidence=["chat:1"])
    agent.objects.propose(
        "experience", "Remind ACME after 35 days, not earlier.", id="exp_example_remind", agent="example",
        subject="ACME", rests_on=["memory:mem_example_terms"], evidence=["ledger:acme"],
    )  # fmt: skip


def enqueue_samples() -> list[tuple[Enqueued, str]]:
    """Enqueue the story; return each job with what it will show."""
    return [
        (greet.enqueue(name="newcomer"), "runs at once"),
        (charge.enqueue(order_id=42), "fails twice and is tried again after 2 s each"),
        (remind.using(delay=5).enqueue(text="tea is ready"), "is due in 5 s"),
        (report.enqueue(pages=3), "takes a while and reports its progress"),
        (print_label.enqueue(label="parcel 7"), "gives up after two attempts, and is kept for you"),
        (invoice.enqueue(customer="ACME", amount="twelve"), "has a mistake in its payload; run it again with a number"),
    ]
