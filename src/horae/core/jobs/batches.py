"""Many new jobs that differ in nothing but their payloads, as a bulk enqueue makes them.

What they share is checked, encoded and sent to the database once; each job itself is made when it is asked for. The
payloads may still be on their way, so that a store can write the first while the next are checked and encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter
from typing import overload

from horae.core.jobs.job import NewJob, make_new_job

_NAMES = tuple(each.name for each in fields(NewJob))
_BEFORE = attrgetter(*_NAMES[: _NAMES.index("payload")], "payload")
_BEHIND = attrgetter(*_NAMES[_NAMES.index("payload") + 1 :])


def lone_job(jobs: Sequence[NewJob]) -> NewJob | None:
    """Return the only one of these jobs, if it is one of which nothing but its own row is written, as most are."""
    if type(jobs) is not list or len(jobs) != 1:
        return None
    job: NewJob = jobs[0]
    return None if job.is_named or job.object_type is not None else job


class AlikeJobs(Sequence[NewJob]):
    """Jobs made of one, *shared*, and a payload each, of which *rest* are to come; at least one.

    None has a name or waits for another. An error in *rest* reaches the caller that asks for the payload.
    """

    __slots__ = ("_known", "_rest", "shared")

    def __init__(self, shared: NewJob, payloads: Sequence[str], rest: Iterator[str] | None = None) -> None:
        self.shared = shared
        self._known: list[str] = payloads if isinstance(payloads, list) else list(payloads)
        self._rest: Iterator[str] = iter(()) if rest is None else rest

    @property
    def payloads(self) -> list[str]:
        """All payloads; those that are to come are waited for."""
        self._known.extend(self._rest)
        return self._known

    def each_payload(self) -> Iterator[str]:
        """Yield the payloads one by one, those to come when they are asked for; it can be repeated."""
        yield from self._known
        for payload in self._rest:
            self._known.append(payload)
            yield payload

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.payloads)

    @overload
    def __getitem__(self, index: int) -> NewJob: ...
    @overload
    def __getitem__(self, index: slice) -> AlikeJobs: ...
    def __getitem__(self, index: int | slice) -> NewJob | AlikeJobs:
        stop = index.stop if isinstance(index, slice) else index
        payloads = self._known if stop is not None and 0 <= stop < len(self._known) else self.payloads
        if isinstance(index, slice):
            return AlikeJobs(self.shared, payloads[index])
        return next(self._made([payloads[index]]))

    def __iter__(self) -> Iterator[NewJob]:
        return self._made(self.payloads)

    def _made(self, payloads: Sequence[str]) -> Iterator[NewJob]:
        *before, _ = _BEFORE(self.shared)
        columns = [*map(repeat, before), payloads, *map(repeat, _BEHIND(self.shared))]
        return map(make_new_job, *columns)
