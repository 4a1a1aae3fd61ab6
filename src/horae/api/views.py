"""Saved views: filters with a name, of one person or shared."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from horae.actions import views
from horae.api.here import Here
from horae.api.operation import DELETE, GET, POST, Call, Room, S
from horae.api.values import drop_none
from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC
from horae.core.views import ViewRoom

READER = ("tasks", "worker", "read")  # a person who may only look keeps views too
USER = ("tasks", "worker")


@dataclass(frozen=True, kw_only=True)
class View:
    """A filter with a name: of the room ``room``, visible to its author, or to all of its tenant where shared."""

    __pydantic_config__ = PYDANTIC

    id: str
    name: str
    room: ViewRoom
    filter: str
    shared: bool
    author: str
    owner: str
    created_at: datetime
    updated_at: datetime


class Views(Room[S]):
    """Saved views. The author of a view is the caller's name in the audit."""

    @GET("/views", *USER)
    def list(self, *, room: ViewRoom | None = None) -> Call[tuple[View, ...]]:
        """List the caller's own views and those shared in its tenant, by room and name."""

        def fetch(here: Here) -> Any:
            return views.find_views(here.world, owner=here.owner, author=here.actor, room=room)

        return Call(tuple[View, ...], fetch, query=drop_none(room=room))

    @POST("/views", *READER)
    def save(
        self,
        name: str,
        filter: str,  # noqa: A002  # the public name of the field
        *,
        room: ViewRoom = "jobs",
        shared: bool = False,
        reason: str = "",
    ) -> Call[View]:
        """Save a filter under a name, in place of the caller's view of that name; *shared* shows it to its tenant.

        A filter of jobs is checked; a mistake is ``InvalidFilter`` with its position. Sharing needs more than the scope
        ``read``.
        """

        def act(here: Here) -> Any:
            if shared:
                here.caller.require(*USER)
            return views.save_view(
                here.world, name, filter, owner=here.owner, author=here.actor, room=room, shared=shared, reason=reason
            )  # fmt: skip

        body = {"name": name, "filter": filter, "room": room, "shared": shared, **drop_none(reason=reason or None)}
        return Call(View, act, body=body, repeats=True)

    @POST("/views/{view_id}/share", *USER)
    def share(self, view_id: str, *, shared: bool = True, reason: str = "") -> Call[View]:
        """Show one of the caller's views to all of its tenant; with *shared* False to its author alone."""

        def act(here: Here) -> Any:
            return views.share_view(
                here.world, view_id, owner=here.owner, author=here.actor, shared=shared, reason=reason
            )

        body = {"shared": shared, **drop_none(reason=reason or None)}
        return Call(View, act, at={"view_id": view_id}, body=body, repeats=True)

    @DELETE("/views/{view_id}", *READER)
    def delete(self, view_id: str, *, reason: str = "") -> Call[None]:
        """Delete a view of one's own; an operator also deletes one that another author shares."""

        def act(here: Here) -> None:
            is_admin = here.caller.may("admin")
            views.delete_view(
                here.world, view_id, owner=here.owner, author=here.actor, any_author=is_admin, reason=reason
            )

        return Call(None, act, at={"view_id": view_id}, query=drop_none(reason=reason or None))
