"""Enqueue what several callers ask for at one moment: one commit, and an answer for each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.actions.jobs.jobs import answer_placed
from horae.actions.jobs.requests import Enqueued, Request, new_job
from horae.core.dataclass import dataclass
from horae.core.jobs.job import NewJob
from horae.errors import HoraeError
from horae.ports.jobs import Placed
from horae.ports.store import Store
from horae.ports.world import World


@dataclass(frozen=True, slots=True)
class Asked:
    """One caller's request, and the world in which it was made."""

    world: World
    request: Request


def may_share(request: Request) -> bool:
    """Return whether a request may share a transaction: one that locks other rows must not keep others waiting."""
    locks = request.after or request.debounce or request.collect
    return not (locks or request.strict or request.object_type or request.object_id or request.action)


def enqueue_together(asked: Sequence[Asked]) -> list[Enqueued | Exception]:
    """Store each job, durable when this returns; what is wrong with one refuses that one alone."""
    answers: dict[int, Enqueued | Exception] = {}
    ready: dict[int, _Ready] = {}
    for index, each in enumerate(asked):
        try:
            now = each.world.clock.now()
            ready[index] = _Ready(each.world, new_job(each.world, each.request, now), now)
        except HoraeError as refusal:
            answers[index] = refusal
    by_store: dict[int, list[int]] = {}
    for index, one in ready.items():
        by_store.setdefault(id(one.target), []).append(index)
    for indices in by_store.values():
        placed = ready[indices[0]].target.insert_each([(ready[index].new, ready[index].now) for index in indices])
        for index, where in zip(indices, placed, strict=True):
            answers[index] = ready[index].answer(where)
    return [answers[index] for index in range(len(asked))]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A request that was checked and can be stored."""

    world: World
    new: NewJob
    now: datetime

    @property
    def target(self) -> Store:
        return self.world.route_job(self.new).store

    def answer(self, where: Placed | Exception) -> Enqueued | Exception:
        if isinstance(where, Exception):
            return where
        try:
            return answer_placed(self.world, [self.new], [where], self.now)[0]
        except HoraeError as problem:  # a job that was there before could not be read
            return problem
