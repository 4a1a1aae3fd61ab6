"""Batches: jobs that belong together, and the callbacks that follow when all of them have ended.

A callback is a job that is stored with the batch and held until the batch ends. So it exists once, whatever crashes
and whichever process ends the last job: the transaction of that ending lets it run, or cancels it where its outcome
did not come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal

from horae.core.cluster.numbers import read_number, write_id
from horae.core.dataclass import dataclass
from horae.errors import NotFound

BatchState = Literal["open", "succeeded", "failed"]
BATCH_STATES: tuple[BatchState, ...] = ("open", "succeeded", "failed")
Callback = Literal["on_end", "on_success", "on_failure"]
CALLBACKS: tuple[Callback, ...] = ("on_end", "on_success", "on_failure")
PREFIX = "batch_"
HELD_BY_BATCH = "batch"  # why a callback is held
MOST_JOBS = 10_000  # of one batch: they are stored in one transaction


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs that belong together; the counts are of its jobs, without callbacks."""

    number: int
    name: str
    state: BatchState
    owner: str
    total: int
    created_at: datetime
    actor: str = ""
    key: str | None = None
    request_hash: str = ""
    ended_at: datetime | None = None
    cancel_reason: str | None = None
    on_end: int | None = None
    on_success: int | None = None
    on_failure: int | None = None
    succeeded: int = 0
    failed: int = 0

    @property
    def id(self) -> str:
        """The name by which the outside knows the batch."""
        return write_id(PREFIX, self.number)

    @property
    def open(self) -> int:
        """How many of its jobs have not ended."""
        return self.total - self.succeeded - self.failed

    @property
    def callbacks(self) -> dict[Callback, int]:
        """The callbacks that it has, by outcome, as numbers of jobs."""
        given: Mapping[Callback, int | None] = {name: getattr(self, name) for name in CALLBACKS}
        return {name: number for name, number in given.items() if number is not None}

    def end(self, *, has_failed: bool) -> BatchEnd:
        """Decide what follows when all its jobs have ended; *has_failed*: one of them is dead or was cancelled."""
        wanted: tuple[Callback, ...] = ("on_end", "on_failure" if has_failed else "on_success")
        end = BatchEnd("failed" if has_failed else "succeeded")
        for name, number in self.callbacks.items():
            (end.runs if name in wanted else end.never).append(number)
        return end


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """What follows the end of the last job of a batch: its state, the callbacks that run and those that never will."""

    state: BatchState
    runs: list[int] = field(default_factory=list)
    never: list[int] = field(default_factory=list)


def batch_number(batch_id: str) -> int:
    """Return the number behind ``batch_3``, in a cluster ``batch_17x…``; anything else cannot name a batch."""
    text = batch_id.removeprefix(PREFIX)
    number = None if text == batch_id else read_number(text)
    if number is not None:
        return number
    raise NotFound("batch_unknown", id=str(batch_id)[:40])
