"""The metadata with every table in it: to create them all at once, and to compare a database with them."""

from horae.stores.declaration import metadata
from horae.stores.tables import access, attention, audit, jobs, locks, queues, schedules

__all__ = [
    "access",
    "attention",
    "audit",
    "jobs",
    "locks",
    "metadata",
    "queues",
    "schedules",
]
