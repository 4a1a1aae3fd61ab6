"""Expectations that were not met: one row for each time that a run went missing, and one for each job that something is
expected of.
"""

from __future__ import annotations

from sqlalchemy import Index

from horae.core.schedules.expectations import MissedRun
from horae.stores.codecs import COUNT, INSTANT, NAME, NUMBER, ROW_NUMBER, SMALL, TEXT, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark

EXPECTATIONS = Declaration(
    "horae_expectations",
    MissedRun,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("subject", text(40), Mark.FIXED, required=True),
    Field("schedule", NAME, Mark.FIXED, column="schedule_key", required=True),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("handler", text(200), Mark.FIXED, required=True),
    Field("queue", text(100), Mark.FIXED, required=True),
    Field("expect", text(120), Mark.FIXED, required=True),
    Field("expected_at", INSTANT, required=True),
    Field("due_at", INSTANT, required=True),
    Field("last_due_at", INSTANT, required=True),
    Field("found_at", INSTANT, required=True),
    Field("count", COUNT, column="miss_count", required=True),
    Field("state", text(12), required=True),
    Field("ended_at", INSTANT),
    Field("reason", TEXT),
    Field("told", SMALL, required=True),
    Field("check_job", NUMBER),
    # The key makes a second record of the same missed run impossible.
    Index("horae_expectations_due", "subject", "due_at", unique=True),
    Index("horae_expectations_state", "state", "ended_at"),
    Index("horae_expectations_owner", "owner", "id"),
    info=NEVER_AGAIN,
)
expectations = EXPECTATIONS.table
