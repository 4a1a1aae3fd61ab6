"""Events for a message bus: what an entry of the outbox says, as a CloudEvent with a subject of its own.

An entry is written by the database in the transaction of what it tells, so an event exists exactly where its cause was
committed. It names things and says how they ended; payloads, results and errors stay in the store.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

from horae.core.cloud_events import header_value
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.jobs.job import State
from horae.core.time.instants import iso
from horae.errors import InvalidInput

OutboxKind = Literal["enqueued", "ended", "fired"]
PREFIX = "horae"
PUBLISH = "publish events"  # the name under which processes take turns at publishing
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_WAITING: State = "queued"
_FINAL: frozenset[State] = frozenset({"succeeded", "dead", "cancelled"})
_PREFIX_FORM = re.compile(r"[A-Za-z0-9_-]+(?:[.][A-Za-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One row of the outbox: what happened to a job, or what became of a fire."""

    number: int
    kind: OutboxKind
    happened_at: datetime
    job_number: int | None = None
    token: int | None = None
    queue: str | None = None
    handler: str | None = None
    owner: str | None = None
    outcome: str | None = None  # of a run, or the verdict of a fire
    state: str | None = None  # of the job after a run
    attempt: int | None = None
    schedule_key: str | None = None  # of a fire
    fire_at: datetime | None = None
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class BusMessage:
    """What is published: an entry's number, where it goes, its headers and its body."""

    number: int
    order_key: str  # messages of one key are published one after the other
    subject: str
    headers: dict[str, str]
    body: dict[str, Any]


def check_prefix(prefix: str) -> str:
    """Refuse what cannot begin a subject."""
    if not _PREFIX_FORM.fullmatch(prefix):
        raise InvalidInput("bus_prefix_unusable", prefix=prefix)
    return prefix


def event_type(entry: OutboxEntry) -> str:
    """Return the type of an event: ``job.enqueued``, ``job.failed`` (to be tried again), ``job.dead``, ``fire.ran``."""
    if entry.kind == "enqueued":
        return "job.enqueued"
    if entry.kind == "fired":
        return f"fire.{entry.outcome}"
    return f"job.{entry.state if entry.state in _FINAL else entry.outcome}"


def message(entry: OutboxEntry, *, source: str, prefix: str = PREFIX) -> BusMessage:
    """Return an entry as a CloudEvent in binary mode; *source* names the database, so that ids repeat nowhere."""
    kind = event_type(entry)
    job = None if entry.job_number is None else job_id(entry.job_number)
    about = f"schedule {entry.schedule_key}" if job is None or entry.kind == "fired" else job
    identity = f"{source}:{entry.number}"
    body: dict[str, Any] = {
        "job": job, "run": None if entry.token is None else f"{job}.{entry.token}",
        "queue": entry.queue, "handler": entry.handler, "owner": entry.owner, "outcome": entry.outcome,
        "state": _state(entry), "attempt": entry.attempt,
        "schedule": entry.schedule_key,
        "fire_at": None if entry.fire_at is None else iso(entry.fire_at),
        "happened_at": iso(entry.happened_at), "trace_id": entry.trace_id,
    }  # fmt: skip
    headers = {
        "Nats-Msg-Id": identity,
        "ce-specversion": "1.0", "ce-id": identity, "ce-source": f"urn:horae:{source}", "ce-type": f"horae.{kind}",
        "ce-subject": header_value(about), "ce-time": iso(entry.happened_at), "content-type": "application/json",
    }  # fmt: skip
    subject = f"{prefix}.{kind}.{_UNSAFE.sub('_', entry.queue or '-')}"
    given = {name: value for name, value in body.items() if value is not None}
    return BusMessage(entry.number, about, subject, headers, given)


def _state(entry: OutboxEntry) -> str | None:
    """Return the state of the job after what happened; a run that is followed by another leaves it waiting."""
    if entry.kind == "fired":
        return None
    return entry.state if entry.state in _FINAL else _WAITING


def waves(messages: list[BusMessage]) -> list[list[BusMessage]]:
    """Divide messages into groups that can be on their way together: one of each job, the earlier ones first."""
    found: list[list[BusMessage]] = []
    seen: dict[str, int] = {}
    for each in messages:
        place = seen.get(each.order_key, -1) + 1
        seen[each.order_key] = place
        if place == len(found):
            found.append([])
        found[place].append(each)
    return found
