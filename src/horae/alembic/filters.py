"""For applications whose own Alembic shares the database: keeps its autogenerate away from our tables.

In the application's ``env.py``::

    from horae.alembic import include_object

    context.configure(connection=connection, target_metadata=metadata, include_object=include_object)
"""

from __future__ import annotations

from typing import Any

PREFIX = "horae_"


def include_object(item: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Return False for Horae's tables and their indexes and constraints; True for everything else."""
    table = name if type_ == "table" else getattr(getattr(item, "table", None), "name", None)
    return not (table or "").startswith(PREFIX)
