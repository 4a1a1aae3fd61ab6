"""Renew the lease of a lane from a thread of its own, so that a long turn does not lose it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from horae.actions.attention import lanes
from horae.actions.attention.lanes import Drive
from horae.errors import LaneLost, StoreError
from horae.ports.world import World

log = logging.getLogger("horae.attention")


class Keeper(threading.Thread):
    """Renew the lease of a lane until :meth:`stop`, until it is lost, or until *goes_on* returns False."""

    def __init__(
        self, world: World, drive: Drive, lease: timedelta, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(name="horae-lane", daemon=True)
        self._world, self._drive, self._lease, self._goes_on = world, drive, lease, goes_on
        self._ended = threading.Event()
        self.lost = False

    def run(self) -> None:
        while not self._ended.wait(self._lease.total_seconds() / 3) and self._goes_on():
            try:
                lanes.renew(self._world, self._drive, self._lease)
            except LaneLost:
                self.lost = True
                return
            except StoreError as problem:
                log.warning("the lease of a lane could not be renewed; trying again: %s", problem)

    def stop(self) -> None:
        self._ended.set()
