"""The pulse: which parts have changed, while a reader watches."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any

from horae.actions.pulse import read_marks
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.operation import GET, STREAM, Call, Room, S, Tail
from horae.core.dataclass import dataclass
from horae.core.pulse import TENANT_PARTS, Marks, Part, changed_parts
from horae.core.values import PYDANTIC

ANYONE = ("tasks", "worker")
MOST_OFTEN = 0.5  # seconds between two messages
TENANT_EVERY = 5.0  # seconds: when others' work happens is not a tenant's business, so it looks again now and then


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """A mark for each part; where one differs from before, something in that part may have changed.

    A tenant gets none: a mark would tell when others work. ``incomplete`` names databases without an answer.
    """

    __pydantic_config__ = PYDANTIC

    at: datetime
    marks: dict[str, str] = field(default_factory=dict)
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartsChanged:
    """The parts that may have changed: read again what you show of them."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    parts: tuple[Part, ...]


class Live(Room[S]):
    """What changes, without what it changed to: for pages that are watched."""

    @GET("/live", *ANYONE)
    def get(self) -> Call[Pulse]:
        """Return the marks of all parts, to be compared with those of a later call."""

        def fetch(here: Here) -> Pulse:
            marks = {} if here.caller.sees is not None else dict(read_marks(here.world))
            return Pulse(at=here.world.clock.now(), marks=marks)

        return Call(Pulse, fetch, gather=over_all(fetch, merges.joined_marks))

    @STREAM("/live/stream", *ANYONE)
    def follow(self) -> Call[PartsChanged]:
        """Iterate over changes, at most two a second, from now on and for as long as you iterate.

        A tenant is told every five seconds to look again.
        """
        return Call(PartsChanged, _tail, longer=30)  # seconds; a service says something every 15


def _tail(here: Here) -> Tail:
    clock, is_tenant = here.world.clock, here.caller.sees is not None
    seen: Marks = {} if is_tenant else read_marks(here.world)
    looked_at = clock.monotonic()

    def read() -> list[Any]:
        nonlocal seen, looked_at
        if clock.monotonic() - looked_at < (TENANT_EVERY if is_tenant else MOST_OFTEN):
            return []
        looked_at = clock.monotonic()
        marks = {} if is_tenant else read_marks(here.world)
        parts = TENANT_PARTS if is_tenant else changed_parts(seen, marks)
        seen = marks
        return [PartsChanged(at=clock.now(), parts=parts)] if parts else []

    return Tail(read, "*")
