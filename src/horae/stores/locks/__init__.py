"""Locks by name: in the database, in Redis, in this process."""
