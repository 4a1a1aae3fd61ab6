"""The metadata with every table in it: to create them all at once, and to compare a database with them."""

from horae.stores.declaration import metadata
from horae.stores.tables import (
    access,
    acts,
    attention,
    audit,
    budgets,
    chores,
    console,
    governance,
    jobs,
    labels,
    locks,
    queues,
    retention,
    schedules,
    statistics,
    views,
)

__all__ = [
    "access",
    "acts",
    "attention",
    "audit",
    "budgets",
    "chores",
    "console",
    "governance",
    "jobs",
    "labels",
    "locks",
    "metadata",
    "queues",
    "retention",
    "schedules",
    "statistics",
    "views",
]
