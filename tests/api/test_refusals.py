"""A refusal is the same near and far: its class, its reason and its facts, for wrong calls of every room."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from horae.actions.jobs.held_jobs import Ending, Hold
from horae.actions.jobs.requests import Request
from horae.api.application import Acting
from horae.api.here import Here, house
from horae.api.operation import AsyncPages, Pages
from horae.errors import HoraeError
from tests.api.conftest import SEALER, Sent, WaitedPages
from tests.api.test_doors import OPERATIONS
from tests.support.serving import Served

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - on purpose
OLD = datetime(1960, 1, 1, tzinfo=UTC)
LONG = "x" * 5000
Wrong = Callable[[Any, str], Any]
# Wrong calls by room. Each gets the room and the id of a job.
WRONG: dict[str, dict[str, Wrong]] = {
    "jobs": {
        "a handler that is no text": lambda r, _: r.enqueue(5),
        "a handler with a space": lambda r, _: r.enqueue("a b"),
        "a queue that is none": lambda r, _: r.enqueue("a", queue=None),
        "a queue that is a number": lambda r, _: r.enqueue("a", queue=5),
        "an unknown priority": lambda r, _: r.enqueue("a", priority="urgent"),
        "a priority that is no text": lambda r, _: r.enqueue("a", priority=1),
        "a delay in no unit": lambda r, _: r.enqueue("a", delay="5 parsecs"),
        "a list as a delay": lambda r, _: r.enqueue("a", delay=[1]),
        "no time": lambda r, _: r.enqueue("a", timeout=0),
        "True as a time limit": lambda r, _: r.enqueue("a", timeout=True),
        "a key that is no text": lambda r, _: r.enqueue("a", key=5),
        "a long key": lambda r, _: r.enqueue("a", key="x" * 300),
        "a name of two lines": lambda r, _: r.enqueue("a", unique="\n"),
        "a tag that is no text": lambda r, _: r.enqueue("a", tags=[5]),
        "one text as tags": lambda r, _: r.enqueue("a", tags="mail"),
        "a number as tags": lambda r, _: r.enqueue("a", tags=5),
        "too many tags": lambda r, _: r.enqueue("a", tags=[str(n) for n in range(1000)]),
        "a limit of none": lambda r, _: r.enqueue("a", concurrency_key="k", concurrency_limit=0),
        "a limit that is text": lambda r, _: r.enqueue("a", concurrency_key="k", concurrency_limit="5"),
        "half a job": lambda r, _: r.enqueue("a", concurrency_key="k", concurrency_limit=1.5),
        "no id to wait for": lambda r, _: r.enqueue("a", after=["x"]),
        "an unknown job to wait for": lambda r, _: r.enqueue("a", after=["job_999999"]),
        "one text to wait for": lambda r, _: r.enqueue("a", after="job_1"),
        "an unknown policy": lambda r, job: r.enqueue("a", after=[job], on_parent_dead="x"),
        "a long trace": lambda r, _: r.enqueue("a", trace_id="x" * 100),
        "half an object": lambda r, _: r.enqueue("a", object_type="memory"),
        "an unknown object": lambda r, _: r.enqueue("a", object_type="x", object_id="x", action="verify"),
        "a wait below zero": lambda r, _: r.enqueue("a", debounce=-1),
        "no expectation": lambda r, _: r.enqueue("a", expect="x"),
        "a cost without a budget": lambda r, _: r.enqueue("a", cost={"calls": 1}),
        "an unknown unit": lambda r, _: r.enqueue("a", budget="b", cost={"x": 1}),
        "no number": lambda r, _: r.enqueue("a", float("nan")),
        "a large payload": lambda r, _: r.enqueue("a", "x" * 1_200_000),
        "a long number": lambda r, _: r.enqueue("a", 10**5000),
        "a time without a zone": lambda r, _: r.enqueue("a", run_at=NAIVE),
        "a time as text": lambda r, _: r.enqueue("a", run_at="2030-01-01T00:00:00Z"),
        "no retry policy": lambda r, _: r.enqueue("a", retry=None),
        "no jobs": lambda r, _: r.enqueue_many([]),
        "a number as an id": lambda r, _: r.get(5),
        "a word as an id": lambda r, _: r.get("x"),
        "a path as an id": lambda r, _: r.get("a/b"),
        "no id": lambda r, _: r.get(""),
        "a folder as an id": lambda r, _: r.get(".."),
        "an id beyond all": lambda r, _: r.get("job_99999999999999999999999"),
        "an unknown id": lambda r, _: r.get("job_999999"),
        "an unknown state": lambda r, _: r.list(state="x"),
        "a handler in a filter with a space": lambda r, _: r.list(where="stat:x"),
        "a foreign cursor": lambda r, _: r.list().page("zzz"),
        "a page of none": lambda r, _: r.list(limit=0),
        "a page of a text": lambda r, _: r.list().page(limit="5"),
        "a long reason": lambda r, job: r.cancel(job, reason=LONG),
        "a reason that is no text": lambda r, job: r.cancel(job, reason=5),
        "half a character as a reason": lambda r, job: r.cancel(job, reason="\ud800"),
        "an unknown priority to move to": lambda r, job: r.reschedule(job, priority="x"),
        "a time without a zone to move to": lambda r, job: r.reschedule(job, run_at=NAIVE),
        "a job that goes on": lambda r, job: r.rerun(job),
        "a wait below nothing": lambda r, job: r.wait(job, timeout=-1),
        "a wait for no number": lambda r, job: r.wait(job, timeout=float("nan")),
        "no queues": lambda r, _: r.claim("w", queues=[]),
        "one text as queues": lambda r, _: r.claim("w", queues="mail"),
        "a claim of none": lambda r, _: r.claim("w", queues=["q"], limit=0),
        "a claim of too many": lambda r, _: r.claim("w", queues=["q"], limit=10**6),
        "no worker": lambda r, _: r.claim("", queues=["q"]),
        "no lease": lambda r, _: r.claim("w", queues=["q"], lease=0),
        "a lease of years": lambda r, _: r.claim("w", queues=["q"], lease=10**9),
        "our own queue": lambda r, _: r.claim("w", queues=["horae"]),
        "a token that is text": lambda r, job: r.ack(job, "5"),
        "a token below zero": lambda r, job: r.ack(job, -5),
        "a token beyond all": lambda r, job: r.ack(job, 10**30),
        "a token of another": lambda r, job: r.ack(job, 5),
        "a failure of another": lambda r, job: r.fail(job, 5, "x"),
        "progress of another": lambda r, job: r.progress(job, 5),
        "no endings": lambda r, _: r.settle([]),
        "an unknown ending": lambda r, job: r.settle([Ending(job, 5, "lost", delay=None)]),  # type: ignore[arg-type]
        "no holds": lambda r, _: r.renew([]),
        "a lease of none": lambda r, job: r.renew([Hold(job, 5)], lease=0),
    },
    "batches": {
        "no jobs": lambda r, _: r.create([]),
        "no id": lambda r, _: r.get("x"),
        "a job that cannot be": lambda r, _: r.create([Request("a b")]),
        "an unknown state": lambda r, _: r.list(state="x"),
    },
    "queues": {
        "a limit of none": lambda r, _: r.limit("q", -1),
        "a limit that is text": lambda r, _: r.limit("q", "5"),
        "a limit that is True": lambda r, _: r.limit("q", True),
        "a name with a space": lambda r, _: r.pause("a b"),
        "a long reason": lambda r, _: r.pause("q", reason=LONG),
        "a time without a zone": lambda r, _: r.pause("q", until=NAIVE),
        "no hours": lambda r, _: r.quiet("q", "x"),
        "an unknown zone": lambda r, _: r.quiet("q", "22:00-06:00", zone="nope"),
    },
    "schedules": {
        "no time": lambda r, _: r.create("k", handler="a"),
        "two times": lambda r, _: r.create("k", handler="a", every=60, cron="* * * * *"),
        "no cron": lambda r, _: r.create("k", handler="a", cron="99 * * * *"),
        "an unknown zone": lambda r, _: r.create("k", handler="a", cron="* * * * *", zone="x"),
        "no key": lambda r, _: r.create("", handler="a", every=60),
        "a key of folders": lambda r, _: r.create("a/../b", handler="a", every=60),
        "a key of a group": lambda r, _: r.create("groups/a", handler="a", every=60),
        "a key of a verb": lambda r, _: r.create("a/pause", handler="a", every=60),
        "an unknown policy": lambda r, _: r.create("k", handler="a", every=60, misfire="x"),
        "a payload that is no object": lambda r, _: r.create("k", handler="a", every=60, payload=[1]),
        "an unknown key": lambda r, _: r.get("nope"),
        "an empty key": lambda r, _: r.get(""),
        "an unknown status": lambda r, _: r.list(kind="x"),
        "a preview of none": lambda r, _: r.preview("nope", count=0),
    },
    "tokens": {
        "an unknown scope": lambda r, _: r.create("alice", scopes=["x"]),
        "no scope": lambda r, _: r.create("alice", scopes=[]),
        "one text as scopes": lambda r, _: r.create("alice", scopes="read"),
        "a second of life": lambda r, _: r.create("alice", scopes=["read"], expires_in=1),
        "a thousand years of life": lambda r, _: r.create("alice", scopes=["read"], expires_in=10**10 - 1),
        "no id": lambda r, _: r.revoke("nope"),
    },
    "budgets": {
        "no name": lambda r, _: r.set("", "calls", 5),
        "an unknown unit": lambda r, _: r.set("b", "x", 5),
        "less than nothing": lambda r, _: r.set("b", "calls", -5),
        "half a call": lambda r, _: r.set("b", "calls", 1.5),
        "too much": lambda r, _: r.set("b", "calls", 10**30),
        "an unknown period": lambda r, _: r.set("b", "calls", 5, period="x"),
    },
    "views": {
        "no name": lambda r, _: r.save("", "queue:mail"),
        "an unknown room": lambda r, _: r.save("n", "queue:mail", room="x"),
    },
    "calendars": {
        "no day": lambda r, _: r.set("n", ["x"]),
        "no days": lambda r, _: r.set("n", []),
        "a name with a space": lambda r, _: r.set("a b", ["2030-01-01"]),
    },
    "acts": {
        "an unknown verb": lambda r, _: r.start("x", "queue:mail"),
        "no time to move to": lambda r, _: r.start("reschedule", "queue:mail"),
        "an unknown act": lambda r, _: r.get("act_9"),
    },
    "statistics": {"an unknown word": lambda r, _: r.list("x")},
    "owners": {"no owner": lambda r, _: r.get(""), "a number": lambda r, _: r.get(5)},
    "audit": {"fewer than none": lambda r, _: r.list(limit=-1)},
    "attention": {
        "an unknown lane": lambda r, _: r.get("nope"),
        "a priority out of range": lambda r, _: r.add("l", "k", priority=1000),
        "a priority that is text": lambda r, _: r.add("l", "k", priority="5"),
        "a key of two lines": lambda r, _: r.post("l", "a\nb"),
        "data that are no object": lambda r, _: r.post("l", "k", [1]),
        "a wait that is no number": lambda r, _: r.confirm("l", "x", True),
    },
    "objects": {
        "an unknown object": lambda r, _: r.get("x"),
        "an unknown kind": lambda r, _: r.propose(kind="x", content="y"),
        "no content": lambda r, _: r.propose(kind="memory", content=""),
    },
    "error_groups": {"an unknown group": lambda r, _: r.get("x")},
    "reviews": {"an unknown review": lambda r, _: r.get("x")},
    "decisions": {"an unknown decision": lambda r, _: r.get("x")},
    "policies": {"an unknown kind": lambda r, _: r.get("x")},
    "secrets": {"a short secret": lambda r, _: r.put("a", "short")},
    "scheduled_tasks": {
        "a name that is no text": lambda r, _: r.create(name=5, schedule_type="cron", schedule_expr="0 7 * * *"),
        "an unknown task": lambda r, _: r.get("x"),
    },
    "expectations": {"an unknown state": lambda r, _: r.list(state="x")},
    "limits": {"a limit of none": lambda r, _: r.set("group:a", 0), "no limit": lambda r, _: r.set("x", 5)},
    "admin": {
        "an unknown outcome": lambda r, _: r.runs(outcome="x"),
        "no definitions": lambda r, _: r.store_definitions([]),
    },
}


def outcome(call: Wrong, room: Any, job: str) -> tuple[str, str, Any]:
    """Return the class, reason and facts of a refusal."""
    try:
        found = call(room, job)
        if isinstance(found, Pages | AsyncPages | WaitedPages):
            found.page()
    except HoraeError as error:
        return type(error).__name__, error.reason, error.facts
    return "accepted", "", {}


@pytest.mark.parametrize("room", sorted(WRONG))
def test_a_refusal_is_the_same_near_and_far(rooms: Sent, served: Served, room: str) -> None:
    near = Acting(lambda: Here(served.world, house("app/test"), sealer=lambda: SEALER))
    differ = {}
    for who, ours, theirs in (("house", near, rooms.house), ("alice", near.for_owner("alice"), rooms.alice)):
        job = ours.jobs.enqueue("dispatch", queue="q", delay=3600).id
        for name, call in WRONG[room].items():
            expected, found = outcome(call, getattr(ours, room), job), outcome(call, getattr(theirs, room), job)
            if found != expected or (who == "house" and not expected[1]):
                differ[f"{who}: {name}"] = (expected, found)
    assert differ == {}


def test_every_room_with_names_or_bounds_is_asked_wrongly() -> None:
    without = {"health", "live", "overview", "workers", "sessions", "personas", "governance", "rollbacks"}
    rooms = {name.split(".")[0] for name in OPERATIONS}
    assert set(WRONG) <= rooms
    assert rooms - set(WRONG) - without == set()
