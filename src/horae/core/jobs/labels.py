"""The map of labels: which jobs have a queue, handler, owner, tag or object, by their numbers.

A label says for a block of consecutive job numbers which of them have it, one bit each. Lists follow the blocks of a
label instead of reading past every job without it. What is in the map is looked at again, so it may name too many jobs,
but never too few of those below ``Labelling.labelled``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.filters import AnyOf, Term
from horae.core.jobs.job import SYSTEM, Filter

Kind = Literal["queue", "handler", "owner", "tag", "object"]
BLOCK = 32  # numbers for which one row of the map stands
LONGEST = 200  # characters of a label; a longer text is found by its beginning, and looked at again
DRAWN_WITHIN = timedelta(seconds=5)  # a number is written to its row long before


@dataclass(frozen=True, slots=True)
class Label:
    """A property that jobs are found by."""

    kind: Kind
    text: str

    @classmethod
    def of(cls, kind: Kind, text: str) -> Label:
        return cls(kind, text[:LONGEST])


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is labelled of jobs that differ in nothing but their numbers, all of one block."""

    block: int
    members: int  # one bit for each number
    queue: str
    handler: str
    owner: str
    tags: tuple[str, ...] = ()
    object_type: str | None = None
    object_id: str | None = None

    @property
    def labels(self) -> list[tuple[Kind, str]]:
        """Return kind and text of each label; plain pairs, because there are many."""
        found: list[tuple[Kind, str]] = [("queue", self.queue), ("handler", self.handler), ("owner", self.owner)]
        found += [("tag", tag) for tag in self.tags]
        if self.object_type is not None:
            found += [("object", self.object_type), ("object", f"{self.object_type}/{self.object_id or ''}")]
        return found


Blocks = dict[tuple[Kind, str, int], int]  # kind and text of a label and a block: the bits of its members


def blocks_of(found: Iterable[Labelled]) -> Blocks:
    """Return what these jobs add to the map."""
    rows: Blocks = {}
    for jobs in found:
        for kind, label in jobs.labels:
            row = (kind, label[:LONGEST], jobs.block)
            rows[row] = rows.get(row, 0) | jobs.members
    return rows


@dataclass(frozen=True, slots=True)
class Labelling:
    """How far the map reaches, and what the next step may add to it.

    A transaction may be committed long after it drew its numbers, so the map follows in two steps: numbers below *seen*
    were drawn when it was noted; when that is long enough ago they are *marked*; once every transaction of the time of
    that mark has ended (*horizon*), all that will ever be below the mark can be read.
    """

    id: int = 1  # there is one row
    labelled: int = 1  # every job below this number is in the map
    marked: int = 1
    horizon: int = 0  # the database's number of the first transaction after the mark; 0: it needs none
    seen: int = 1
    seen_at: datetime | None = None

    @property
    def is_behind(self) -> bool:
        return self.labelled < self.seen

    def advance(self, drawn: int, horizon: int, now: datetime) -> Labelling:
        """Mark what was seen long enough ago and note what is drawn by now; only after all marked jobs are labelled."""
        is_recent = self.seen_at is not None and self.seen_at <= now < self.seen_at + DRAWN_WITHIN
        if self.labelled < self.marked or is_recent:
            return self
        return replace(
            self, marked=max(self.seen, self.marked), horizon=horizon, seen=max(drawn, self.seen), seen_at=now
        )


def leading_label(wanted: Filter) -> Label | None:
    """Return the label that leads to what a filter wants by the fewest jobs, as far as can be said; None: none does."""
    exact = {field: text for term in wanted.terms if (text := _exact(term)) is not None for field in [term.field]}
    tag = wanted.tag or exact.get("tag")
    kind, _, name = exact.get("object", "").partition("/")
    kind, name = wanted.object_type or kind, wanted.object_id or name
    queue = wanted.queue or (wanted.queues[0] if len(wanted.queues) == 1 else None)
    if kind and name:
        return _object(kind, name)
    if tag:
        return Label.of("tag", tag)
    if wanted.owner not in (None, SYSTEM):
        return Label.of("owner", wanted.owner or "")
    if wanted.handler:
        return Label.of("handler", wanted.handler)
    if kind:
        return Label.of("object", kind)
    if queue:
        return Label.of("queue", queue)
    return Label.of("owner", SYSTEM) if wanted.owner else None


def _object(kind: str, name: str) -> Label:
    return Label.of("object", f"{kind}/{name}")


def _exact(term: Term) -> str | None:
    """Return the one text that a term wants; None where it wants something else."""
    if not isinstance(term, AnyOf) or term.is_excluded or len(term.texts) != 1 or term.texts[0].is_prefix:
        return None
    return term.texts[0].text
