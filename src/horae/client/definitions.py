"""What the house's workers can run, and what of it is open to tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from horae.api.operation import GET, PUT, Call, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Definition


class Definitions(Room[S]):
    """Storing them needs a token of the house (owner ``system``) with the scope ``worker``."""

    @GET("/definitions")
    def list(self) -> Call[tuple[Definition, ...]]:
        """Every stored definition, by name; a tenant sees those that are open to tenants."""
        return Call(read=reading.many(Definition, "definitions"))

    @PUT("/definitions")
    def store(self, definitions: Sequence[Mapping[str, Any]], *, app: str = "") -> Call[tuple[Definition, ...]]:
        """Say what a worker can run, when it starts: ``[{"name": "resize", "queue": "images", "tenants": True}]``.

        Tenants' jobs are handed to workers of the house only for handlers stored with ``tenants``.
        """
        body = given(app=app or None, definitions=[dict(each) for each in definitions])
        return Call(read=reading.many(Definition, "definitions"), body=body)
