"""Workers: where they take jobs from, what comes next, and the nodes that are listed for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.governance.budgets import Spending
    from horae.core.jobs.job import Change, Job, Lease, Outcome
    from horae.core.jobs.parents import ParentResult
    from horae.core.jobs.steps import KeptResult
    from horae.ports.claims import Renewed

Drain = Literal["stay", "leave"]  # finish and claim nothing more; then wait to be resumed, or end
# What a repair or another chore looks after.
Open = Literal["slots", "acts", "reservations", "needs", "batches", "objects", "outbox", "lanes", "governed"]


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The result of one peek at the store: when the next work is due, and which held jobs are cancelled."""

    next_due_at: datetime | None
    next_expiry_at: datetime | None
    next_fire_at: datetime | None = None
    next_machinery_at: datetime | None = None  # of the jobs of Horae's own
    store_time: datetime | None = None
    cancelled: frozenset[int] = frozenset()
    unsealed: bool = False  # audit entries wait to be sealed
    unsealed_lines: bool = False  # lines of journals may wait to be sealed
    unrolled: bool = False  # endings wait to be counted in the statistics
    unlabelled: bool = False  # jobs wait to be added to the map of labels
    unsettled: bool = False  # jobs wait to hear that a job they need has ended
    next_object_at: datetime | None = None  # when the first governed object is, or was, due for something
    open: frozenset[Open] = frozenset()  # where something is under way that might have been left behind
    drain: Drain | None = None  # what the node that asks was asked to do


def earliest(looks: Sequence[Upcoming]) -> Upcoming:
    """Return what several databases said as one: the first instant of each kind, and whatever any of them has."""

    def first(name: str) -> datetime | None:
        return min((at for each in looks if (at := getattr(each, name)) is not None), default=None)

    instants = ("next_due_at", "next_expiry_at", "next_fire_at", "next_machinery_at", "next_object_at")
    flags = ("unsealed", "unsealed_lines", "unrolled", "unlabelled", "unsettled")
    found: dict[str, Any] = {
        **{name: first(name) for name in instants},
        **{name: any(getattr(each, name) for each in looks) for name in flags},
    }
    return replace(
        looks[0],
        **found,
        cancelled=frozenset().union(*(each.cancelled for each in looks)),
        open=frozenset().union(*(each.open for each in looks)),
        drain=next((each.drain for each in looks if each.drain is not None), None),
    )


@dataclass(frozen=True, slots=True)
class Node:
    """A process that serves queues, as listed for people."""

    node_id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    queues: Mapping[str, int] = field(default_factory=dict)
    state: str = "running"
    release: str | None = None  # of the application, as it says itself
    busy: Mapping[str, int] | None = None  # slots in use, by queue; None where it does not say
    loop_lag: timedelta | None = None  # the longest that its event loop kept anything waiting since the last heartbeat
    memory: int | None = None  # bytes of its process that are in memory
    drain: Drain | None = None  # asked to claim nothing more, and then to stay or to leave
    drain_at: datetime | None = None
    drain_by: str | None = None
    drain_reason: str | None = None

    def serves(self, queue: str) -> bool:
        """Return whether it claims jobs of a queue."""
        return self.drain is None and queue in self.queues


class NodeRows(Protocol):
    def all(self) -> list[Node]: ...
    def get(self, node_id: str, *, lock: bool = False) -> Node | None: ...
    def put(self, node: Node) -> None: ...
    def set_drain(self, node: Node) -> None:
        """Write what a node was asked to do; its heartbeats do not touch that."""

    def remove(self, node_id: str) -> None:
        """Take a node off the list; its release stays known for a day, because its last runs are looked at later."""

    def releases(self, node_ids: Collection[str]) -> dict[str, str]:
        """Return the releases of these nodes, also of those that have left lately."""

    def forget_silent(self, before: datetime) -> int: ...


class JobSource(Protocol):
    """The source from which a worker takes jobs and to which it reports outcomes: a store, a service or a bus.

    Calls block, so a worker makes them in threads, and each of them ends in bounded time. A source that does not answer
    raises ``StoreError`` or ``ServiceUnavailable``; the worker keeps what it has and tries again. To give a job back is
    an ending like any other: ``released``.
    """

    def claim(self, queue: str, limit: int, *, worker_id: str, lease: timedelta) -> list[Job]:
        """Take up to *limit* due jobs of one queue; the lease counts from now."""

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        """Return what is due next, and whether the node *node_id* was asked to drain.

        With *node* send its heartbeat too; with *worker_id* return which of its jobs should stop.
        """

    def settle(self, batch: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        """End attempts; answers, by the id of the job, what became of each, None where the lease had been lost."""

    def renew(self, leases: Sequence[Lease], *, lease: timedelta) -> Renewed:
        """Extend leases from now on; a job that is missing from the answer has been lost."""

    def progress(self, lease: Lease, value: Any) -> None:
        """Show how far an attempt has come; ``LeaseLost`` where it is no longer ours."""

    def checkpoint(self, lease: Lease, value: Any) -> None:
        """Keep what a later attempt needs to go on from here."""

    def once(
        self,
        lease: Lease,
        step: str,
        work: Callable[[Any], Any],
        *,
        limit: timedelta | None = None,
        held_for: timedelta | None = None,
    ) -> Any:
        """Run ``work(connection)`` and keep its result in one transaction; ``NeedsDatabase`` where there is none."""

    def recall(self, lease: Lease, step: str) -> KeptResult | None:
        """Return the result that an attempt at the job stored for a step."""

    def keep(self, lease: Lease, step: str, value: Any) -> Any:
        """Store the result of a step that has run; return the one that counts."""

    def parents(self, lease: Lease) -> tuple[ParentResult, ...]:
        """Return the jobs that this one was enqueued after, with what they returned."""

    def spend(self, lease: Lease, cost: Mapping[str, int], key: str) -> Spending:
        """Reserve what an effect of an attempt may cost; the same key is reserved once."""

    def spent(self, lease: Lease, cost: Mapping[str, int], key: str | None) -> None:
        """Say what an effect really cost, or, without a key, the attempt as a whole."""

    def withdraw(self) -> None:
        """Say that no claim follows: what was asked for and has not been taken goes back. It returns at once."""

    def leave(self, node: Node) -> None:
        """Take a worker that ends off the list of nodes."""

    def hears(self) -> bool:
        """Return whether hints about new work arrive; if not, the worker looks often."""

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call *listener* with a queue's name ("*" for any) from any thread; the answer ends the subscription."""
