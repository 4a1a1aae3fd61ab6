"""Messages between the databases of a cluster: what becomes of a job is told to jobs elsewhere that wait for it.

A message says how something stands now, not what has happened, and carries a version: a receiver that gets it twice,
late or out of order keeps the highest. So a newer message may take the place of an older one that was not delivered
yet.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Literal

from horae.core.cluster.shard_map import ShardMap
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM

HINT = "horae messages"  # wakes what delivers them; no queue can have a blank in its name
UNPLACED = -1  # in the place of a virtual shard: the receiver was numbered before the cluster, the first database knows
FIRST_PAUSE = timedelta(milliseconds=250)
LONGEST_PAUSE = timedelta(minutes=1)
MOST_DOUBLINGS = 16
ALIAS_BYTES = 7

Kind = Literal["ask", "answer", "follow", "success", "job"]
LIVE, SUCCEEDED, UNKNOWN = "live", "succeeded", "unknown"


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as the database that sends it keeps it until it is delivered.

    An ``ask`` goes from a child to its parent, an ``answer`` from the parent to the child; a ``follow`` from a schedule
    to one that it follows, a ``success`` back. A ``job`` is itself on the way to its shard (``sent_jobs.py``).
    """

    kind: Kind
    sender: int
    receiver: int
    vshard: int
    version: int
    content: str
    created_at: datetime
    tries: int = 0

    @property
    def answer(self) -> Answer:
        return Answer(**json.loads(self.content))


@dataclass(frozen=True, slots=True)
class Answer:
    """How a parent stands: live, succeeded, dead, cancelled, or unknown; *result* is JSON as text."""

    state: str
    handler: str | None = None
    result: str | None = None
    error: str | None = None

    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def is_final(self) -> bool:
        """Whether nothing else can follow: a dead parent can be revived, a cancelled one brought back."""
        return self.state in (SUCCEEDED, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What waits in one database for another: how much in all, and how many jobs of callers' transactions."""

    to: str
    count: int
    oldest: datetime
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class UnsentMessages:
    """The messages of a database to one virtual shard: how many, since when, and when one is due."""

    vshard: int
    count: int
    oldest: datetime
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Following:
    """Whom a schedule follows in another shard, or follows no more."""

    key: str  # of the followed one
    vshard: int
    follower: str
    follower_vshard: int
    is_on: bool

    @property
    def alias(self) -> int:
        """A number for the followed one, whose own is not known here; below 0, as none else is."""
        return -1 - int.from_bytes(blake2b(self.key.encode(), digest_size=ALIAS_BYTES).digest())


def followings(
    shard_map: ShardMap | None, owner: str, key: str, after: Collection[str], before: Collection[str] = ()
) -> list[Following]:
    """Return whom a schedule follows in other shards, and whom it did *before* and does no more.

    Those of a tenant are all in one shard.
    """
    if shard_map is None or owner != SYSTEM:
        return []
    own = shard_map.vshard_of(key=key)
    places = {each: shard_map.vshard_of(key=each) for each in sorted({*after, *before})}
    return [Following(each, place, key, own, each in after) for each, place in places.items() if place != own]


def destination(shard_map: ShardMap, vshard: int) -> int:
    """Return the number of the database that gets the messages to a virtual shard."""
    return shard_map.members[0].number if vshard == UNPLACED else shard_map.database_of(vshard)


def pause_after(tries: int) -> timedelta:
    """Return how long a message rests that could not be delivered, although its database answered."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(tries, MOST_DOUBLINGS)
    return min(doubled, LONGEST_PAUSE)


def by_destination(shard_map: ShardMap, found: Mapping[int, Any]) -> dict[int, list[int]]:
    """Return virtual shards by the database that keeps them."""
    grouped: dict[int, list[int]] = {}
    for vshard in sorted(found):
        grouped.setdefault(destination(shard_map, vshard), []).append(vshard)
    return grouped


def undelivered(shard_map: ShardMap, waiting: list[UnsentMessages]) -> list[Undelivered]:
    """Return what waits, by the name of the database that it is for."""
    found: dict[int, Undelivered] = {}
    for each in waiting:
        number = destination(shard_map, each.vshard)
        known = found.get(number)
        count = each.count + (0 if known is None else known.count)
        oldest = each.oldest if known is None else min(each.oldest, known.oldest)
        jobs = each.jobs + (0 if known is None else known.jobs)
        found[number] = Undelivered(shard_map.member(number).name, count, oldest, jobs)
    return [found[number] for number in sorted(found)]
