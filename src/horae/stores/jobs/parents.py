"""The results of the jobs that one was enqueued after."""

from __future__ import annotations

import json

from sqlalchemy import Connection, Subquery, Text, case, cast, func, select, union_all

from horae.core.cluster.messages import LIVE, UNKNOWN
from horae.core.cluster.numbers import job_id
from horae.core.jobs.parents import ParentResult
from horae.stores.tables.batches import batch_jobs, parents
from horae.stores.tables.jobs import jobs, needs, runs
from horae.stores.tables.messages import answers


def read_results(
    connection: Connection, number: int, most_bytes: int, *, in_cluster: bool = False
) -> tuple[list[ParentResult], int]:
    """Return the parents of a job in order, with what they returned, and the size of all results, in one statement.

    Results beyond *most_bytes* together are not read. Those of parents in other shards come from their answers.
    """
    before = _before(number)
    own = cast(runs.c.result, Text)  # PostgreSQL would hand over a value, the others text
    text = func.coalesce(own, answers.c.result) if in_cluster else own
    state, handler = [jobs.c.state, runs.c.state], [jobs.c.handler, runs.c.handler]
    error = [jobs.c.last_error, runs.c.error]
    if in_cluster:
        state, handler, error = [*state, answers.c.state], [*handler, answers.c.handler], [*error, answers.c.error]
    size = func.sum(func.length(text)).over(order_by=before.c.position)
    final = (runs.c.job_id == before.c.parent_id) & runs.c.state.is_not(None)
    answered = (answers.c.job_id == number) & (answers.c.parent_id == before.c.parent_id)
    query = (
        select(
            before.c.parent_id,
            func.coalesce(*state).label("state"),
            func.coalesce(*handler).label("handler"),
            case((size <= most_bytes, text)).label("result"),
            func.coalesce(*error).label("error"),
            size.label("size"),
        )
        .select_from(before)
        .outerjoin(jobs, jobs.c.id == before.c.parent_id)
        .outerjoin(runs, final)
        .order_by(before.c.position)
    )
    if in_cluster:
        query = query.outerjoin(answers, answered)
    rows = connection.execute(query).all()
    found = [
        ParentResult(
            job_id(row.parent_id),
            None if row.state == UNKNOWN else row.state,
            row.handler,
            None if row.result is None else json.loads(row.result),
            row.error,
        )
        for row in rows
    ]
    return found, max((int(row.size or 0) for row in rows), default=0)


def read_numbers(connection: Connection, number: int, limit: int) -> list[int]:
    """Return the numbers of the first jobs that one was enqueued after, in order."""
    named = select(parents.c.parent_id).where(parents.c.job_id == number).order_by(parents.c.position).limit(limit)
    return list(connection.execute(named).scalars())


def read_remote_states(connection: Connection, number: int) -> dict[int, str]:
    """Return the last known states of a job's parents in other shards: queued where no answer has come yet."""
    answered = (answers.c.job_id == needs.c.job_id) & (answers.c.parent_id == needs.c.needed_id)
    query = select(needs.c.needed_id, needs.c.state, answers.c.state.label("answer"))
    rows = connection.execute(query.outerjoin(answers, answered).where(needs.c.job_id == number)).all()
    heard = {row.needed_id: row.answer or "queued" for row in rows if row.state == "asked" or row.answer is not None}
    return {parent: "queued" if state == LIVE else state for parent, state in heard.items()}


def _before(number: int) -> Subquery:
    """Return the jobs that one was enqueued after, or, for a callback, the jobs of its batch."""
    named = select(parents.c.parent_id, parents.c.position).where(parents.c.job_id == number)
    callback, member = batch_jobs.alias("callback"), batch_jobs.alias("member")
    called = (callback.c.job_id == number, callback.c.state == "callback", member.c.state != "callback")
    of_batch = select(member.c.job_id, member.c.job_id).join(callback, callback.c.batch_id == member.c.batch_id)
    return union_all(named, of_batch.where(*called)).subquery("before")
