"""Queues, the workers that serve them, and the audit of who did what."""

from __future__ import annotations

from horae.api.operation import GET, PAGES, POST, Call, Listing, Room, S
from horae.api.values import given
from horae.client import reading
from horae.client.answers import Entry, Queue, QueueDetail, Worker


class Queues(Room[S]):
    """Needs a token with the scope ``admin``."""

    @GET("/queues")
    def list(self, *, machinery: bool = False) -> Call[tuple[QueueDetail, ...]]:
        """Every queue that has settings, jobs or a worker; with *machinery* also that of Horae's own jobs."""
        return Call(read=reading.many(QueueDetail, "queues"), query=given(machinery=machinery or None))

    @GET("/queues/{name}")
    def get(self, name: str) -> Call[QueueDetail]:
        """One queue."""
        return Call(read=reading.one(QueueDetail), at={"name": name})

    @POST("/queues/{name}/pause")
    def pause(self, name: str, *, reason: str = "") -> Call[Queue]:
        """Hand out no more jobs of a queue; running ones go on, enqueueing goes on."""
        return Call(read=reading.one(Queue), at={"name": name}, body=given(reason=reason or None), repeats=True)

    @POST("/queues/{name}/resume")
    def resume(self, name: str, *, reason: str = "") -> Call[Queue]:
        """Hand out jobs of a queue again."""
        return Call(read=reading.one(Queue), at={"name": name}, body=given(reason=reason or None), repeats=True)

    @POST("/queues/{name}/limit")
    def limit(self, name: str, max_running: int | None, *, reason: str = "") -> Call[Queue]:
        """At most so many jobs at once, over all workers; None lifts the limit."""
        body = {"max_running": max_running, **given(reason=reason or None)}
        return Call(read=reading.one(Queue), at={"name": name}, body=body, repeats=True)

    @POST("/queues/{name}/order")
    def order(self, name: str, order: str, *, reason: str = "") -> Call[Queue]:
        """Serve by ``priority`` first, or by ``run_at`` first."""
        body = given(order=order, reason=reason or None)
        return Call(read=reading.one(Queue), at={"name": name}, body=body, repeats=True)


class Workers(Room[S]):
    """The processes that take part."""

    @GET("/workers")
    def list(self) -> Call[tuple[Worker, ...]]:
        """Who works here; workers that pull over HTTP do not register."""
        return Call(read=reading.many(Worker, "workers"))


class Audit(Room[S]):
    """Who did what to which thing, and why."""

    @PAGES("/audit")
    def list(
        self,
        *,
        object_type: str | None = None,
        object_id: str | None = None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        limit: int | None = None,
    ) -> Listing[Entry]:
        """Accountable acts, the newest first."""
        query = given(object_type=object_type, object_id=object_id, owner=owner, actor=actor, verb=verb)
        return Listing(Call(read=reading.page(Entry, "entries"), query=query), limit)
