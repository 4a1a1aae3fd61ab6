"""What becomes of the rows of each table when their virtual shard moves to another database.

Every table is here: a test compares the list with all tables, so that a new one cannot be forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

By = Literal["owner", "job", "key", "schedule", "expectation", "budget", "checkpoint", "name"]


@dataclass(frozen=True, slots=True)
class Moves:
    """Its rows go with their shard; *column* is compared with the owners, jobs, schedules or budgets that go."""

    by: By
    column: str


@dataclass(frozen=True, slots=True)
class Refuses:
    """Its rows cannot go yet: as long as the shard has some, it is not moved. *what* is said to the operator."""

    by: Literal["owner", "job"]
    column: str
    what: str


@dataclass(frozen=True, slots=True)
class With:
    """Its rows belong to rows of another table, which refuses to move or stays."""

    table: str


@dataclass(frozen=True, slots=True)
class Stays:
    """History, readable where it is."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """What every database has a copy of, or what is of the house and lives in the home."""


@dataclass(frozen=True, slots=True)
class Here:
    """What each database keeps about itself."""


Class = Moves | Refuses | With | Stays | Everywhere | Here
OWNER = Moves("owner", "owner")

# In this order rows are written where they go.
CLASSES: dict[str, Class] = {
    "horae_owners": OWNER,
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
    # -- not yet ---------------------------------------------------------------------------------------------------
    "horae_batches": Refuses("owner", "owner", "batches"),  # their ids do not name the shard
    "horae_batch_jobs": Refuses("job", "job_id", "jobs of batches"),
    "horae_acts": Refuses("owner", "owner", "bulk acts"),
    "horae_act_moves": With("horae_acts"),
    "horae_lanes": Refuses("owner", "owner", "lanes"),  # their tasks' ids do not name the shard
    "horae_tasks": With("horae_lanes"),
    "horae_waits": With("horae_lanes"),
    "horae_events": With("horae_lanes"),
    "horae_facts": With("horae_lanes"),
    "horae_journal": With("horae_lanes"),
    "horae_journal_pictures": With("horae_lanes"),
    "horae_task_ledger": With("horae_lanes"),
    "horae_objects": Refuses("owner", "owner", "governed objects"),  # erasing them reaches into audit entries
    "horae_object_versions": With("horae_objects"),
    "horae_object_links": With("horae_objects"),
    "horae_evidence": With("horae_objects"),
    "horae_decisions": Refuses("owner", "owner", "decisions"),
    "horae_decision_cites": With("horae_decisions"),
    "horae_reviews": Refuses("owner", "owner", "reviews"),
    "horae_rollbacks": Refuses("owner", "owner", "rollbacks"),
    "horae_personas": Refuses("owner", "owner", "personas"),
    "horae_policies": Refuses("owner", "owner", "policies of governance"),
    # -- history ---------------------------------------------------------------------------------------------------
    "horae_runs": Stays(),
    "horae_run_totals": Stays(),
    "horae_lines": Stays(),
    "horae_audit": Stays(),
    "horae_audit_reasons": Stays(),
    "horae_chains": Stays(),  # each database has a chain of its own for an owner, whole in itself
    "horae_error_groups": Stays(),
    "horae_error_counts": Stays(),
    "horae_removals": Stays(),
    "horae_stats": Stays(),
    "horae_outbox": Stays(),  # what happened here is published from here
    # -- of the house ----------------------------------------------------------------------------------------------
    "horae_calendars": Everywhere(),
    "horae_definitions": Everywhere(),
    "horae_limits": Everywhere(),
    "horae_limit_sources": Everywhere(),
    "horae_queues": Everywhere(),
    "horae_retention": Everywhere(),
    "horae_sessions": Everywhere(),
    "horae_tokens": Everywhere(),  # in the home, whoever owns them
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
