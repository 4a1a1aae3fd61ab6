"""Events for a message bus: their types, subjects, ids and order (S0-40)."""

from dataclasses import replace

import pytest

from horae.core.bus import OutboxEntry, check_prefix, event_type, message, waves
from horae.errors import InvalidInput
from horae.testing.clock import NOON
from tests.support.refusals import refused

ENDED = OutboxEntry(
    7, "ended", NOON, job_number=3, token=2, queue="mail", handler="send", owner="acme", outcome="failed", attempt=1
)
TYPES = {
    "job.enqueued": replace(ENDED, kind="enqueued", outcome=None),
    "job.failed": ENDED,
    "job.dead": replace(ENDED, state="dead"),
    "job.succeeded": replace(ENDED, outcome="succeeded", state="succeeded"),
    "job.lost": replace(ENDED, outcome="lost"),
    "job.cancelled": replace(ENDED, outcome="cancelled", state="cancelled"),
    "job.snoozed": replace(ENDED, outcome="snoozed"),
    "fire.skipped": OutboxEntry(8, "fired", NOON, outcome="skipped", schedule_key="nightly"),
}


@pytest.mark.parametrize("kind", TYPES)
def test_an_event_is_named_by_what_follows_from_it(kind: str) -> None:
    assert event_type(TYPES[kind]) == kind


def test_an_event_is_a_cloud_event_with_the_id_of_its_row() -> None:
    made = message(ENDED, source="db1", prefix="shop.horae")

    assert made.subject == "shop.horae.job.failed.mail"
    assert made.headers["Nats-Msg-Id"] == made.headers["ce-id"] == "db1:7"
    assert made.headers["ce-type"] == "horae.job.failed"
    assert made.headers["ce-subject"] == "job_3"
    assert made.headers["ce-time"] == made.body["happened_at"] == "2030-01-07T12:00:00Z"
    assert made.body == {
        "job": "job_3", "run": "job_3.2", "queue": "mail", "handler": "send", "owner": "acme", "outcome": "failed",
        "state": "queued", "attempt": 1, "happened_at": "2030-01-07T12:00:00Z",
    }  # fmt: skip


def test_a_queue_that_would_break_a_subject_is_written_with_safe_characters() -> None:
    assert message(replace(ENDED, queue="a.b *>c"), source="s").subject == "horae.job.failed.a_b___c"


def test_names_in_headers_are_plain_text() -> None:
    fired = replace(TYPES["fire.skipped"], schedule_key="每天\r\nx: y")

    assert message(fired, source="s").headers["ce-subject"].isascii()
    assert "\n" not in message(fired, source="s").headers["ce-subject"]


def test_events_of_one_job_never_travel_together() -> None:
    messages = [message(replace(ENDED, number=n, job_number=job), source="s") for n, job in enumerate([1, 2, 1, 3, 1])]

    assert [[each.number for each in wave] for wave in waves(messages)] == [[0, 1, 3], [2], [4]]


@pytest.mark.parametrize("prefix", ["", "a..b", "a b", "*", "a.>", ".a"])
def test_a_prefix_that_cannot_begin_a_subject_is_refused(prefix: str) -> None:
    with refused(InvalidInput, "bus_prefix_unusable"):
        check_prefix(prefix)
