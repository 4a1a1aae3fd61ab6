"""What becomes of the rows of each table when their virtual shard moves to another database.

Every table is here: a test compares the list with all tables, so that a new one cannot be forgotten.
"""

from __future__ import annotations

from typing import Literal

from horae.core.dataclass import dataclass

By = Literal[
    "owner", "job", "number", "message", "key", "schedule", "expectation", "budget", "checkpoint", "lane", "task",
    "batch", "act", "name",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moves:
    """Its rows go with their shard; *column* is compared with the owners, jobs, lanes and so on that go.

    By *number*: with the shard of a job that may have ended.
    """

    by: By
    column: str
    is_root: bool = True  # whether an owner may have such rows and no others


@dataclass(frozen=True, slots=True)
class Copied:
    """Its rows stay, and a copy goes along, unless a newer one is there."""

    version: str


@dataclass(frozen=True, slots=True)
class Stays:
    """History, readable where it is."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """What every database has a copy of, or what is of the house and lives in the home."""


@dataclass(frozen=True, slots=True)
class Here:
    """What each database keeps about itself."""


Class = Moves | Copied | Stays | Everywhere | Here
OWNER = Moves("owner", "owner")
BELOW = Moves("owner", "owner", is_root=False)

# In this order rows are written where they go.
CLASSES: dict[str, Class] = {
    "horae_owners": OWNER,
    "horae_tokens": OWNER,
    "horae_secrets": OWNER,
    "horae_quiet_owners": OWNER,
    "horae_budgets": OWNER,
    "horae_budget_periods": Moves("budget", "budget_id"),
    "horae_schedules": Moves("schedule", "id"),
    "horae_fires": Moves("schedule", "schedule_id"),
    "horae_follows": Moves("schedule", "schedule_id"),
    "horae_expectations": Moves("expectation", "schedule_key"),
    "horae_jobs": Moves("job", "id"),
    "horae_keys": Moves("key", "name"),
    "horae_ledger": Moves("job", "job_id"),
    "horae_needs": Moves("job", "job_id"),
    "horae_parents": Moves("job", "job_id"),
    "horae_answers": Moves("job", "job_id"),
    "horae_asks": Moves("number", "needed_id"),  # before messages, which are written by who has locked them
    "horae_followers": Moves("schedule", "followed_id"),
    "horae_messages": Moves("message", "sender"),  # the receiver is found by the map; jobs on the way stay here
    "horae_arrivals": Moves("number", "number"),
    "horae_slots": Moves("job", "job_id"),  # of concurrency keys; those of limits are each database's own
    "horae_reservations": Moves("budget", "budget_id"),
    "horae_documents": OWNER,
    "horae_session_items": OWNER,
    "horae_checkpoint_writes": Moves("checkpoint", "place"),
    "horae_checkpoints": OWNER,
    "horae_views": OWNER,
    "horae_locks": Moves("name", "name"),  # of whatever owner: they live by the hash of their name
    "horae_rates": Moves("name", "name"),
    "horae_calls": Moves("name", "rate"),
    "horae_batches": Moves("batch", "id"),
    "horae_batch_jobs": Moves("batch", "batch_id"),
    "horae_acts": OWNER,  # also one that is not over: the jobs that it walks go along, with their numbers
    "horae_act_moves": Moves("act", "act_id"),
    "horae_lanes": OWNER,
    "horae_task_ledger": Moves("task", "task_id"),  # before the tasks, by which its rows are found
    "horae_tasks": Moves("lane", "lane_id"),
    "horae_waits": Moves("lane", "lane_id"),
    "horae_events": Moves("lane", "lane_id"),
    "horae_facts": Moves("lane", "lane_id"),
    "horae_journal": Moves("lane", "lane_id"),
    "horae_journal_pictures": Moves("lane", "lane_id"),
    "horae_objects": OWNER,
    "horae_object_versions": BELOW,
    "horae_object_links": BELOW,
    "horae_evidence": BELOW,
    "horae_decisions": OWNER,
    "horae_decision_cites": BELOW,
    "horae_reviews": OWNER,
    "horae_rollbacks": OWNER,
    "horae_personas": OWNER,
    "horae_policies": OWNER,
    "horae_removals": OWNER,  # a cap of the day is counted in them
    "horae_calendars": Copied("version"),
    # -- history ---------------------------------------------------------------------------------------------------
    "horae_runs": Stays(),
    "horae_run_totals": Stays(),
    "horae_lines": Stays(),
    "horae_audit": Stays(),
    "horae_audit_reasons": Stays(),
    "horae_chains": Stays(),  # each database has a chain of its own for an owner, whole in itself
    "horae_error_groups": Stays(),
    "horae_error_counts": Stays(),
    "horae_stats": Stays(),
    "horae_outbox": Stays(),  # what happened here is published from here
    # -- of the house ----------------------------------------------------------------------------------------------
    "horae_definitions": Everywhere(),
    "horae_limits": Everywhere(),
    "horae_limit_sources": Everywhere(),
    "horae_queues": Everywhere(),
    "horae_retention": Everywhere(),
    "horae_settings": Everywhere(),
    "horae_sessions": Everywhere(),
    "horae_login_codes": Everywhere(),
    "horae_cluster_members": Everywhere(),
    "horae_vshards": Everywhere(),
    # -- of each database ------------------------------------------------------------------------------------------
    "horae_audit_guard": Here(),
    "horae_bus": Here(),
    "horae_chores": Here(),
    "horae_cluster": Here(),
    "horae_counted_partitions": Here(),
    "horae_depths": Here(),
    "horae_forwards": Here(),
    "horae_labelling": Here(),
    "horae_labels": Here(),
    "horae_lease_line": Here(),
    "horae_nodes": Here(),
    "horae_parcel_rows": Here(),
    "horae_parcels": Here(),
    "horae_retention_walks": Here(),
    "horae_roll_up": Here(),
    "horae_serving": Here(),
}
