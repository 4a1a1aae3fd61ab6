"""Which databases of a cluster a worker serves: some by choice, others while no worker else serves its queues there.

A worker that serves a database holds a lease there for each of its queues. By choice it serves a few, those that the
fewest others have chosen; beside these, every one where a queue of its own has no other holder. So no queue starves as
long as one of its workers lives, and there is no leader. Two workers that step in at once both serve for a moment,
which is harmless: jobs have leases of their own. Of those that stepped in the one with the lowest name stays, so that
they do not all step back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import blake2b

from horae.core.dataclass import dataclass

CHOICE = 4  # databases that a worker serves by choice; a cluster with no more is served whole by every worker
LEASE = timedelta(seconds=15)  # after which others step in for a worker that died
LOOK_EVERY = timedelta(seconds=2.5)  # at the holders of every database, and for the renewal of its own leases


@dataclass(frozen=True, slots=True)
class Holding:
    """The lease of a worker on a queue in one database; the instant is on the lease line of that database."""

    queue: str
    worker: str
    leased_until: datetime
    is_chosen: bool  # false: it stepped in because there was no other


def is_needed(holdings: Iterable[Holding], worker: str, queues: Collection[str], now: datetime) -> bool:
    """Return whether a worker must serve a database that it has not chosen: a queue would be without one."""
    live = [each for each in holdings if each.leased_until > now]
    holds = {each.queue for each in live if each.worker == worker}
    return any(not _is_served(live, worker, queue, steps_back=queue in holds) for queue in queues)


def _is_served(live: Iterable[Holding], worker: str, queue: str, *, steps_back: bool) -> bool:
    """Return whether another worker serves a queue; one that holds it steps back only for a choice or a lower name."""
    others = [each for each in live if each.queue == queue and each.worker != worker]
    return any(not steps_back or each.is_chosen or each.worker < worker for each in others)


def count_chosen(holdings: Iterable[Holding], worker: str, queues: Collection[str], now: datetime) -> int:
    """Return how many others have chosen a database, for the one of these queues with the fewest."""
    chosen = [each.queue for each in holdings if each.is_chosen and each.worker != worker and each.leased_until > now]
    return min((chosen.count(queue) for queue in queues), default=0)


def choose(counts: Mapping[int, int], worker: str, *, own: int, chosen: Collection[int] = ()) -> frozenset[int]:
    """Return the databases that a worker serves by choice: its own, those chosen before, then the least served.

    Ties are decided by a hash, so that workers which start together do not all choose the same.
    """
    kept = [number for number in (own, *sorted(chosen)) if number in counts]
    order = sorted(counts, key=lambda number: (counts[number], _tie(worker, number)))
    return frozenset(list(dict.fromkeys([*kept, *order]))[:CHOICE])


def _tie(worker: str, number: int) -> bytes:
    return blake2b(f"{worker} {number}".encode(), digest_size=8).digest()
