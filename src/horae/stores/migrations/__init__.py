"""Alembic revisions; one set for all databases."""
