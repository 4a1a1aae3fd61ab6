"""Security check 18: a quota holds also when many ask at once, and a repeated request is not counted twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from horae import Horae
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.quotas import enqueue_within
from horae.actions.jobs.requests import Enqueued, Request
from horae.actions.retention import Retention, clean
from horae.errors import NotFound, PastDue, QuotaExceeded
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import at_once


def test_a_tenant_never_has_more_unfinished_jobs_than_allowed(database_url: str) -> None:
    """I11."""
    with Horae(database_url) as app:
        migrate(app.engine)

        def ask(_: int) -> Enqueued | tuple[str, int]:
            try:
                return enqueue_within(app.world, [Request("work", owner="alice")], owner="alice", allowed=5)[0]
            except QuotaExceeded as refused:
                return refused.limit, refused.allowed

        answer = at_once(16, ask)

        assert [each for each in answer if isinstance(each, tuple)] == [("jobs", 5)] * 11
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

        (held,) = claims.pull(app.world, worker_id="w", owner="alice")
        endings.ack(app.world, held.id, held.token)

        assert enqueue_within(app.world, [Request("work", owner="alice")], owner="alice", allowed=1)


def test_a_late_repetition_opens_no_way_around_the_quota(tmp_path: Path) -> None:
    """S0-8, S0-9: what repeats a request that was in time is let pass; what comes with it is counted all the same."""
    clock = VirtualClock()
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}", clock=clock) as app:
        known = Request("work", owner="alice", key="k", run_at=clock.now(), strict=True)
        more = [Request("work", owner="alice") for _ in range(5)]
        enqueue_within(app.world, [known], owner="alice", allowed=3)
        clock.advance(timedelta(hours=1))

        assert enqueue_within(app.world, [known], owner="alice", allowed=3)[0].deduplicated
        assert enqueue_within(app.world, [known], owner="alice", allowed=0)[0].deduplicated
        for allowed in (3, 0):
            with pytest.raises(PastDue):
                enqueue_within(app.world, [replace(known, key="other")], owner="alice", allowed=allowed)
        with pytest.raises(QuotaExceeded):
            enqueue_within(app.world, [known, *more], owner="alice", allowed=3)
        assert app.world.store.read(lambda tx: tx.jobs.unfinished("alice", 100)) == 1


def test_a_key_that_outlives_its_job_is_still_known(tmp_path: Path) -> None:
    """S0-8: the key of a job that retention has taken away is answered alike with a quota and without one."""
    clock = VirtualClock()
    with Horae(f"sqlite:///{tmp_path / 'horae.db'}", clock=clock) as app:
        asked = [Request("work", owner="alice", key="k")]
        (first,) = enqueue_within(app.world, asked, owner="alice", allowed=3)
        (held,) = claims.pull(app.world, worker_id="w", owner="alice")
        endings.ack(app.world, held.id, held.token)
        clock.advance(timedelta(days=2))
        clean(app.world, Retention(runs=timedelta(days=1), keys=timedelta(days=30)))
        with pytest.raises(NotFound):
            jobs.get(app.world, first.id)

        again = [enqueue_within(app.world, asked, owner="alice", allowed=allowed)[0] for allowed in (0, 3)]

        assert [(each.id, each.deduplicated) for each in again] == [(first.id, True)] * 2
