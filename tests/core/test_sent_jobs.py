"""A job on the way is read as it was written."""

from dataclasses import fields, replace
from datetime import timedelta

from horae.core.audit.entries import Entry, PrivateReason
from horae.core.cluster.sent_jobs import read_job, write_job
from horae.core.jobs.expectations import Expected
from horae.core.jobs.gathered_jobs import Gather
from horae.core.jobs.job import NewJob
from horae.testing.clock import NOON

PLAIN = NewJob("mail", '{"to":"ada"}', "default", 1, NOON, NOON)
FULL = NewJob(
    "mail", '{"to":"ä"}', "post", 0, NOON + timedelta(seconds=1), NOON, owner="ada", max_attempts=7, retry="{}",
    timeout=timedelta(seconds=90), key="k", unique="u", concurrency_key="c", concurrency_limit=3, tags='["x"]',
    trace_id="t", object_type="memory", object_id="m", action="verify", held="needs", held_for="group:g",
    has_dependents=True, group="g", schedule_id=9, fire_at=NOON, checkpoint="1", after=(3, 4), request_hash="h",
    on_parent_dead="run", rerun_of=2, typed_key="tk", budget="{}",
    entry=Entry(NOON, "ada", "enqueue", "memory", "m", before={"a": [1]}, evidence=("e",),
                private_reason=PrivateReason("why", "key")),
    gather=Gather("n", timedelta(seconds=5), timedelta(minutes=1), 2, 100, "{"), shard_key="s",
    expect=Expected("within 10m", NOON, NOON + timedelta(minutes=10)),
)  # fmt: skip


def test_a_job_with_every_field_is_read_as_it_was_written() -> None:
    assert all(getattr(FULL, each.name) != each.default for each in fields(NewJob) if each.name != "number")
    assert read_job(write_job(FULL), 42) == replace(FULL, number=42)


def test_a_plain_job_is_short() -> None:
    assert read_job(write_job(PLAIN), 42) == replace(PLAIN, number=42)
    assert len(write_job(PLAIN)) < 200
