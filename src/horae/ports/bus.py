"""The outbox of a message bus, inside one transaction."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.bus import OutboxEntry
    from horae.core.cluster.moves import Cargo


@dataclass(frozen=True, slots=True)
class BusSwitch:
    """Whether events are noted, under which name of this database, since when, by whom."""

    source: str
    enabled: bool
    switched_at: datetime
    actor: str


class OutboxRows(Protocol):
    """What waits to be published, and the switch."""

    def read(self, limit: int) -> list[OutboxEntry]:
        """Return committed entries by number; one with a lower number may still be committed later."""

    def remove(self, numbers: Collection[int]) -> int:
        """Remove exactly these entries; return how many were there."""

    def waiting(self, limit: int) -> tuple[int, datetime | None]:
        """Return how many wait, counted up to *limit*, and the instant of the first."""

    def last_number(self) -> int:
        """Return the highest number of an entry, 0 where there is none."""

    def has_events_of(self, cargo: Cargo, until: int) -> bool:
        """Return whether entries up to a number are about jobs of these virtual shards."""

    def switch(self) -> BusSwitch | None: ...
    def set_switch(self, switch: BusSwitch) -> None: ...
    def missing_triggers(self) -> list[str]:
        """Return the triggers that should note events and are not there."""

    def make_triggers(self) -> None:
        """Make those that are missing; raises ``NotAllowed`` where the role may not."""

    def drop_triggers(self) -> None: ...
