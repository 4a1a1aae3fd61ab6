"""Every room, over one sender."""

from __future__ import annotations

from typing import Generic

from horae.api.jobs import Jobs
from horae.api.operation import S


class Rooms(Generic[S]):
    """What Horae can do, room by room; near and far alike."""

    def __init__(self, sender: S) -> None:
        self.jobs: Jobs[S] = Jobs(sender)
