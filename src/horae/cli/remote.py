"""The verbs of commands behind a service: each asks it, and answers with the values that the near verb would.

The service knows by the token who acts, so *actor* is not sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from itertools import dropwhile, islice
from typing import Any

from horae.actions.firing import Backfill, Triggered
from horae.cli import remote_values as values
from horae.cli.terminal import Terminal
from horae.cli.verbs import FiringVerbs, ScheduleVerbs
from horae.client.client import Client
from horae.clock import SystemClock
from horae.core.audit import Entry
from horae.core.fires import Fire, Schedule
from horae.errors import Forbidden, Unauthorized
from horae.ports import ScheduleFilter, Tally


@contextmanager
def asked(terminal: Terminal) -> Iterator[Far]:
    """The verbs of the service that the terminal names."""
    with client_of(terminal) as client:
        yield Far(client)


@contextmanager
def client_of(terminal: Terminal) -> Iterator[Client]:
    """One who asks the service that the terminal names, until the command is done."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        client = Client(terminal.url or "", terminal.token)
    for warning in told:
        terminal.say(f"warning: {warning.message}")
    with client:
        try:
            yield client
        except Unauthorized as problem:
            given = "The one given is that of --token or $HORAE_TOKEN" if terminal.token else "Give it in $HORAE_TOKEN"
            raise Unauthorized(f"{problem} {given}; the operator makes one with: horae token create") from problem
        except Forbidden as problem:
            raise Forbidden(f"{problem} The one given is that of --token or $HORAE_TOKEN.") from problem


class Far:
    """A service, asked by a client."""

    def __init__(self, client: Client) -> None:
        self.now = SystemClock().now
        self.moment = nullcontext
        self.jobs = client.jobs
        self.queues, self.limits = client.queues, client.limits
        self.tokens, self.audit = client.tokens, client.audit
        self.schedules: ScheduleVerbs = FarSchedules(client)
        self.firing: FiringVerbs = FarFiring(client)


class FarSchedules:
    """Schedules of a service."""

    def __init__(self, client: Client) -> None:
        self._schedules = client.schedules

    def create(self, schedule: Schedule, /, *, actor: str, reason: str) -> Schedule:
        told: Any = values.schedule_told(schedule)
        return values.schedule(self._schedules.create(schedule.key, owner=schedule.owner, reason=reason, **told))

    def change(
        self, key: str, changes: Mapping[str, Any], /, *, owner: str, version: int | None, actor: str, reason: str
    ) -> Schedule:
        told: Any = values.timing_told(changes)
        return values.schedule(self._schedules.change(key, version=version, owner=owner, reason=reason, **told))

    def pause(self, key: str, /, *, owner: str, actor: str, reason: str) -> Schedule:
        return values.schedule(self._schedules.pause(key, owner=owner, reason=reason))

    def resume(self, key: str, /, *, owner: str, actor: str, reason: str) -> Schedule:
        return values.schedule(self._schedules.resume(key, owner=owner, reason=reason))

    def pause_group(self, group: str, /, *, owner: str, actor: str, reason: str) -> list[Schedule]:
        changed = self._schedules.pause_group(group, owner=owner, reason=reason).changed
        return [self.get(key, owner=owner) for key in changed]

    def resume_group(self, group: str, /, *, owner: str, actor: str, reason: str) -> list[Schedule]:
        changed = self._schedules.resume_group(group, owner=owner, reason=reason).changed
        return [self.get(key, owner=owner) for key in changed]

    def delete(self, key: str, /, *, owner: str, actor: str, reason: str) -> None:
        self._schedules.delete(key, owner=owner, reason=reason)

    def get(self, key: str, /, *, owner: str) -> Schedule:
        return values.schedule(self._schedules.get(key, owner=owner))

    def find(self, wanted: ScheduleFilter, /, *, limit: int, after: str | None = None) -> list[Schedule]:
        told = self._schedules.list(
            owner=wanted.owner, group=wanted.group, handler=wanted.handler, limit=None if after else limit
        )
        further = dropwhile(lambda each: after is not None and each.key <= after, told)
        return [values.schedule(each) for each in islice(further, limit)]

    def history(
        self, key: str, /, *, owner: str, limit: int, before: datetime | None = None
    ) -> list[tuple[Fire, str | None]]:
        told = self._schedules.history(key, owner=owner, limit=None if before else limit)
        further = dropwhile(lambda each: before is not None and each.fire_at >= before, told)
        return [(values.fire(each), each.job_id) for each in islice(further, limit)]

    def versions(self, key: str, /, *, owner: str, limit: int) -> list[Entry]:
        told = self._schedules.versions(key, owner=owner, limit=limit)
        return [Entry(each.at, each.actor, each.verb, "schedule", key, owner, each.reason) for each in told]

    def tally(self, schedule: Schedule, /) -> Tally:
        return values.tally(self._schedules.get(schedule.key, owner=schedule.owner).runs)

    def preview(self, schedule: Schedule, count: int, /) -> list[datetime]:
        return list(self._schedules.preview(schedule.key, count=count, owner=schedule.owner).fires)


class FarFiring:
    """Fires by hand, behind a service."""

    def __init__(self, client: Client) -> None:
        self._schedules = client.schedules

    def trigger(self, key: str, parameters: Mapping[str, Any], /, *, owner: str, actor: str, reason: str) -> Triggered:
        done = self._schedules.trigger(key, parameters or None, owner=owner, reason=reason)
        schedule = values.schedule(self._schedules.get(key, owner=owner))
        told = (values.fire(each) for each in self._schedules.history(key, owner=owner, limit=20)
                if each.kind == "manual" and each.job_id == done.job_id)  # fmt: skip
        now = SystemClock().now()
        fire = next(told, Fire(now, "ran" if done.triggered else "skipped", "manual", done.reason))
        return Triggered(schedule, fire, done.job_id)

    def backfill(
        self,
        key: str,
        start: datetime,
        end: datetime,
        /,
        *,
        dry_run: bool,
        spread: timedelta,
        owner: str,
        actor: str,
        reason: str,
    ) -> Backfill:
        done = self._schedules.backfill(key, start, end, spread=spread, dry_run=dry_run, owner=owner, reason=reason)
        return Backfill(done.fires, done.present, done.job_ids)
