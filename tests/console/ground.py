"""A day in the life of a small shop: jobs that ran, failed and wait, schedules that fired and will.

Everything is made by the verbs under a virtual clock, so that it is the same each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from horae.actions import roll_up, scheduled_tasks
from horae.actions.access.tokens import create_token
from horae.actions.jobs import claims, definitions, endings, jobs, queues
from horae.actions.jobs.batch import BatchRequest
from horae.actions.jobs.batch import create as create_batch
from horae.actions.jobs.quiet_queues import quiet_queue
from horae.actions.jobs.requests import Request
from horae.actions.schedules import calendars, fires, schedules
from horae.core.jobs.batch import Callback
from horae.core.jobs.job import Job, Lease, Outcome
from horae.core.jobs.lines import Lines, LogLine
from horae.core.jobs.parameters import Parameter
from horae.core.jobs.retry import Retry
from horae.core.scheduled_tasks.task import Terms, Wish
from horae.core.schedules.schedule import Schedule
from horae.ports.definitions import StoredDefinition
from horae.ports.workers import Node
from horae.ports.world import World
from horae.testing.clock import VirtualClock

MINUTE = timedelta(minutes=1)
STEP = 10 * MINUTE
WORKER = "web-1.shop.example-4711"
CARD_LINES = ("order taken from the shop", "asking the bank for 12345678901234567890", "the bank answered 402: expired")
CARD = """CardRefused: the bank refused the card: expired

Traceback (most recent call last):
  File "shop/billing.py", line 88, in charge
    answer = bank.charge(card, amount)
  File "shop/bank.py", line 31, in charge
    raise CardRefused(answer.code)
shop.bank.CardRefused: the bank refused the card: expired
"""
TIMEOUT = "ConnectionError: smtp.example did not answer within 10 s"
QUEUES = ("default", "mail", "orders", "images", "governance")
SCHEDULES = (
    Schedule("clean-carts", "carts.clean", "cron", "*/15 * * * *", title="Clean up old carts"),
    Schedule("sync-stock", "stock.sync", "every", "1200", title="Fetch the stock from the warehouse"),
    Schedule("nightly-report", "reports.daily", "cron", "30 2 * * *", zone="Europe/Berlin", payload={"to": "ada"}),
    Schedule("newsletter", "mail.newsletter", "cron", "0 9 * * 1-5", zone="Asia/Shanghai", queue="mail"),
    Schedule("weekly-invoices", "orders.invoice", "cron", "0 6 * * 1", zone="America/New_York", queue="orders"),
    Schedule("reindex", "search.reindex", "cron", "10 */4 * * *"),
    Schedule("backup", "ops.backup", "cron", "0 23 * * *", misfire="skip"),
    Schedule("year-end", "reports.year", "once", "2030-12-31T22:00:00Z"),
)  # fmt: skip


DEFINITIONS = (
    StoredDefinition("carts.clean", "default", parameters=(), description="Remove carts that nobody came back to."),
    StoredDefinition("images.resize", "images"),
    StoredDefinition(
        "orders.charge", "orders", sensitive=("card",), description="Charge the card of an order.",
        parameters=(
            Parameter("order", "integer"), Parameter("amount", "number", required=False, default=10),
            Parameter("currency", "choice", required=False, default="EUR", choices=("EUR", "CNY", "USD")),
            Parameter("card", "text", sensitive=True), Parameter("capture", "boolean", required=False, default=True),
            Parameter("day", "date", required=False), Parameter("not_before", "instant", required=False),
            Parameter("lines", "json", required=False),
        ),
    ),
)  # fmt: skip


# Tasks of a tenant; the second has something else to say when it runs.
TASKS = (
    {"name": "Morning briefing", "schedule_expr": "0 9 * * 1-5", "timezone": "Asia/Shanghai",
     "payload": {"text": "Summarise what customers asked yesterday, in five lines.", "default_agent": "desk"}},
    {"name": "Watch the prices", "schedule_type": "interval", "schedule_expr": "7200",
     "payload": {"text": "Compare our ten best sellers with the market."}},
    {"name": "订单对账", "schedule_expr": "30 6 * * *", "timezone": "Asia/Shanghai",
     "payload": {"text": "核对昨天的订单与支付记录。", "mode": "llm"}},
    {"name": "Contract ends", "schedule_type": "once", "next_run_at": "2030-03-01T09:30", "timezone": "Europe/Berlin",
     "payload": {"text": "Remind me that the contract ends at the end of the month."}},
    {"name": "Old digest", "schedule_expr": "0 18 * * 5", "enabled": False, "payload": {"text": "Weekly digest"}},
)  # fmt: skip


def make_day(
    world: World, clock: VirtualClock, *, hours: int = 14, seed: int = 7, meanwhile: Callable[[], object] | None = None
) -> None:
    """Let a day go by, and stop in the middle of the next one; *meanwhile* happens shortly before its end."""
    Day(world, clock, random.Random(seed)).live(hours, meanwhile)


def make_known_errors(world: World) -> None:
    """Let fail what fails now and then, so that it is nothing new on the day itself."""
    jobs.enqueue(world, Request("mail.receipt", {"order": 17}, queue="mail"))
    jobs.enqueue(world, Request("images.resize", {"file": "door.png", "width": 800}, queue="images"))
    jobs.enqueue(world, Request("dispatch", {"text": "Compare our ten best sellers with the market."}, owner="alice"))
    for job in claims.pull(world, worker_id=WORKER, queues=("mail", "images", "default"), limit=3):
        endings.fail(world, job.id, job.token, TIMEOUT, retry_delay=timedelta(minutes=5))
        jobs.cancel(world, job.id, actor="user/ada", reason="only a trial")


class Day:
    """The shop while the clock moves."""

    def __init__(self, world: World, clock: VirtualClock, dice: random.Random) -> None:
        self.world, self.clock, self.dice = world, clock, dice

    def live(self, hours: int, meanwhile: Callable[[], object] | None = None) -> None:
        definitions.store_definitions(self.world, DEFINITIONS, app="shop", actor="app/shop")
        for schedule in SCHEDULES:
            schedules.create(self.world, schedule, actor="app/shop")
        for terms in TASKS:
            scheduled_tasks.create(self.world, Wish(**terms), owner="alice", terms=Terms(), actor="user/alice")
        end = self.clock.now() + timedelta(hours=hours)
        while self.clock.now() < end:
            self.order_things()
            fires.fire_due(self.world)
            self.work()
            self.clock.advance(STEP)
        if meanwhile is not None:
            meanwhile()
        self.finish()

    def order_things(self) -> None:
        """Enqueue what customers cause: more by day than by night."""
        busy = 1 + round(5 * self.share_of_day(self.clock.now()))
        wanted = [Request("mail.receipt", {"order": self.dice.randrange(10_000)}, queue="mail") for _ in range(busy)]
        wanted += [
            Request("orders.charge", {"order": self.dice.randrange(10_000)}, queue="orders") for _ in range(busy // 2)
        ]
        if self.dice.random() < 0.3:
            wanted.append(
                Request("images.resize", {"file": "cover.png", "width": 800}, queue="images", tags=("cover",))
            )
        jobs.enqueue_many(self.world, wanted)

    def share_of_day(self, at: datetime) -> float:
        return max(0.0, 1 - abs(at.hour + at.minute / 60 - 13) / 8)

    def work(self) -> None:
        """Run what is due, as one worker does, a few seconds each."""
        for job in claims.pull(self.world, worker_id=WORKER, queues=QUEUES, limit=200):
            self.clock.advance(timedelta(milliseconds=self.dice.randrange(40, 900)))
            fails = {"mail.receipt": 0.05, "images.resize": 0.15, "dispatch": 0.25}.get(job.handler, 0.0)
            if self.dice.random() < fails:
                endings.fail(self.world, job.id, job.token, TIMEOUT, retry_delay=timedelta(minutes=5))
            else:
                endings.ack(self.world, job.id, job.token, result=self.result_of(job.handler))

    def result_of(self, handler: str) -> dict[str, Any] | None:
        if handler == "dispatch":
            return {"output": "Nine of ten are as cheap as elsewhere; the lamp is not.", "items": []}
        return {"sent": True} if handler.startswith("mail.") else None

    def finish(self) -> None:
        """Leave something in every state."""
        fires.fire_due(self.world)
        self.work()
        self.clock.advance(2 * MINUTE)
        roll_up.keep_up(self.world)
        self.break_a_card()
        self.leave_waiting()
        self.leave_running()
        fires.fire_due(self.world)
        self.beat()
        roll_up.keep_up(self.world)

    def break_a_card(self) -> None:
        for order in (4711, 4712):
            payload = {"order": order, "amount": 12345678901234567890, "card": "tok_9"}
            retry = Retry.fixed(30, attempts=3)
            request = Request("orders.charge", payload, queue="orders", retry=retry, tags=("card",))
            made = jobs.enqueue(self.world, request)
            for _ in range(3):
                (job,) = claims.pull(self.world, worker_id=WORKER, queues=("orders",), limit=1)
                self.clock.advance(timedelta(seconds=2))
                fail_loudly(self.world, job, CARD, *CARD_LINES)
                self.clock.advance(timedelta(seconds=40))
            assert jobs.get(self.world, made.id).state == "dead"
        self.clock.advance(2 * MINUTE)
        fires.fire_due(self.world)
        self.work()

    def leave_waiting(self) -> None:
        later = self.clock.now() + timedelta(hours=3)
        jobs.enqueue_many(
            self.world,
            [
                Request("mail.reminder", {"to": "ada@example.org"}, queue="mail", run_at=later),
                Request("images.resize", {"file": "封面.png", "width": 1600}, queue="images", tags=("cover", "大图")),
                Request("reports.daily", {"day": "2030-01-07"}),
            ],
        )
        gone = jobs.enqueue(self.world, Request("mail.receipt", {"order": 99}, queue="mail"))
        jobs.cancel(self.world, gone.id, actor="user/ada", reason="ordered twice")
        queues.pause_queue(self.world, "images", actor="user/ada", reason="the disk is being changed")

    def leave_running(self) -> None:
        made = jobs.enqueue(self.world, Request("search.reindex", {"full": True}, queue="default", priority="high"))
        (job,) = claims.pull(self.world, worker_id=WORKER, queues=("default",), limit=1)
        assert job.id == made.id
        lease = Lease(job.number, job.token)
        claims.progress(self.world, lease, {"done": 61, "of": 100})
        self.clock.advance(timedelta(seconds=48))
        claims.renew(self.world, [lease])

    def beat(self) -> None:
        now = self.clock.now()
        for name, started, served, busy, memory in (
            (
                WORKER,
                now - timedelta(hours=20),
                {"default": 10, "mail": 10, "orders": 4, "images": 2, "governance": 1},
                {"default": 1},
                92,
            ),
            ("web-2.shop.example-812", now - timedelta(hours=3), {"mail": 20}, {}, 71),
        ):
            node = Node(
                name,
                name.rpartition("-")[0],
                int(name.rpartition("-")[2]),
                "0.1.0",
                started,
                now,
                served,
                busy=busy,
                memory=memory << 20,
            )
            claims.peek(self.world, list(served), node=node)


def make_batches(world: World, clock: VirtualClock) -> dict[str, str]:
    """Leave a batch half done, with a part that failed and something that follows; return what was made."""
    parts = [
        Request("images.resize", {"file": f"page-{page}.png"}, queue="catalogue", retry=Retry.none())
        for page in range(1, 9)
    ]
    follows: dict[Callback, Request] = {
        "on_success": Request("catalogue.publish", queue="catalogue"),
        "on_failure": Request("mail.complain", {"to": "ada"}, queue="catalogue"),
    }
    batch, numbers = create_batch(world, BatchRequest(parts, "Winter catalogue", callbacks=follows), actor="app/shop")
    for number, job in enumerate(claims.pull(world, worker_id=WORKER, queues=("catalogue",), limit=5)):
        clock.advance(timedelta(seconds=3))
        if number == 2:
            endings.fail(world, job.id, job.token, "OSError: page-3.png is cut off", final=True)
        else:
            endings.ack(world, job.id, job.token, result={"width": 800})
    after = jobs.enqueue(
        world, Request("catalogue.check", queue="catalogue", after=(f"job_{numbers[0]}", f"job_{numbers[6]}"))
    )
    return {"batch": batch.id, "after": after.id}


def make_calendars(world: World) -> None:
    """Keep the shop's holidays, a schedule that moves away from them, and a queue that is quiet at night."""
    days = ("sat", "sun", "01-01", "12-25", "2030-02-03..2030-02-08")
    calendars.set_calendar(world, "bank", days, title="Bank holidays", actor="user/ada", reason="as every year")
    schedule = Schedule(
        "payroll", "orders.pay", "cron", "0 9 2 * *", calendar="bank", calendar_rule="move", quiet_hours="12:00-13:00",
        title="Pay the suppliers",
    )  # fmt: skip
    schedules.create(world, schedule, actor="app/shop")
    quiet_queue(world, "orders", "02:00-05:00", "Europe/Berlin", actor="user/ada", reason="the bank sleeps")


HOSTILE = (
    '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e{{7*7}}${7*7}&amp;'
    "\u4e2d\u6587 \u0645\u0631\u062d\u0628\u0627"
)


def fail_loudly(world: World, job: Job, error: str, *texts: str, final: bool = False) -> None:
    """Fail an attempt that has logged these lines, the last one as an error."""
    now = world.clock.now()
    lines = [LogLine(now, "ERROR" if text is texts[-1] else "INFO", text) for text in texts]
    endings.settle(world, [(job, Outcome("failed", error=error, final=final, lines=Lines(tuple(lines))))])


def make_hostile(world: World, *, owner: str = "system") -> dict[str, str]:
    """Put hostile text wherever a caller can put text; return the ids of what was made."""
    name = HOSTILE[:80].replace("\u202e", "")
    request = Request(
        "hostile", {name: [name, {"deep": name}]}, queue="default", tags=(name,), key=name, unique=name, owner=owner,
        concurrency_key=name, retry=Retry.none(),
    )  # fmt: skip
    made = jobs.enqueue(world, request)
    (job,) = claims.pull(world, worker_id=name, queues=("default",), limit=1)
    fail_loudly(world, job, f"{HOSTILE}\n{HOSTILE}", HOSTILE, final=True)
    schedules.create(
        world,
        Schedule(name, "hostile", "cron", "0 0 * * *", title=name, payload={name: name}, owner=owner),
        reason=HOSTILE,
    )
    schedules.pause(world, name, owner=owner, actor=name, reason=HOSTILE)
    queues.pause_queue(world, "default", actor=name, reason=HOSTILE)
    return {"job": made.id, "schedule": name}


def a_token(world: World, owner: str = "system", *scopes: str, **options: Any) -> str:
    return create_token(world, owner=owner, scopes=scopes or ("admin",), **options)[1]


Make = Callable[[World, VirtualClock], None]
