"""Messages between the databases of a cluster: what becomes of a job is told to jobs elsewhere that wait for it.

A message says how something stands now, not what has happened, and carries a version: whoever gets it twice, late or
out of order keeps the highest. So a newer message may take the place of an older one that was not delivered yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from horae.core.cluster.shard_map import ShardMap

HINT = "horae messages"  # wakes what delivers them; no queue can have a blank in its name
UNPLACED = -1  # in the place of a virtual shard: the receiver was numbered before the cluster, the first database knows
FIRST_PAUSE = timedelta(milliseconds=250)
LONGEST_PAUSE = timedelta(minutes=1)
MOST_DOUBLINGS = 16

Kind = Literal["ask", "answer"]
LIVE, SUCCEEDED, UNKNOWN = "live", "succeeded", "unknown"


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as the database that sends it keeps it until it is delivered.

    An ``ask`` goes from a child to its parent, an ``answer`` from the parent to the child.
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
    """Messages that wait in one database for another."""

    to: str
    count: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """The messages of a database to one virtual shard: how many, since when, and when one is due."""

    vshard: int
    count: int
    oldest: datetime


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


def undelivered(shard_map: ShardMap, waiting: list[Waiting]) -> list[Undelivered]:
    """Return what waits, by the name of the database that it is for."""
    found: dict[int, Undelivered] = {}
    for each in waiting:
        number = destination(shard_map, each.vshard)
        known = found.get(number)
        count = each.count + (0 if known is None else known.count)
        oldest = each.oldest if known is None else min(each.oldest, known.oldest)
        found[number] = Undelivered(shard_map.member(number).name, count, oldest)
    return [found[number] for number in sorted(found)]
