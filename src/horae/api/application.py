"""The rooms of an application, and the caller that acts in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from horae.api.here import Here, tenant
from horae.api.operation import AsyncSender, Sender
from horae.api.rooms import Rooms
from horae.api.senders.local import Local
from horae.api.senders.local_async import LocalAsync
from horae.core.jobs.payloads import label

if TYPE_CHECKING:
    from horae.api.governance.decisions import Decision


class Acting(Rooms[Sender]):
    """Rooms in this process. ``aio`` holds the same rooms, to be awaited."""

    def __init__(self, here: Callable[[], Here]) -> None:
        super().__init__(Local(here))
        self.aio: Rooms[AsyncSender] = Rooms(LocalAsync(here, asyncio.to_thread))
        self._acts_here = here

    @property
    def decide(self) -> Callable[..., Decision]:
        """Decide whether an action may be done: ``app.decide("pay 40", cites=["memory:mem_ab12"], risk="high")``."""
        return self.decisions.decide

    def acting_as(self, actor: str) -> Acting:
        """Return the same rooms with another name in the audit, for example that of the person who asked."""
        name = label(actor, "actor")

        def here() -> Here:
            found = self._acts_here()
            return replace(found, caller=replace(found.caller, actor=name))

        return Acting(here)

    def for_owner(self, owner: str) -> Acting:
        """Return rooms that see and make only what belongs to one tenant."""
        name = label(owner, "owner")

        def here() -> Here:
            found = self._acts_here()
            return replace(found, caller=tenant(name, found.actor))

        return Acting(here)
