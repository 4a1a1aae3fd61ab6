"""Dispatch of jobs over a message bus: subjects, messages, and how long a worker waits for what it asked for.

A worker *asks* for jobs with its free slots. A relay, which has the database, claims jobs for it and sends each with
its token and its lease to the worker's own subject. Everything else is a *call* with an answer: renew, settle, progress
and so on, with the arguments and values of the HTTP API. The store is the truth: the bus may lose or repeat messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from horae.core.bus import PREFIX
from horae.core.dataclass import dataclass
from horae.core.time.spans import span
from horae.errors import InvalidInput

# Calls of workers, by the names that the operations have in the rooms.
CALLS = (
    "renew", "settle", "progress", "peek", "recall_step", "keep_step", "parents", "spend", "spent", "store_definitions",
    "enqueue", "enqueue_many",
)  # fmt: skip
ENQUEUES = ("enqueue", "enqueue_many")  # those of them that handlers may call for other jobs than their own
RELAY = "dispatch jobs"  # the name under which processes take turns as the relay of all databases
RELAY_OF_ONE = "dispatch jobs of one database"  # and, in a cluster, as that of each database
ANY = "any"  # the name of the relay that serves who names none; others have the number of their database
LONGEST_HOLD = timedelta(seconds=5)
LONGEST_PATIENCE = timedelta(seconds=10)
MOST_SLOTS = 1000
LONGEST_ID = 200
_ADDRESS = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of dispatch; *prefix* is that of events, whose stream must not take them too."""

    prefix: str = PREFIX

    @property
    def root(self) -> str:
        return f"{self.prefix}_work"

    @property
    def ask(self) -> str:
        """Where workers ask for jobs. Not kept by a stream: an ask that no relay hears is repeated."""
        return f"{self.root}.ask"

    def ask_of(self, relay: str | None) -> str:
        """Where workers ask the relay of one database."""
        return self.ask if relay is None else f"{self.ask}.{relay}"

    @property
    def announce(self) -> str:
        """Where the relays of a cluster say that they are there. Not kept by a stream."""
        return f"{self.root}.announce"

    @property
    def calls(self) -> str:
        """What the stream of calls keeps."""
        return f"{self.root}.call.>"

    def call(self, name: str, relay: str | None = None) -> str:
        """Where an operation is called; ``*`` stands for any of them."""
        return f"{self.root}.call.{name}" if relay is None else f"{self.root}.call.{name}.{relay}"

    def called(self, subject: str) -> str:
        """Return the name of the operation that was called on a subject."""
        return subject.removeprefix(f"{self.root}.call.").partition(".")[0]

    @property
    def deliveries(self) -> str:
        """What the stream of jobs and answers keeps."""
        return f"{self.root}.to.>"

    def to(self, address: str) -> str:
        """Where the jobs and answers for one worker go."""
        return f"{self.root}.to.{address}"


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's free slots in one queue; none takes back what it asked for before."""

    id: str
    to: str  # its address on the bus
    worker: str  # its id among the workers
    queue: str
    slots: int
    lease: timedelta

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels."""
        return {
            "id": self.id, "to": self.to, "worker": self.worker, "queue": self.queue, "slots": self.slots,
            "lease": self.lease.total_seconds(),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a relay of a cluster says to all workers: that it is there, or ends, and where jobs wait for an ask."""

    relay: str
    due: tuple[str, ...] = ()  # queues with due jobs that no worker asks this relay for
    ends: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels."""
        return {"relay": self.relay, "due": list(self.due), "ends": self.ends}


@dataclass(frozen=True, slots=True)
class BusCall:
    """An operation that a worker calls, and where its answer goes."""

    id: str
    to: str
    name: str
    arguments: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it as it travels; its name is part of the subject."""
        return {"id": self.id, "to": self.to, "arguments": self.arguments}


def hold_for(lease: timedelta) -> timedelta:
    """Return how long a relay keeps an ask open while nothing is due."""
    return min(lease / 6, LONGEST_HOLD)


def patience(lease: timedelta) -> timedelta:
    """Return until when, counted from the ask, a worker takes the jobs that it asked for.

    The lease began after the ask, so that two thirds of it are left then, enough to renew it. A later job is given back
    unstarted, and a relay that could not hand it over until then takes it back: no lease runs out on the way.
    """
    return min(lease / 3, LONGEST_PATIENCE)


def read_ask(raw: Any) -> Ask:
    """Read an ask as a worker sent it."""
    slots = _field(raw, "slots", int)
    if not 0 <= slots <= MOST_SLOTS:
        raise InvalidInput("out_of_range", name="slots", value=slots, least=0, most=MOST_SLOTS)
    lease = span(_field(raw, "lease", (int, float)))
    return Ask(_text(raw, "id"), read_address(raw), _text(raw, "worker"), _text(raw, "queue"), slots, lease)


def read_announcement(raw: Any) -> Announcement:
    """Read what a relay has announced."""
    relay, due = _text(raw, "relay"), raw.get("due", [])
    if not _ADDRESS.fullmatch(relay) or not isinstance(due, list) or not all(isinstance(each, str) for each in due):
        raise InvalidInput("bus_message_unreadable", field="relay")
    return Announcement(relay, tuple(due), raw.get("ends") is True)


def read_call(name: str, raw: Any) -> BusCall:
    """Read a call as a worker sent it; its arguments are checked by the operation."""
    if name not in CALLS:
        raise InvalidInput("choice_unknown", name="call", value=name, choices=list(CALLS))
    return BusCall(_text(raw, "id"), read_address(raw), name, _field(raw, "arguments", dict))


def read_address(raw: Any) -> str:
    """Read where the answer to a message goes."""
    address = _text(raw, "to")
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput("bus_address_unusable", address=address)
    return address


def _text(raw: Any, name: str) -> str:
    text: str = _field(raw, name, str)
    if not 0 < len(text) <= LONGEST_ID:
        raise InvalidInput("bus_message_unreadable", field=name)
    return text


def _field(raw: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    value = raw.get(name) if isinstance(raw, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInput("bus_message_unreadable", field=name)
    return value
