"""The story of ``horae demo attention``: an agent, the outside that it deals with, and time that passes between them.

A report is being written; the database goes down; the alert takes the focus, pages Alice and waits; the report goes on
meanwhile; Alice stays silent, the time-out brings the alert back, Bob answers, both finish. Cognition here is a handful
of rules; where a model would think, nothing else changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Facts, Fail, Pending, Proceed, Rule, Step, Turn, Wait
from horae.clock import StoryClock, SystemClock, pause
from horae.core.dataclass import dataclass

LANE = "demo"
BEGINS = datetime(2030, 1, 7, 9, tzinfo=UTC)
SOURCES = 4
ON_CALL = ("alice", "bob")
ACK = "ack:db-1"


@dataclass(frozen=True)
class Spans:
    """Durations in the demo, in shares of a minute."""

    minute: timedelta = timedelta(minutes=1)

    @property
    def page(self) -> timedelta:
        return self.minute / 12

    @property
    def answer(self) -> timedelta:
        return self.minute * 10

    @property
    def confirm(self) -> timedelta:
        return self.minute * 30

    @property
    def lease(self) -> timedelta:
        return max(self.minute / 2, timedelta(seconds=1))


SHORT = Spans(timedelta(seconds=0.5))  # for a demonstration on the wall clock


class Pager:
    """Remembers outside of our process who was paged, whatever becomes of the process."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "pager.log"

    def send(self, who: str, key: str) -> None:
        with self._file.open("a", encoding="utf-8") as log:
            log.write(f"{who} {key}\n")

    @property
    def paged(self) -> list[str]:
        if not self._file.exists():
            return []
        return [line.split()[0] for line in self._file.read_text(encoding="utf-8").splitlines()]


@dataclass(order=True)
class Happening:
    """Something the outside will do."""

    at: datetime
    do: Callable[[], None] = field(compare=False)


class Time:
    """Lets time pass: jumps through a simulated one, sleeps through a real one. What was planned happens on the way."""

    def __init__(self, clock: StoryClock | SystemClock) -> None:
        self.clock = clock
        self._planned: list[Happening] = []
        self._lock = threading.Lock()

    def plan(self, at: datetime, do: Callable[[], None]) -> None:
        with self._lock:
            self._planned = sorted([*self._planned, Happening(at, do)])

    @property
    def next_at(self) -> datetime | None:
        return self._planned[0].at if self._planned else None

    def take(self, span: timedelta) -> None:
        """Work for a while; what is planned for its very end comes after it."""
        end = self.clock.now() + span
        while (earlier := self._first(lambda at: at < end)) is not None:
            self._reach(earlier.at)
            earlier.do()
        self._reach(end)

    def until(self, instant: datetime) -> None:
        self._reach(instant)
        self.catch_up()

    def catch_up(self) -> None:
        """Do what is due."""
        while (due := self._first(lambda at: at <= self.clock.now())) is not None:
            due.do()

    def _first(self, is_wanted: Callable[[datetime], bool]) -> Happening | None:
        with self._lock:
            return self._planned.pop(0) if self._planned and is_wanted(self._planned[0].at) else None

    def _reach(self, instant: datetime) -> None:
        if isinstance(self.clock, StoryClock):
            self.clock.jump_to(instant)
        else:
            pause((instant - self.clock.now()).total_seconds())


@dataclass
class Outside:
    """All that the agent deals with: time, a pager, and the people on call."""

    time: Time
    pager: Pager
    spans: Spans
    early: bool = False  # whether Bob answers before the wait opens
    dies: Callable[[], None] | None = None  # called inside the first page, after it went out


def make_agent(database: Path, outside: Outside) -> Attention:
    """Make the agent of the story, on a store of its own."""
    app = Horae(f"sqlite:///{database}", name="horae.demo", clock=outside.time.clock)
    agent = Attention(LANE, app, lease=outside.spans.lease)
    spans = outside.spans

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}), confirm_timeout=spans.confirm)

    @agent.action(effect="idempotent")
    def read_source(step: Step, n: int) -> Facts:
        outside.time.take(spans.minute)
        return Facts(n=n, lines=40 + n)

    @agent.action(effect="once")
    def page(step: Step, who: str) -> Pending:
        outside.pager.send(who, step.key)
        if who == "bob":
            _bob_answers(agent, outside)
        outside.time.take(spans.page)
        if outside.dies is not None:
            outside.dies()
        return Pending(on=ACK, timeout=spans.answer)

    @agent.action(effect="once")
    def refund(step: Step, amount: int, to: str) -> Facts:
        return Facts(receipt=f"r-{step.key[:4]}")

    agent.cognition("report")(report)
    agent.cognition("alert")(_alert(spans))
    agent.cognition("refund")(refund_flow)
    agent.rule(Rule("db.down", do="task", kind="alert", priority=90, key="alert:{id}"))
    return agent


def begin(agent: Attention, outside: Outside) -> None:
    """Add the report, and plan the bad news in two minutes. Safe to repeat: a key and an event id count once."""
    now = outside.time.clock.now()
    began = agent.add("report", priority=40, key="report:1").task.created_at or now
    down = began + 2 * outside.spans.minute
    outside.time.plan(down, lambda: _ignore(agent.post("db.down", {"id": "db-1"}, event_id="pd-8841")))


def _bob_answers(agent: Attention, outside: Outside) -> None:
    after = outside.spans.page * (0.6 if outside.early else 1)
    at = outside.time.clock.now() + after
    outside.time.plan(at, lambda: _ignore(agent.post(ACK, {"by": "bob"}, event_id="pd-8842")))


def _ignore(_: object) -> None:
    return None


# -- cognition, as rules -------------------------------------------------------------------------------------------


def report(turn: Turn) -> Any:
    """Read every source, one after the other; the context is what was found so far."""
    notes = (turn.context or []) + [fact["lines"] for fact in turn.facts.of("action_ok", "read_source")]
    if len(notes) < SOURCES:
        return Act("read_source", {"n": len(notes) + 1}, context=notes)
    return Done({"lines": sum(notes)})


def _alert(spans: Spans) -> Callable[[Turn], Any]:
    def alert(turn: Turn) -> Any:
        """Page who is on call, one after the other, until one of them answers."""
        tried = list(turn.context or [])
        if ack := turn.facts.last("event", key=ACK):  # the same outage reported again is an event as well
            return Done({"by": ack["by"]})
        if turn.facts.last("action_unknown"):  # did we page or not? wait, do not page twice
            return Wait(ACK, timeout=spans.answer, context=tried)
        if turn.facts.last("timed_out"):
            tried.append("silent")
        if len(tried) == len(ON_CALL):
            return Fail("nobody answered")
        return Act("page", {"who": ON_CALL[len(tried)]}, context=tried)

    return alert


def refund_flow(turn: Turn) -> Any:
    """Ask for a refund; whether it is made is a person's word."""
    if ok := turn.facts.last("confirmed"):
        return Proceed(ok.grant)
    if done := turn.facts.last("action_ok"):
        return Done({"receipt": done["receipt"]})
    if turn.facts.last("denied"):
        return Done({"receipt": None})
    if turn.facts.last("timed_out"):
        return Fail("no decision in time")  # silence is not a refusal
    return Act("refund", {"amount": 40, "to": "c-17"}, interruptible=False)
