"""Every room, over one sender."""

from __future__ import annotations

from typing import Generic

from horae.api.access.room import Owners, Secrets, Tokens
from horae.api.acts import Acts
from horae.api.admin import Admin
from horae.api.attention.room import Attention
from horae.api.audit import Audit
from horae.api.error_groups import ErrorGroups
from horae.api.health import Health
from horae.api.jobs.room import Jobs
from horae.api.operation import S
from horae.api.queues import Limits, Queues, Workers
from horae.api.scheduled_tasks.room import ScheduledTasks
from horae.api.schedules.room import Schedules
from horae.api.statistics import Statistics


class Rooms(Generic[S]):
    """All rooms; the same in this process and behind a service."""

    def __init__(self, sender: S) -> None:
        self.jobs: Jobs[S] = Jobs(sender)
        self.acts: Acts[S] = Acts(sender)
        self.attention: Attention[S] = Attention(sender)
        self.schedules: Schedules[S] = Schedules(sender)
        self.scheduled_tasks: ScheduledTasks[S] = ScheduledTasks(sender)
        self.queues: Queues[S] = Queues(sender)
        self.limits: Limits[S] = Limits(sender)
        self.workers: Workers[S] = Workers(sender)
        self.statistics: Statistics[S] = Statistics(sender)
        self.error_groups: ErrorGroups[S] = ErrorGroups(sender)
        self.tokens: Tokens[S] = Tokens(sender)
        self.owners: Owners[S] = Owners(sender)
        self.secrets: Secrets[S] = Secrets(sender)
        self.audit: Audit[S] = Audit(sender)
        self.admin: Admin[S] = Admin(sender)
        self.health: Health[S] = Health(sender)
