"""The ledger behind ``once`` and ``step``: what a job, or a task of an agent, has already done, by name of the step."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from horae.core.cluster.numbers import job_id
from horae.core.time.instants import micros
from horae.errors import LeaseLost
from horae.stores.tables.jobs import jobs, ledger, task_ledger


class Ledger:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def begin(self, number: int, token: int) -> None:
        held = select(jobs.c.id).where(jobs.c.id == number, jobs.c.token == token, jobs.c.state == "running")
        if self.connection.execute(held.with_for_update()).first() is None:
            raise LeaseLost(job_id(number), token)

    def get(self, number: int, name: str) -> str | None:
        query = select(ledger.c.result).where(ledger.c.job_id == number, ledger.c.name == name)
        return self.connection.execute(query).scalar()

    def put(self, number: int, name: str, result: str, now: datetime) -> None:
        row = {"job_id": number, "name": name, "result": result, "created_at": micros(now)}
        self.connection.execute(insert(ledger), row)

    def renew(self, number: int, until: datetime) -> None:
        self.connection.execute(update(jobs).where(jobs.c.id == number).values(leased_until=micros(until)))

    def get_of_task(self, task: int, scope: str, name: str) -> str | None:
        kept = task_ledger.c
        query = select(kept.result).where(kept.task_id == task, kept.scope == scope, kept.name == name)
        return self.connection.execute(query).scalar()

    def put_of_task(self, task: int, scope: str, name: str, result: str, now: datetime) -> None:
        row = {"task_id": task, "scope": scope, "name": name, "result": result, "created_at": micros(now)}
        self.connection.execute(insert(task_ledger), row)
