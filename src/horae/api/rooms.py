"""Every room, over one sender; each is imported when it is first entered.

A command that lists jobs shall not pay for the import of attention and schedules.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic

from horae.api.operation import S

if TYPE_CHECKING:
    from horae.api.access.room import Owners, Secrets, Sessions, Tokens
    from horae.api.acts import Acts
    from horae.api.admin import Admin
    from horae.api.attention.room import Attention
    from horae.api.audit import Audit
    from horae.api.error_groups import ErrorGroups
    from horae.api.governance.budgets import Budgets
    from horae.api.governance.decisions import Decisions
    from horae.api.governance.objects import Objects
    from horae.api.governance.personas import Personas
    from horae.api.governance.policies import Policies
    from horae.api.governance.report import Governance
    from horae.api.governance.reviews import Reviews
    from horae.api.health import Health
    from horae.api.jobs.batch import Batches
    from horae.api.jobs.room import Jobs
    from horae.api.live import Live
    from horae.api.overview import OverviewRoom
    from horae.api.queues import Limits, Queues, Workers
    from horae.api.scheduled_tasks.room import ScheduledTasks
    from horae.api.schedules.calendars import Calendars
    from horae.api.schedules.expectations import Expectations
    from horae.api.schedules.room import Schedules
    from horae.api.statistics import Statistics
    from horae.api.views import Views


class Rooms(Generic[S]):
    """All rooms; the same in this process and behind a service."""

    def __init__(self, sender: S) -> None:
        self._sender = sender

    @cached_property
    def jobs(self) -> Jobs[S]:
        from horae.api.jobs.room import Jobs

        return Jobs(self._sender)

    @cached_property
    def acts(self) -> Acts[S]:
        from horae.api.acts import Acts

        return Acts(self._sender)

    @cached_property
    def batches(self) -> Batches[S]:
        from horae.api.jobs.batch import Batches

        return Batches(self._sender)

    @cached_property
    def attention(self) -> Attention[S]:
        from horae.api.attention.room import Attention

        return Attention(self._sender)

    @cached_property
    def schedules(self) -> Schedules[S]:
        from horae.api.schedules.room import Schedules

        return Schedules(self._sender)

    @cached_property
    def calendars(self) -> Calendars[S]:
        from horae.api.schedules.calendars import Calendars

        return Calendars(self._sender)

    @cached_property
    def expectations(self) -> Expectations[S]:
        from horae.api.schedules.expectations import Expectations

        return Expectations(self._sender)

    @cached_property
    def scheduled_tasks(self) -> ScheduledTasks[S]:
        from horae.api.scheduled_tasks.room import ScheduledTasks

        return ScheduledTasks(self._sender)

    @cached_property
    def queues(self) -> Queues[S]:
        from horae.api.queues import Queues

        return Queues(self._sender)

    @cached_property
    def limits(self) -> Limits[S]:
        from horae.api.queues import Limits

        return Limits(self._sender)

    @cached_property
    def workers(self) -> Workers[S]:
        from horae.api.queues import Workers

        return Workers(self._sender)

    @cached_property
    def overview(self) -> OverviewRoom[S]:
        from horae.api.overview import OverviewRoom

        return OverviewRoom(self._sender)

    @cached_property
    def statistics(self) -> Statistics[S]:
        from horae.api.statistics import Statistics

        return Statistics(self._sender)

    @cached_property
    def budgets(self) -> Budgets[S]:
        from horae.api.governance.budgets import Budgets

        return Budgets(self._sender)

    @cached_property
    def error_groups(self) -> ErrorGroups[S]:
        from horae.api.error_groups import ErrorGroups

        return ErrorGroups(self._sender)

    @cached_property
    def decisions(self) -> Decisions[S]:
        from horae.api.governance.decisions import Decisions

        return Decisions(self._sender)

    @cached_property
    def governance(self) -> Governance[S]:
        from horae.api.governance.report import Governance

        return Governance(self._sender)

    @cached_property
    def objects(self) -> Objects[S]:
        from horae.api.governance.objects import Objects

        return Objects(self._sender)

    @cached_property
    def personas(self) -> Personas[S]:
        from horae.api.governance.personas import Personas

        return Personas(self._sender)

    @cached_property
    def policies(self) -> Policies[S]:
        from horae.api.governance.policies import Policies

        return Policies(self._sender)

    @cached_property
    def reviews(self) -> Reviews[S]:
        from horae.api.governance.reviews import Reviews

        return Reviews(self._sender)

    @cached_property
    def live(self) -> Live[S]:
        from horae.api.live import Live

        return Live(self._sender)

    @cached_property
    def views(self) -> Views[S]:
        from horae.api.views import Views

        return Views(self._sender)

    @cached_property
    def tokens(self) -> Tokens[S]:
        from horae.api.access.room import Tokens

        return Tokens(self._sender)

    @cached_property
    def sessions(self) -> Sessions[S]:
        from horae.api.access.room import Sessions

        return Sessions(self._sender)

    @cached_property
    def owners(self) -> Owners[S]:
        from horae.api.access.room import Owners

        return Owners(self._sender)

    @cached_property
    def secrets(self) -> Secrets[S]:
        from horae.api.access.room import Secrets

        return Secrets(self._sender)

    @cached_property
    def audit(self) -> Audit[S]:
        from horae.api.audit import Audit

        return Audit(self._sender)

    @cached_property
    def admin(self) -> Admin[S]:
        from horae.api.admin import Admin

        return Admin(self._sender)

    @cached_property
    def health(self) -> Health[S]:
        from horae.api.health import Health

        return Health(self._sender)
