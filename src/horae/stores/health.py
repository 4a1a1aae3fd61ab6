"""Queries about what may be wrong with an installation: stuck jobs, silent schedules, tokens that end, table sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Select, exists, func, or_, select

from horae.core.jobs.job import CLOSED
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import instant, micros
from horae.ports.chores import ChoreState
from horae.ports.queues import DueBacklog
from horae.stores.jobs.depths import Depths
from horae.stores.metadata import metadata
from horae.stores.tables.access import secrets, tokens
from horae.stores.tables.attention import lanes, tasks, waits
from horae.stores.tables.chores import chores
from horae.stores.tables.jobs import jobs, needs, runs
from horae.stores.tables.schedules import schedules


class Health:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # -- jobs ----------------------------------------------------------------------------------------------------

    def due(self, now: datetime) -> list[DueBacklog]:
        """Return the jobs that are due and may start, queue by queue; also those of Horae's own queue."""
        found = Depths(self.connection).waiting(now)
        return [DueBacklog(queue, backlog.count, backlog.since) for queue, backlog in found.items()]

    def expired_leases(self, before: datetime, *, limit: int) -> list[int]:
        """Return the running jobs whose lease ended before an instant."""
        query = select(jobs.c.id).where(jobs.c.state == "running", jobs.c.leased_until < micros(before))
        return [number for (number,) in self._rows(query.limit(limit))]

    def chores(self) -> list[ChoreState]:
        """Return every chore that a process has ever taken."""
        query = select(chores.c.name, chores.c.due_at, chores.c.leased_until, chores.c.holder)
        return [
            ChoreState(name, instant(due_at), instant(until), holder)
            for name, due_at, until, holder in self._rows(query)
        ]

    def count_dead(self) -> int:
        return self._count(select(func.count()).where(jobs.c.state == "dead", jobs.c.queue != MACHINERY))

    def count_jobs(self, state: str, *, owner: str | None, queues: Collection[str], most: int) -> int:
        """Count live or dead jobs in a state, no further than *most*."""
        query = select(jobs.c.id).where(jobs.c.state == state, jobs.c.queue != MACHINERY)
        query = query if owner is None else query.where(jobs.c.owner == owner)
        query = query.where(jobs.c.queue.in_(sorted(queues))) if queues else query
        return self._bounded(query, most)

    def due_of_owner(self, owner: str, at: datetime, *, most: int) -> dict[str, int]:
        """Count a tenant's jobs that were due by an instant, by queue, no further than *most* in all."""
        due = (jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(at), jobs.c.owner == owner)
        some = select(jobs.c.queue).where(*due).limit(most).subquery()
        rows = self._rows(select(some.c.queue, func.count()).group_by(some.c.queue))
        return {queue: int(count) for queue, count in rows}

    def count_confirmations(self, *, owner: str | None, most: int) -> int:
        """Count what agents wait for a person to confirm, no further than *most*."""
        query = select(waits.c.id).where(waits.c.state == "open", waits.c.kind == "confirm")
        if owner is not None:
            query = query.join(lanes, lanes.c.id == waits.c.lane_id).where(lanes.c.owner == owner)
        return self._bounded(query, most)

    def undriven_lanes(self, before: datetime, steady: datetime, *, limit: int) -> list[tuple[str, str]]:
        """Return the lanes, with their owners, that have tasks ready since before an instant and no driver."""
        ready = exists().where(
            tasks.c.lane_id == lanes.c.id, tasks.c.state == "ready", tasks.c.ready_since < micros(before)
        )  # fmt: skip
        undriven = or_(lanes.c.driver.is_(None), lanes.c.leased_until < micros(steady))
        query = select(lanes.c.name, lanes.c.owner).where(undriven, ready).order_by(lanes.c.id)
        return [(name, owner) for name, owner in self._rows(query.limit(limit))]

    def count_unsettled_needs(self) -> int:
        """Count the children still to be ended, released or brought back because of a parent."""
        undone = needs.c.state.in_(("failed", "revived"))
        return self._count(select(func.count()).select_from(needs).where(undone))

    def closed_handlers(self, *, limit: int) -> list[tuple[str, str, int]]:
        """Return (handler, queue, jobs) for tenants' jobs held by a handler that is closed to them, most jobs first."""
        count = func.count().label("count")
        held = select(jobs.c.held_for, jobs.c.queue, count).where(jobs.c.held == CLOSED)
        most = held.group_by(jobs.c.held_for, jobs.c.queue).order_by(count.desc(), jobs.c.held_for)
        return [(handler, queue, int(number)) for handler, queue, number in self._rows(most.limit(limit))]

    # -- schedules -----------------------------------------------------------------------------------------------

    def overdue_schedules(self, before: datetime, *, limit: int, owner: str | None = None) -> list[str]:
        """Return the keys of schedules that were due before an instant and have not fired."""
        query = select(schedules.c.schedule_key).where(schedules.c.next_due_at < micros(before))
        query = query if owner is None else query.where(schedules.c.owner == owner)
        return [key for (key,) in self._rows(query.limit(limit))]

    def inactive_schedules(self, *, limit: int, owner: str | None = None) -> list[tuple[str, str]]:
        """Return the keys of schedules that something switched off, each with the reason."""
        query = select(schedules.c.schedule_key, schedules.c.inactive).where(schedules.c.inactive.is_not(None))
        query = query if owner is None else query.where(schedules.c.owner == owner)
        return [(key, str(reason)) for key, reason in self._rows(query.limit(limit))]

    def count_enabled_schedules(self, handler: str) -> int:
        return self._count(select(func.count()).where(schedules.c.handler == handler, schedules.c.enabled == 1))

    # -- access --------------------------------------------------------------------------------------------------

    def expiring_tokens(self, now: datetime, before: datetime, *, limit: int) -> list[tuple[str, str, datetime]]:
        """Return (id, owner, end) of the valid tokens that end before an instant, the first to end first.

        Those that were made for no longer than that, such as a console link's, end as they were meant to.
        """
        valid = (tokens.c.revoked_at.is_(None), tokens.c.expires_at > micros(now))
        query = select(tokens.c.id, tokens.c.owner, tokens.c.expires_at).where(*valid)
        made_to_last = tokens.c.expires_at - tokens.c.created_at > micros(before) - micros(now)
        soon = (
            query.where(tokens.c.expires_at < micros(before), made_to_last).order_by(tokens.c.expires_at).limit(limit)
        )
        return [(token_id, owner, instant(expires_at)) for token_id, owner, expires_at in self._rows(soon)]

    def count_valid_tokens(self, now: datetime) -> int:
        open_end = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > micros(now))
        return self._count(select(func.count()).where(tokens.c.revoked_at.is_(None), open_end))

    def sealed_secrets(self, *, limit: int) -> list[tuple[str, str, str]]:
        """Return (owner, name, sealed text) of stored secrets."""
        query = select(secrets.c.owner, secrets.c.name, secrets.c.sealed).limit(limit)
        return [(owner, name, text) for owner, name, text in self._rows(query)]

    # -- sizes ---------------------------------------------------------------------------------------------------

    def table_sizes(self) -> dict[str, int]:
        """Count the rows of every table."""
        return {name: self._count(select(func.count()).select_from(table)) for name, table in metadata.tables.items()}

    def jobs_by_handler(self) -> list[tuple[str, str, str, int]]:
        """Return (queue, handler, state, jobs)."""
        by = (jobs.c.queue, jobs.c.handler, jobs.c.state)
        return [(queue, handler, state, int(number)) for queue, handler, state, number in self._counts(by)]

    def runs_by_handler(self) -> list[tuple[str, str, int]]:
        """Return (handler, outcome, runs)."""
        by = (runs.c.handler, runs.c.outcome)
        return [(handler, outcome, int(number)) for handler, outcome, number in self._counts(by)]

    def _counts(self, by: Iterable[Column[Any]]) -> Iterable[Any]:
        columns = list(by)
        return self._rows(select(*columns, func.count()).group_by(*columns))

    def _rows(self, query: Select[Any]) -> Iterable[Any]:
        return self.connection.execute(query)

    def _bounded(self, query: Select[Any], most: int) -> int:
        return self._count(select(func.count()).select_from(query.limit(most).subquery()))

    def _count(self, query: Select[Any]) -> int:
        return int(self.connection.execute(query).scalar() or 0)
