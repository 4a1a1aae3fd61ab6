"""Security check 18: a quota holds also when many ask at once, and a repeated request is not counted twice."""

from __future__ import annotations

import pytest

from horae import Horae
from horae.actions import jobs
from horae.actions.jobs import Enqueued, Request
from horae.actions.quotas import enqueue_within
from horae.errors import QuotaExceeded
from horae.stores.schema import migrate
from horae.testing.conformance_support import at_once


def test_a_tenant_never_has_more_unfinished_jobs_than_allowed(database_url: str) -> None:
    """I11."""
    with Horae(database_url) as app:
        migrate(app.engine)

        def ask(_: int) -> Enqueued | tuple[str, int]:
            try:
                return enqueue_within(app.world, [Request("work", owner="alice")], owner="alice", allowed=5)[0]
            except QuotaExceeded as refused:
                return refused.limit, refused.allowed

        told = at_once(16, ask)

        assert [each for each in told if isinstance(each, tuple)] == [("jobs", 5)] * 11
        assert app.world.store.read(lambda tx: tx.jobs.unfinished("alice", 100)) == 5
        enqueue_within(app.world, [Request("work", owner="bob")], owner="bob", allowed=5)


def test_a_repeated_request_finds_its_job_also_when_there_is_no_room_left(database_url: str) -> None:
    with Horae(database_url) as app:
        migrate(app.engine)
        asked = [Request("work", owner="alice", key="k")]
        (first,) = enqueue_within(app.world, asked, owner="alice", allowed=1)
        (again,) = enqueue_within(app.world, asked, owner="alice", allowed=1)
        assert (again.id, again.deduplicated, again.job.handler) == (first.id, True, "work")
        with pytest.raises(QuotaExceeded):
            enqueue_within(app.world, [Request("work", owner="alice")], owner="alice", allowed=1)

        (held,) = jobs.pull(app.world, worker_id="w")
        jobs.ack(app.world, held.id, held.token)

        assert enqueue_within(app.world, [Request("work", owner="alice")], owner="alice", allowed=1)
