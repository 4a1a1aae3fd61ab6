"""Attention: lanes, their tasks, waits, events and facts, and the journal."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from sqlalchemy import CheckConstraint, Index, PrimaryKeyConstraint
from sqlalchemy import text as sql

from horae.core.attention.lanes import TABLES, Event, Lane, Line, Picture, StoredFact, Task, TaskWait
from horae.stores.codecs import (
    COUNT,
    FLAG,
    INSTANT,
    JSON_TEXT,
    LONG_TEXT,
    NAME,
    NUMBER,
    ROW_NUMBER,
    SMALL,
    TEXT,
    Codec,
    LongText,
    text,
)
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark


def _number() -> Field:
    return Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True)


def _where(condition: str, name: str, *columns: str) -> Index:
    """Return an index of the rows that fulfil a condition; of all rows where the database has no such indexes."""
    where = {"where": sql(condition)}
    return Index(name, *columns, info={"sqlite": where, "postgresql": where})


# One agent's attention: every change of a lane happens behind the lock of its row.
LANES = Declaration(
    "horae_lanes",
    Lane,
    _number(),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("name", text(200), Mark.FIXED, required=True),
    Field("epoch", NUMBER, required=True, server_default="0"),
    Field("driver", text(200)),
    Field("leased_until", INSTANT),
    Field("seq", NUMBER, required=True, server_default="0"),
    Field("override", JSON_TEXT),
    Field("rules", JSON_TEXT),
    Field("created_at", INSTANT, Mark.FIXED, required=True),
    Field("kinds", JSON_TEXT),  # the kinds of tasks that its driver knows; empty: all
    Index("horae_lanes_name", "owner", "name", unique=True),
    info=NEVER_AGAIN,
)
lanes = LANES.table

TASKS = Declaration(
    "horae_tasks",
    Task,
    _number(),
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("kind", text(100), required=True),
    Field("state", text(12), required=True),
    # The lane while it runs, else empty: two at once are impossible.
    Field("focus", NUMBER, Mark.INTERNAL, source="focused_lane", unique=True),
    Field("base", SMALL, required=True),
    Field("payload", LONG_TEXT, required=True),
    Field("phase", text(8), required=True),
    Field("context", LONG_TEXT),
    Field("note", TEXT),
    Field("key", NAME, column="task_key"),
    Field("created_at", INSTANT, required=True),
    Field("start_at", INSTANT),
    Field("ready_since", INSTANT),
    Field("due_by", INSTANT),
    Field("expires_at", INSTANT),
    Field("stack_index", COUNT, column="place"),
    Field("turn", COUNT, required=True),
    Field("step", COUNT, required=True),
    Field("intent", LONG_TEXT),
    Field("effect", text(16)),
    Field("holds", FLAG, required=True),
    Field("held_since", INSTANT),
    Field("cancel_requested", FLAG, required=True),
    Field("clean_up", COUNT),
    Field("errors", COUNT, required=True),
    Field("crashes", COUNT, required=True),
    Field("result", LONG_TEXT),
    Field("reason", TEXT),
    Field("start_job", NUMBER),
    Field("deadline_job", NUMBER),
    Field("parent", NUMBER, column="parent_id"),
    Field("charged", TEXT),
    CheckConstraint("(state = 'running') = (focus IS NOT NULL)", name="horae_tasks_focus"),
    Index("horae_tasks_state", "lane_id", "state"),
    Index("horae_tasks_live", "state"),
    Index("horae_tasks_key", "lane_id", "task_key", unique=True),
    # A step reads a few rows of the backlog, however long it is: the oldest of each priority, and what has a deadline.
    Index("horae_tasks_backlog", "lane_id", "state", "base", "ready_since", "id"),
    Index("horae_tasks_age", "lane_id", "state", "ready_since"),
    _where("due_by IS NOT NULL", "horae_tasks_due", "lane_id", "state", "base", "due_by"),
    _where("expires_at IS NOT NULL", "horae_tasks_expiry", "lane_id", "state", "expires_at"),
    _where("parent_id IS NOT NULL", "horae_tasks_parent", "parent_id"),
    info=NEVER_AGAIN,
)
tasks = TASKS.table

WAITS = Declaration(
    "horae_waits",
    TaskWait,
    _number(),
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("task", NUMBER, column="task_id", required=True),
    Field("key", text(200), column="wait_key", required=True),
    Field("kind", text(8), required=True),
    Field("state", text(12), required=True),
    Field("deadline", INSTANT, required=True),
    Field("opened_at", INSTANT, required=True),
    Field("job", NUMBER, column="job_id"),
    Field("closed_at", INSTANT),
    Field("event", NUMBER),
    Field("intent", LONG_TEXT),
    Field("intent_hash", text(64)),
    Field("grant", text(64), column="grant_key"),
    Field("granted_at", INSTANT),
    Field("used_at", INSTANT),
    Field("decided_by", NAME),
    Index("horae_waits_key", "lane_id", "wait_key", "state", "id"),
    Index("horae_waits_task", "task_id", "state"),
    Index("horae_waits_state", "state"),
    info=NEVER_AGAIN,
)
waits = WAITS.table

EVENTS = Declaration(
    "horae_events",
    Event,
    _number(),
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("key", text(200), column="event_key", required=True),
    Field("event_id", NAME),
    Field("state", text(8), required=True),
    Field("data", LONG_TEXT, required=True),
    Field("posted_at", INSTANT, required=True),
    Field("closed_at", INSTANT),
    Field("reason", TEXT),
    Field("task", NUMBER, column="task_id"),
    Field("actor", NAME, required=True),
    Index("horae_events_id", "lane_id", "event_id", unique=True),
    Index("horae_events_key", "lane_id", "event_key", "state", "id"),
    Index("horae_events_state", "lane_id", "state", "id"),
    info=NEVER_AGAIN,
)
events = EVENTS.table

FACTS = Declaration(
    "horae_facts",
    StoredFact,
    _number(),
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("task", NUMBER, column="task_id", required=True),
    Field("kind", text(24), required=True),
    Field("at", INSTANT, required=True),
    Field("data", LONG_TEXT, required=True),
    Field("turn", COUNT),
    Field("about", LONG_TEXT),  # what Horae says of the data; empty in rows of before, where it is among them
    Index("horae_facts_task", "task_id", "turn", "id"),
    Index("horae_facts_lane", "lane_id"),
    info=NEVER_AGAIN,
)
facts = FACTS.table


def _read_changes(stored: str) -> list[Any]:
    changes = json.loads(stored)
    for table, number, new in changes:
        if table not in TABLES or not isinstance(number, int) or not isinstance(new, dict):
            raise ValueError(f"a change of {table} {number}")
    return list(changes)


def _read_tables(stored: str) -> dict[str, dict[int, dict[str, Any]]]:
    return {table: {int(number): row for number, row in rows.items()} for table, rows in json.loads(stored).items()}


_encode = partial(json.dumps, ensure_ascii=False)
_CHANGES = Codec(LongText, _read_changes, lambda changes: _encode(list(changes)))
_FACTS = Codec(LongText, lambda stored: dict(json.loads(stored)), lambda details: _encode(dict(details)))

JOURNAL = Declaration(
    "horae_journal",
    Line,
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("seq", NUMBER, required=True),
    Field("at", INSTANT, required=True),
    Field("cause", text(40), required=True),
    Field("task", NUMBER, column="task_id"),
    Field("before", text(12), column="state_before"),
    Field("after", text(12), column="state_after"),
    Field("changes", _CHANGES, required=True),
    Field("details", _FACTS, column="told", required=True),
    Field("control", text(64), required=True),
    Field("epoch", NUMBER, required=True),
    Field("hash", text(64)),
    PrimaryKeyConstraint("lane_id", "seq"),
    Index("horae_journal_task", "lane_id", "task_id", "seq"),
)
journal = JOURNAL.table

# What was alive after a line, folded once, so that a look at the past need not read all lines before it.
PICTURES = Declaration(
    "horae_journal_pictures",
    Picture,
    Field("lane", NUMBER, column="lane_id", required=True),
    Field("seq", NUMBER, required=True),
    Field("rows", COUNT, column="row_count", required=True),
    Field("tables", Codec(LongText, _read_tables, _encode), required=True),
    PrimaryKeyConstraint("lane_id", "seq"),
)
pictures = PICTURES.table
