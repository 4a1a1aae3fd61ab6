"""Every room, over one sender."""

from __future__ import annotations

from typing import Generic

from horae.api.attention import Attention
from horae.api.jobs import Jobs
from horae.api.operation import S
from horae.api.queues import Limits, Queues, Workers
from horae.api.scheduled_tasks import ScheduledTasks
from horae.api.schedules import Schedules


class Rooms(Generic[S]):
    """What Horae can do, room by room; near and far alike."""

    def __init__(self, sender: S) -> None:
        self.jobs: Jobs[S] = Jobs(sender)
        self.attention: Attention[S] = Attention(sender)
        self.schedules: Schedules[S] = Schedules(sender)
        self.scheduled_tasks: ScheduledTasks[S] = ScheduledTasks(sender)
        self.queues: Queues[S] = Queues(sender)
        self.limits: Limits[S] = Limits(sender)
        self.workers: Workers[S] = Workers(sender)
