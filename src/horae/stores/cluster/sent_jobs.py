"""Jobs on the way: written beside a caller's transaction, stored where their virtual shard is, once each.

They are messages of the kind ``job`` in the database of that transaction. The transaction that stores one where it goes
also notes its number there, so that a repetition is known, also when the job has ended, left or been removed since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, insert, select

from horae.core.cluster.messages import Message
from horae.core.cluster.numbers import DATABASE_BITS, job_id
from horae.core.cluster.sent_jobs import JOB, SENDER, SentJob, read_job, write_job
from horae.core.jobs.job import NewJob
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import instant, micros
from horae.errors import KeyConflict
from horae.ports.jobs import Placed
from horae.stores.databases.driver import CallerDriver, marks
from horae.stores.tables.messages import messages

if TYPE_CHECKING:
    from horae.stores.cluster.shard import Entrance
    from horae.stores.jobs.jobs import Jobs

CHUNK = 500
ARRIVED = "INSERT INTO horae_arrivals (number, created_at) VALUES (%s, %s) ON CONFLICT (number) DO NOTHING"
OWN = (messages.c.kind == JOB, messages.c.sender == SENDER)


def send_jobs(
    connection: Connection, entrance: Entrance, vshard: int, new: Sequence[NewJob], now: datetime
) -> list[Placed]:
    """Write jobs of a virtual shard that another database keeps into this transaction; each has its number at once."""
    numbers, at = entrance.draw(CallerDriver(connection), [vshard] * len(new)), micros(now)
    rows: list[dict[str, Any]] = [
        {"kind": JOB, "sender": SENDER, "receiver": number, "vshard": vshard, "version": 1, "content": write_job(job),
         "created_at": at, "due_at": at, "tries": 0}
        for number, job in zip(numbers, new, strict=True)
    ]  # fmt: skip
    connection.execute(insert(messages), rows)
    return [Placed(number, request_hash=job.request_hash) for number, job in zip(numbers, new, strict=True)]


class SentJobs:
    """Jobs on the way from this database and to it, inside one transaction."""

    def __init__(self, connection: Connection, woken: set[str]) -> None:
        self.connection = connection
        self._woken = woken

    # -- where they wait -----------------------------------------------------------------------------------------

    def find(self, number: int) -> SentJob | None:
        """Return a job that waits here; None where it does not, because it was delivered or never was."""
        query = select(messages.c.content, messages.c.created_at).where(*OWN, messages.c.receiver == number)
        row = self.connection.execute(query).first()
        return None if row is None else SentJob(number, instant(row.created_at), read_job(row.content, number))

    def of_vshard(self, vshard: int | None) -> list[SentJob]:
        """Return the jobs that wait here for a virtual shard; None: for any."""
        columns = (messages.c.receiver, messages.c.content, messages.c.created_at)
        wanted = () if vshard is None else (messages.c.vshard == vshard,)
        rows = self.connection.execute(select(*columns).where(*OWN, *wanted))
        return [SentJob(number, instant(at), read_job(text, number)) for number, text, at in rows]

    def are_there(self) -> bool:
        """Return whether any job waits here."""
        return self.connection.execute(select(messages.c.receiver).where(*OWN).limit(1)).first() is not None

    def waiting(self, numbers: Collection[int]) -> set[int]:
        """Return those of these jobs that wait here."""
        found: set[int] = set()
        known = sorted(numbers)
        for start in range(0, len(known), CHUNK):
            some = messages.c.receiver.in_(known[start : start + CHUNK])
            found.update(self.connection.execute(select(messages.c.receiver).where(*OWN, some)).scalars())
        return found

    # -- where they go to ----------------------------------------------------------------------------------------

    def receive(self, message: Message, jobs: Jobs, now: datetime) -> None:
        """Store a job under the number that it was given; nothing happens where that was done before.

        Where another job has its key or its unique name, or it has joined another, it ends as cancelled and names that
        one: a caller with its id learns what became of it.
        """
        number = message.receiver
        if not CallerDriver(self.connection).change(ARRIVED, [number, micros(now)]):
            return
        job = read_job(message.content, number)
        try:
            [placed] = jobs.insert([job], message.created_at)
        except KeyConflict as conflict:
            reason = f"{conflict.job_id} has the key {conflict.key!r}, with another request"
            self._end(jobs, job, reason, now)
            return
        if placed.number != number:
            holder, name = job_id(placed.number), job.unique if job.key is None else job.key
            reason = f"joined {holder}" if placed.gathered else f"duplicate of {holder}, which has the name {name!r}"
            self._end(jobs, job, reason, now)
        self._woken.update((job.queue,) if job.expect is None else (job.queue, MACHINERY))

    def _end(self, jobs: Jobs, job: NewJob, reason: str, now: datetime) -> None:
        """Store a job that has ended already, without anything that belongs to another."""
        alone = replace(
            job, key=None, typed_key=None, unique=None, concurrency_key=None, gather=None, after=(), expect=None,
            entry=None, held="", held_for=None, budget=None, schedule_id=None, has_dependents=False,
        )  # fmt: skip
        [placed] = jobs.insert([alone], now)
        stored = jobs.get(placed.number)
        assert stored is not None
        jobs.end_waiting(stored, reason=reason, now=now)

    def arrived_from(self, source: int, before: datetime, limit: int) -> list[int]:
        """Return some numbers that came from a database before an instant."""
        low, high = source << DATABASE_BITS, (source + 1) << DATABASE_BITS
        sql = "SELECT number FROM horae_arrivals WHERE number >= %s AND number < %s AND created_at < %s LIMIT %s"
        return [row[0] for row in CallerDriver(self.connection).rows(sql, [low, high, micros(before), limit])]

    def forget_arrivals(self, numbers: Collection[int]) -> None:
        """Forget that jobs have arrived, which wait nowhere any more."""
        known = sorted(numbers)
        for start in range(0, len(known), CHUNK):
            chunk = known[start : start + CHUNK]
            sql = f"DELETE FROM horae_arrivals WHERE number IN ({marks(len(chunk))})"
            CallerDriver(self.connection).change(sql, chunk)
