"""For applications whose own Alembic shares the database: keep its autogenerate away from Horae's tables."""

from horae.alembic.filters import include_object

__all__ = ["include_object"]
