"""How many jobs run at once: over all, in a group, in a queue."""

from __future__ import annotations

from horae.api.operation import DELETE, GET, PUT, Call, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import RunningLimit


class Limits(Room[S]):
    """Needs a token with the scope ``admin``. A limit is named ``global``, ``group:etl`` or ``queue:mail``."""

    @GET("/limits")
    def list(self) -> Call[tuple[RunningLimit, ...]]:
        """Every limit, who set it, and how many jobs run under it."""
        return Call(read=reading.many(RunningLimit, "limits"))

    @PUT("/limits/{name}")
    def set(self, name: str, max_running: int | None, *, reason: str = "") -> Call[RunningLimit]:
        """At most so many jobs at once, whatever ``jobs.conf`` and code say; None: no limit."""
        body = {"max_running": max_running, **given(reason=reason or None)}
        return Call(read=reading.one(RunningLimit), at={"name": name}, body=body)

    @DELETE("/limits/{name}")
    def reset(self, name: str, *, reason: str = "") -> Call[RunningLimit]:
        """Forget what was set by hand: file and code decide again."""
        query = given(reason=reason or None)
        return Call(read=reading.one(RunningLimit), at={"name": name}, query=query, repeats=True)
